//! Servers that answer at once: what is measured is what lies before them.
//!
//! HTTP is written by hand, because a comfortable server would take more of the machine than the picker.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The name under which they serve.
pub(super) const MODEL: &str = "bench";
const SERVERS: usize = 3;

/// Parts of an answer, each of which is a chunk.
const EVENTS: [&str; 3] = [
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n\
     data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Yes\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
     data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":1}}\n\n",
    "data: [DONE]\n\n",
];
const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
    transfer-encoding: chunked\r\n\r\n";
const END_OF_CHUNKS: &[u8] = b"\r\n0\r\n\r\n";

/// They serve until this process ends.
#[derive(Debug)]
pub(super) struct Servers {
    pub(super) addresses: Vec<SocketAddr>,
}

impl Servers {
    /// On a thread of their own.
    pub(super) fn start() -> anyhow::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.map(|runtime| runtime.block_on(serve_all(&sender)))
        });
        let addresses = receiver.iter().take(SERVERS).collect::<Vec<_>>();
        ensure!(addresses.len() == SERVERS, "the servers could not start");
        Ok(Self { addresses })
    }
}

async fn serve_all(addresses: &mpsc::Sender<SocketAddr>) -> anyhow::Result<()> {
    let mut listeners = JoinSet::new();
    for _ in 0..SERVERS {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        addresses.send(listener.local_addr()?)?;
        listeners.spawn(serve(listener));
    }
    while let Some(ended) = listeners.join_next().await {
        ended??;
    }
    Ok(())
}

async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        connections.spawn(converse(stream));
        // Those that are over leave.
        while connections.try_join_next().is_some() {}
    }
}

/// Answers on one connection until the client hangs up.
async fn converse(mut stream: TcpStream) -> anyhow::Result<()> {
    let page = format!(r#"{{"object":"list","data":[{{"id":"{MODEL}","object":"model"}}]}}"#);
    let page = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{page}",
        page.len()
    );
    let mut answer = HEAD.to_owned();
    for event in EVENTS {
        answer.push_str(&format!("{:x}\r\n{event}\r\n", event.len()));
    }
    answer.push_str("0\r\n\r\n");
    let mut buffer = Vec::with_capacity(512 << 10);
    loop {
        buffer.clear();
        let asks = request(&mut stream, &mut buffer).await?;
        let said = if asks { &answer } else { &page };
        stream.write_all(said.as_bytes()).await?;
    }
}

/// Reads a request to its end; whether it has something to compute.
async fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> anyhow::Result<bool> {
    let mut frame = None;
    loop {
        let read = stream.read_buf(buffer).await?;
        ensure!(read > 0, "the client hung up");
        let (start, length) = match frame {
            Some(known) => known,
            None => {
                let Some(end) = memchr::memmem::find(buffer, b"\r\n\r\n") else {
                    continue;
                };
                let known = (end + 4, length(&buffer[..end])?);
                frame = Some(known);
                known
            }
        };
        let whole = match length {
            Some(length) => buffer.len() >= start + length,
            None => buffer.len() > start && buffer.ends_with(END_OF_CHUNKS),
        };
        if whole {
            return Ok(buffer.starts_with(b"POST "));
        }
    }
}

/// The body's length; none if it comes in chunks.
fn length(head: &[u8]) -> anyhow::Result<Option<usize>> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    if head.contains("transfer-encoding: chunked") {
        return Ok(None);
    }
    let found = head.split_once("content-length: ");
    let length = found.and_then(|(_, rest)| rest.lines().next());
    let length = length.map(|length| length.trim().parse());
    Ok(Some(length.unwrap_or(Ok(0)).context("content-length")?))
}
