//! A server of fixed latency that knows what it really did.
//!
//! A process of its own: its timers are late when the machine is busy, and that must not be
//! blamed on the client. So it notes when the first byte of a request came and when each
//! event was handed to the kernel, and tells these times on request. HTTP is written by hand,
//! because a comfortable server would take more of the machine than the client it measures.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::client::percentile;

/// What the server is like.
pub(crate) const TTFT: Duration = Duration::from_millis(300);
pub(crate) const ITL: Duration = Duration::from_millis(30);

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
    transfer-encoding: chunked\r\n\r\n";

/// What really happened.
#[derive(Debug, Default)]
struct Truth {
    ttft: Vec<Duration>,
    itl: Vec<Duration>,
    open: usize,
    most_open: usize,
}

/// Prints its port, then serves until it is killed.
pub(crate) fn run() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        let truth = Arc::new(Mutex::new(Truth::default()));
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            connections.spawn(serve(stream, Arc::clone(&truth)));
            // Those that are over leave.
            while connections.try_join_next().is_some() {}
        }
    })
}

/// Answers on one connection until the client hangs up.
async fn serve(mut stream: TcpStream, truth: Arc<Mutex<Truth>>) -> anyhow::Result<()> {
    let mut buffer = Vec::with_capacity(64 << 10);
    loop {
        let (began, head, body) = request(&mut stream, &mut buffer).await?;
        if head.starts_with("POST /v1/chat/completions") {
            {
                let mut truth = truth.lock();
                truth.open += 1;
                truth.most_open = truth.most_open.max(truth.open);
            }
            let answered = answer(&mut stream, began, &body).await;
            let mut truth = truth.lock();
            truth.open -= 1;
            let (ttft, gaps) = answered?;
            truth.ttft.push(ttft);
            truth.itl.extend(gaps);
            continue;
        }
        let page = match head.starts_with("GET /truth") {
            true => told(&mut truth.lock())?,
            false => json!({ "object": "list", "data": [{ "id": "mock", "object": "model" }] }),
        };
        let page = page.to_string();
        let length = page.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{page}");
        stream.write_all(head.as_bytes()).await?;
    }
}

/// When a request began, its head and its body.
async fn request(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> anyhow::Result<(Instant, String, Vec<u8>)> {
    buffer.clear();
    let mut began = None;
    loop {
        let read = stream.read_buf(buffer).await?;
        ensure!(read > 0, "the client hung up");
        let began = *began.get_or_insert_with(Instant::now);
        let Some(end) = memchr::memmem::find(buffer, b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
        let length: usize = match head.split_once("content-length: ") {
            Some((_, rest)) => rest.lines().next().unwrap_or_default().trim().parse()?,
            None => 0,
        };
        if buffer.len() >= end + 4 + length {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            return Ok((began, head, buffer[end + 4..].to_vec()));
        }
    }
}

/// Writes as many tokens as were asked for; returns the true TTFT and gaps.
async fn answer(
    stream: &mut TcpStream,
    began: Instant,
    body: &[u8],
) -> anyhow::Result<(Duration, Vec<Duration>)> {
    let asked: Value = serde_json::from_slice(body)?;
    let tokens = asked["max_tokens"].as_u64().context("no max_tokens")? as u32;
    stream.write_all(HEAD.as_bytes()).await?;
    let mut written: Vec<Instant> = Vec::with_capacity(tokens as usize);
    for number in 0..tokens {
        // By the clock and not by the last token, so that lateness does not add up.
        sleep_until(began + TTFT + ITL * number).await;
        let event = event(number + 1);
        written.push(Instant::now());
        stream.write_all(&event).await?;
    }
    let end = "data: [DONE]\n\n";
    let end = format!("{:x}\r\n{end}\r\n0\r\n\r\n", end.len());
    stream.write_all(end.as_bytes()).await?;
    let gaps = written.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let first = written.first().context("no token was asked for")?;
    Ok((*first - began, gaps))
}

/// One token, in an event like those that our server writes.
fn event(number: u32) -> Vec<u8> {
    let total = 1000 + number;
    let data = format!(
        "data: {{\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\
         \"object\":\"chat.completion.chunk\",\"created\":1786000000,\"model\":\"mock\",\
         \"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" word\"}},\"finish_reason\":null}}],\
         \"usage\":{{\"prompt_tokens\":1000,\"completion_tokens\":{number},\
         \"total_tokens\":{total},\"prompt_tokens_details\":{{\"cached_tokens\":512}}}}}}\n\n"
    );
    format!("{:x}\r\n{data}\r\n", data.len()).into_bytes()
}

fn told(truth: &mut Truth) -> anyhow::Result<Value> {
    let requests = truth.ttft.len();
    let pair = |samples: &mut Vec<Duration>| -> anyhow::Result<Value> {
        let milliseconds = |duration: Duration| duration.as_secs_f64() * 1e3;
        let (p50, p95) = (percentile(samples, 0.50)?, percentile(samples, 0.95)?);
        Ok(json!({ "p50": milliseconds(p50), "p95": milliseconds(p95) }))
    };
    Ok(json!({
        "requests": requests,
        "most_open": truth.most_open,
        "ttft": pair(&mut truth.ttft)?,
        "itl": pair(&mut truth.itl)?,
    }))
}
