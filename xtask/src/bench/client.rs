//! The cheapest client that still checks what it gets.
//!
//! The client shares two cores with the server, so a comfortable HTTP library would be
//! measured along with it. This one keeps a connection, sends prepared bytes, and counts
//! events in what comes back without parsing them.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// What every event with text contains and nothing else does.
const EVENT: &[u8] = b"\ndata: {";
const DONE: &[u8] = b"data: [DONE]\n\n";
/// End of a chunked body.
const END: &[u8] = b"\r\n0\r\n\r\n";

#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// One answered request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) first: Duration,
    pub(crate) events: u64,
}

impl Client {
    pub(crate) async fn connect(address: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::with_capacity(64 << 10),
        })
    }

    /// Sends a streaming request and reads until its end.
    pub(crate) async fn request(&mut self, bytes: &[u8]) -> anyhow::Result<Served> {
        let began = Instant::now();
        let first = self.begin(bytes).await?;
        let first = first.duration_since(began);
        let mut events = 0;
        loop {
            events += count(&self.buffer, EVENT);
            if self.buffer.ends_with(END) {
                ensure!(find(&self.buffer, DONE), "a stream ended without [DONE]");
                self.buffer.clear();
                return Ok(Served { first, events });
            }
            // Keep what could be the start of a pattern that the next read completes.
            let keep = self.buffer.len().min(DONE.len() + END.len());
            let from = self.buffer.len() - keep;
            events -= count(&self.buffer[from..], EVENT);
            self.buffer.drain(..from);
            self.read().await?;
        }
    }

    /// Sends a streaming request and returns once its first event is there.
    pub(crate) async fn begin(&mut self, bytes: &[u8]) -> anyhow::Result<Instant> {
        self.buffer.clear();
        self.stream.write_all(bytes).await?;
        while !find(&self.buffer, EVENT) {
            self.read().await?;
            let head = &self.buffer[..self.buffer.len().min(12)];
            ensure!(
                b"HTTP/1.1 200".starts_with(head),
                "unexpected answer: {}",
                String::from_utf8_lossy(&self.buffer)
            );
        }
        Ok(Instant::now())
    }

    /// Sends a request that is answered in one piece, and reads how long its prompt was.
    pub(crate) async fn prompt_tokens(&mut self, bytes: &[u8]) -> anyhow::Result<usize> {
        self.buffer.clear();
        self.stream.write_all(bytes).await?;
        while !self.buffer.ends_with(b"}") {
            self.read().await?;
        }
        let text = String::from_utf8_lossy(&self.buffer);
        let (_, body) = text.split_once("\r\n\r\n").context("no body")?;
        let answer: serde_json::Value = serde_json::from_str(body)?;
        let tokens = answer["usage"]["prompt_tokens"]
            .as_u64()
            .with_context(|| format!("unexpected answer: {text}"))?;
        Ok(tokens as usize)
    }

    /// Counts the events that arrive until `deadline`.
    pub(crate) async fn count_until(&mut self, deadline: Instant) -> anyhow::Result<u64> {
        let mut events = 0;
        // Each write of a slow stream is a whole event, so none spans two reads.
        while let Ok(read) = timeout_at(deadline, self.read_anew()).await {
            read?;
            events += count(&self.buffer, EVENT);
        }
        Ok(events)
    }

    async fn read_anew(&mut self) -> anyhow::Result<()> {
        self.buffer.clear();
        self.read().await
    }

    async fn read(&mut self) -> anyhow::Result<()> {
        let read = self.stream.read_buf(&mut self.buffer).await?;
        ensure!(read > 0, "the server closed the connection");
        Ok(())
    }
}

/// A complete HTTP request with `body`.
pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn find(haystack: &[u8], needle: &[u8]) -> bool {
    memchr::memmem::find(haystack, needle).is_some()
}

fn count(haystack: &[u8], needle: &[u8]) -> u64 {
    memchr::memmem::find_iter(haystack, needle).count() as u64
}

/// The value below which `share` of the sorted samples lie (nearest rank).
pub(crate) fn percentile(samples: &mut [Duration], share: f64) -> anyhow::Result<Duration> {
    samples.sort_unstable();
    let rank = (share * samples.len() as f64).ceil() as usize;
    samples.get(rank.max(1) - 1).copied().context("no samples")
}
