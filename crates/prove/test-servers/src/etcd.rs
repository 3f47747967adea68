//! An etcd of one's own, for tests: the real program, on free ports, in a folder.
//!
//! With or without TLS.

use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::{LOOKS, PAUSE, free_port};

/// A running etcd, or one that [`Server::kill`] ended. Killed when dropped.
#[derive(Debug)]
pub struct Server {
    folder: PathBuf,
    client_port: u16,
    peer_port: u16,
    tls: Option<TlsFiles>,
    process: Option<Child>,
}

/// PEM files of a server that shows a certificate and asks its clients for one.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub ca: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Server {
    /// Starts the program `etcd` with its data in `folder`, and waits until it listens.
    pub fn start(folder: &Path) -> io::Result<Self> {
        Self::start_with(folder, None)
    }

    /// The same, for clients with a certificate only.
    pub fn start_with(folder: &Path, tls: Option<TlsFiles>) -> io::Result<Self> {
        let mut server = Self {
            folder: folder.to_owned(),
            client_port: free_port()?,
            peer_port: free_port()?,
            tls,
            process: None,
        };
        server.restart()?;
        Ok(server)
    }

    /// Where clients reach it; the same after a restart.
    pub fn address(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.client_port)
    }

    /// Ends it without a farewell, like a crash.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Fails only if it has ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts it again, with its data and on the same ports.
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill();
        let client = self.address();
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        let mut command = Command::new("etcd");
        if let Some(TlsFiles {
            ca,
            certificate,
            key,
        }) = &self.tls
        {
            command.arg("--client-cert-auth");
            for (option, file) in [
                ("--trusted-ca-file", ca),
                ("--cert-file", certificate),
                ("--key-file", key),
            ] {
                command.arg(option).arg(file);
            }
        }
        let process = command
            .arg("--data-dir")
            .arg(self.folder.join("data"))
            .args(["--name", "test"])
            .args(["--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .arg(format!("--initial-cluster=test={peer}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("cannot run etcd: {error}")))?;
        self.process = Some(process);
        for _ in 0..LOOKS {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.client_port)).is_ok() {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        Err(io::Error::other("etcd does not listen"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
