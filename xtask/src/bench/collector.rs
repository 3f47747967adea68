//! A collector for measurements: takes spans over OTLP/HTTP, counts the batches, keeps nothing.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The largest batch that is read.
const MOST_BYTES: usize = 16 << 20;

/// Runs in a thread of its own until the process ends.
pub(super) struct Collector {
    endpoint: String,
    batches: Arc<AtomicUsize>,
}

impl Collector {
    pub(super) fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let batches = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&batches);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counted = Arc::clone(&counted);
                // One that breaks off is the exporter's to notice.
                thread::spawn(move || take(&stream, &counted));
            }
        });
        Ok(Self { endpoint, batches })
    }

    /// What sends a server's spans here.
    pub(super) fn options(&self) -> [&str; 6] {
        [
            "--otlp-endpoint",
            &self.endpoint,
            "--otlp-protocol",
            "http/protobuf",
            "--trace-sample",
            "0.1",
        ]
    }

    pub(super) fn batches(&self) -> usize {
        self.batches.load(Ordering::Relaxed)
    }
}

fn take(mut stream: &TcpStream, batches: &AtomicUsize) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; MOST_BYTES.min(length)];
        reader.read_exact(&mut body)?;
        batches.fetch_add(1, Ordering::Relaxed);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
    }
}
