//! A NATS of one's own, for tests: the real program, on a free port.

use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::{LOOKS, PAUSE, free_port};

/// A running NATS server, or one that [`Server::kill`] ended. Killed when dropped.
#[derive(Debug)]
pub struct Server {
    program: PathBuf,
    /// Where it keeps streams, if it has any.
    store: Option<PathBuf>,
    port: u16,
    process: Option<Child>,
}

impl Server {
    /// Starts the program `nats-server`, and waits until it listens.
    pub fn start() -> io::Result<Self> {
        Self::begin("nats-server".into(), None)
    }

    /// Starts a program with JetStream, which keeps its streams in a folder.
    pub fn start_with_streams(program: &Path, store: &Path) -> io::Result<Self> {
        Self::begin(program.to_owned(), Some(store.to_owned()))
    }

    fn begin(program: PathBuf, store: Option<PathBuf>) -> io::Result<Self> {
        let mut server = Self {
            program,
            store,
            port: free_port()?,
            process: None,
        };
        server.restart()?;
        Ok(server)
    }

    /// Where clients reach it; the same after a restart.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Ends it without a farewell, like a crash.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Fails only if it has ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts it again, on the same port.
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill();
        let mut command = Command::new(&self.program);
        if let Some(store) = &self.store {
            command.arg("--jetstream").arg("--store_dir").arg(store);
        }
        let process = command
            .args(["-a", "127.0.0.1", "-p", &self.port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                let program = self.program.display();
                io::Error::new(error.kind(), format!("cannot run {program}: {error}"))
            })?;
        self.process = Some(process);
        for _ in 0..LOOKS {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        Err(io::Error::other("nats-server does not listen"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
