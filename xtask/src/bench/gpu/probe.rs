//! Asking what listens on loopback, and whether a port is free.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(5);

/// The body of an answer with status 200. HTTP/1.0, where a body lasts until the server closes.
pub(super) async fn get(port: u16, path: &str) -> anyhow::Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        anyhow::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = tokio::time::timeout(PATIENCE, exchange).await;
    let answer = answer.with_context(|| format!("port {port} did not answer"))??;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer of HTTP")?;
    let status = head.split(' ').nth(1);
    ensure!(status == Some("200"), "GET {path}: status {status:?}");
    Ok(body.to_owned())
}

pub(super) fn free_ports(ports: &[u16]) -> anyhow::Result<()> {
    for &port in ports {
        TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("port {port} is in use; --port chooses others"))?;
    }
    Ok(())
}
