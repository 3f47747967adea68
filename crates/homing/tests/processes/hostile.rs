//! Strangers who send nonsense, and what logs must not hold.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::client::{Streamed, chat, user};
use crate::system::{MODEL, PROFILE, Process, until_workers};

/// What somebody may send to a port that expects something else.
fn nonsense() -> Vec<Vec<u8>> {
    let noise = (0..1_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8);
    // ZeroMQ's greeting, and then a frame that announces four exabytes.
    let mut greeting = [0; 64];
    (greeting[0], greeting[9], greeting[10]) = (0xff, 0x7f, 3);
    greeting[12..16].copy_from_slice(b"NULL");
    let endless = [&greeting[..], &[2], &(1_u64 << 62).to_be_bytes()].concat();
    // HTTP/2's preface, and then a frame of 16 MB of settings.
    let frame = [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
        &[0xff, 0xff, 0xff, 4, 0, 0, 0, 0, 0],
    ];
    let huge =
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
        Content-Length: 1000000000000\r\n\r\n{\"model\":";
    let headers = [&b"GET / HTTP/1.1\r\nX: "[..], &vec![b'a'; 1 << 20]];
    vec![
        noise.collect(),
        endless,
        frame.concat(),
        huge.to_vec(),
        headers.concat(),
        Vec::new(),
    ]
}

/// Sends it, and reads what comes until the other side has had enough of us or half a second
/// has passed.
fn disturb(address: &str, bytes: &[u8]) {
    let address = address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let half = Some(Duration::from_millis(500));
    stream.set_read_timeout(half).expect("a timeout");
    stream.set_write_timeout(half).expect("a timeout");
    // It may hang up at any point.
    let _ = stream.write_all(bytes);
    let _ = stream.read(&mut [0; 4096]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_who_send_nonsense_disturb_nobody() {
    let mut worker = Process::worker(&["--events", "zmq"]);
    let events = worker.printed("events");
    let frontend = Process::frontend(&["--workers", &worker.address]);
    until_workers(&frontend, 1).await;
    let ask = || async { chat(&frontend.address, &[user("What is a cache?")], 40, |_| {}).await };
    let before = ask().await;
    assert!(before.is_complete());
    let mut targets = vec![worker.address.clone(), frontend.address.clone()];
    let ports = events
        .split(", ")
        .filter_map(|part| part.split("tcp://").nth(1));
    targets.extend(ports.map(str::to_owned));
    assert_eq!(targets.len(), 4, "{events}");
    let strangers = tokio::task::spawn_blocking(move || {
        for target in &targets {
            for bytes in nonsense() {
                disturb(target, &bytes);
            }
        }
    });
    let mut meanwhile = Vec::new();
    while !strangers.is_finished() {
        meanwhile.push(ask().await);
    }
    strangers.await.expect("they ran");
    meanwhile.push(ask().await);
    let failed = meanwhile.iter().find(|answer| !answer.is_complete());
    assert!(failed.is_none(), "{failed:?}");
    assert!(meanwhile.iter().all(|answer| answer.text == before.text));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_too_large_is_refused() {
    let worker = Process::worker(&[]);
    let limit = ["--workers", &worker.address, "--max-body-bytes", "10000"];
    let frontend = Process::frontend(&limit);
    until_workers(&frontend, 1).await;
    let large = chat_status(&frontend.address, &"word ".repeat(10_000)).await;
    assert_eq!(large, 413);
    assert_eq!(chat_status(&frontend.address, "word").await, 200);
}

async fn chat_status(frontend: &str, text: &str) -> u16 {
    let Streamed { status, .. } = chat(frontend, &[user(text)], 4, |_| {}).await;
    status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_hold_no_text_of_prompts_or_answers() {
    let folder = tempfile::tempdir().unwrap();
    let log = |name: &str| File::create(folder.path().join(name)).expect("a file");
    let worker = ["worker", "--port", "0", "--profile", PROFILE];
    let worker = Process::logged(&worker, "address", log("worker"));
    let frontend = ["frontend", "--http-port", "0", "--model-name", MODEL];
    let workers = ["--workers", &worker.address];
    let mut frontend = Process::logged(&[&frontend[..], &workers].concat(), "api", log("frontend"));
    frontend.address = frontend.address.trim_end_matches("/v1").to_owned();
    until_workers(&frontend, 1).await;
    let secret = "heliotrope";
    let answer = chat(&frontend.address, &[user(secret)], 40, |_| {}).await;
    assert!(answer.is_complete());
    // Refused in several ways, each with a message that may quote the request.
    let body =
        format!(r#"{{"model":"{MODEL}","messages":[{{"role":"{secret}","content":"{secret}"}}]}}"#);
    for body in [
        body.clone(),
        body.replace("role", secret),
        body[..40].to_owned(),
    ] {
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        disturb(&frontend.address, head.as_bytes());
    }
    let spoken: Vec<&str> = answer
        .text
        .split_whitespace()
        .filter(|word| word.len() > 9)
        .collect();
    for name in ["worker", "frontend"] {
        let text = fs::read_to_string(folder.path().join(name)).expect("it was logged");
        assert!(!text.is_empty(), "{name} logs something");
        for word in spoken.iter().chain([&secret]) {
            let line = text.lines().find(|line| line.contains(word));
            // The simulator says so of itself in every answer.
            assert!(line.is_none() || *word == "[simulated]", "{name}: {line:?}");
        }
    }
}
