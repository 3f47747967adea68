//! Servers that tests start: the genuine programs where there are any, and a stand-in for
//! Kubernetes, of which no test machine has a cluster. Nothing that ships uses this crate.

pub mod dynamo;
pub mod etcd;
pub mod kubernetes;
pub mod nats;

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

/// How often to look whether a server listens, and how many times before giving up.
const PAUSE: Duration = Duration::from_millis(50);
const LOOKS: u32 = 400;

fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}
