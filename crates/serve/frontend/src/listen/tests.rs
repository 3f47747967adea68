//! Clients that dawdle, over pipes, in virtual time.

mod https;

use std::convert::Infallible;

use axum::body::Body;
use axum::routing::{get, post};
use bytes::Bytes;
use http::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::*;
use crate::error::ApiError;

const READ: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_secs(120);

/// A listener's worth of connections, without the listener.
struct House {
    hall: Arc<Hall>,
    drain: CancellationToken,
}

impl House {
    fn new(connections: usize) -> Self {
        Self::visited(connections, Visitors::anybody())
    }

    fn visited(connections: usize, visitors: Visitors) -> Self {
        let routes = Router::new()
            .route("/live", get(async || "live"))
            .route("/length", post(length))
            .route("/refuse", post(async || StatusCode::PAYLOAD_TOO_LARGE))
            .route("/slow", get(slow));
        let listening = Listening {
            read_timeout: READ,
            idle_timeout: IDLE,
            visitors,
            connections: Connections::new(connections),
            ..Listening::default()
        };
        let drain = CancellationToken::new();
        let hall = Hall::new(routes, listening, drain.clone());
        Self { hall, drain }
    }

    async fn connect(&self) -> Client {
        self.try_connect().await.expect("there is room")
    }

    async fn try_connect(&self) -> Option<Client> {
        let place = self.hall.listening.connections.admit().await?;
        let (pipe, far) = tokio::io::duplex(16 << 10);
        let served = TaskTracker::new().spawn(Arc::clone(&self.hall).converse(far, place));
        Some(Client { pipe, served })
    }
}

/// How long the body was, or why it did not come.
async fn length(body: Body) -> Result<String, ApiError> {
    let intake = crate::intake::Intake::new(1 << 20, 1 << 20);
    let taken = intake.read(body).await?;
    Ok(taken.bytes.len().to_string())
}

/// Ten words, one a minute.
async fn slow() -> Body {
    let words = futures_util::stream::unfold(0, async |told| {
        sleep(Duration::from_secs(60)).await;
        (told < 10).then(|| (Ok::<_, Infallible>(Bytes::from_static(b"word ")), told + 1))
    });
    Body::from_stream(words)
}

struct Client {
    pipe: DuplexStream,
    served: JoinHandle<()>,
}

impl Client {
    async fn send(&mut self, text: &str) {
        self.pipe.write_all(text.as_bytes()).await.unwrap();
    }

    /// Everything up to the end of the connection.
    async fn rest(&mut self) -> String {
        let mut text = Vec::new();
        self.pipe.read_to_end(&mut text).await.unwrap();
        String::from_utf8(text).unwrap().to_ascii_lowercase()
    }

    /// One answer that ends in `end`.
    async fn until(&mut self, end: &str) -> String {
        let mut text = String::new();
        let mut byte = [0];
        while !text.ends_with(end) {
            assert_eq!(self.pipe.read(&mut byte).await.unwrap(), 1, "{text}");
            text.push(char::from(byte[0]));
        }
        text.to_ascii_lowercase()
    }
}

const LIVE: &str = "GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn who_does_not_ask_is_hung_up_on() {
    for begin in [
        "",
        "GET /live HT",
        "GET /live HTTP/1.1\r\nhost: localhost\r\nx: ",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        // With settings, as a client sends them that then says nothing.
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    ] {
        let house = House::new(4);
        let mut client = house.connect().await;
        let began = Instant::now();
        client.send(begin).await;
        client.served.await.unwrap();
        assert_eq!(began.elapsed().as_secs(), READ.as_secs(), "{begin:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_header_that_drips_is_not_waited_for() {
    let house = House::new(4);
    let mut client = house.connect().await;
    client.send(LIVE).await;
    client.until("live").await;
    sleep(Duration::from_secs(100)).await;
    let began = Instant::now();
    let dripped = async {
        for byte in LIVE.bytes().take(30) {
            if client.pipe.write_all(&[byte]).await.is_err() {
                return;
            }
            sleep(Duration::from_secs(5)).await;
        }
        panic!("nobody hung up");
    };
    dripped.await;
    assert!(began.elapsed() <= 2 * READ, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_kept_for_a_while() {
    let house = House::new(4);
    let mut client = house.connect().await;
    for _ in 0..3 {
        client.send(LIVE).await;
        client.until("live").await;
        sleep(IDLE - Duration::from_secs(5)).await;
    }
    client.send(LIVE).await;
    client.until("live").await;
    let began = Instant::now();
    assert_eq!(client.rest().await, "");
    let idle = began.elapsed();
    assert!(idle >= IDLE && idle <= IDLE + READ, "{idle:?}");
}

#[tokio::test(start_paused = true)]
async fn a_body_has_to_keep_coming() {
    let head = "POST /length HTTP/1.1\r\nhost: localhost\r\ncontent-length: 200000\r\n\r\n";
    for (pause, bytes, arrives) in [
        // Nothing more comes at all.
        (3600, 1, false),
        // A byte now and then.
        (10, 1, false),
        // A modem.
        (1, 5000, true),
        // In bursts, with pauses that a network may have.
        (20, 100_000, true),
    ] {
        let house = House::new(4);
        let mut client = house.connect().await;
        client.send(head).await;
        let (mut reading, mut writing) = tokio::io::split(client.pipe);
        let sent = TaskTracker::new().spawn(async move {
            for _ in 0..(200_000 / bytes).min(10_000) {
                sleep(Duration::from_secs(pause)).await;
                if writing.write_all(&vec![b'x'; bytes]).await.is_err() {
                    return;
                }
            }
            std::future::pending::<()>().await;
        });
        let mut answer = vec![0; 1024];
        let began = Instant::now();
        let length = reading.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]).to_ascii_lowercase();
        if arrives {
            assert!(answer.starts_with("http/1.1 200"), "{answer}");
            assert!(!answer.contains("connection: close"), "{answer}");
        } else {
            assert!(answer.starts_with("http/1.1 408"), "{answer}");
            assert!(answer.contains("connection: close"), "{answer}");
            assert!(began.elapsed() <= 2 * READ, "{:?}", began.elapsed());
        }
        sent.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_before_the_body_says_so_and_is_read() {
    let house = House::new(4);
    let mut client = house.connect().await;
    let size = 4 << 20;
    client
        .send(&format!(
            "POST /refuse HTTP/1.1\r\nhost: localhost\r\ncontent-length: {size}\r\n\r\n"
        ))
        .await;
    // Far more than the pipe holds, and all of it before the answer is looked at.
    client.pipe.write_all(&vec![b'x'; size]).await.unwrap();
    let answer = client.rest().await;
    assert!(answer.starts_with("http/1.1 413"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    drop(client.pipe);
    client.served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_never_stops_sending_is_not_listened_to_for_ever() {
    let house = House::new(4);
    let mut client = house.connect().await;
    client
        .send("POST /refuse HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n")
        .await;
    let began = Instant::now();
    while client.pipe.write_all(b"xxxxxxxx").await.is_ok() {
        sleep(Duration::from_millis(100)).await;
    }
    assert!(
        began.elapsed() <= Duration::from_secs(6),
        "{:?}",
        began.elapsed()
    );
    client.served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stopping_waits_for_answers_and_for_nothing_else() {
    let house = House::new(8);
    let began = Instant::now();
    let mut quiet = Vec::new();
    for begin in ["", "GET /live HT", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut client = house.connect().await;
        client.send(begin).await;
        quiet.push(client);
    }
    let mut idle = house.connect().await;
    idle.send(LIVE).await;
    idle.until("live").await;
    quiet.push(idle);
    let mut half = house.connect().await;
    half.send("POST /length HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nx")
        .await;
    let mut answered = house.connect().await;
    answered
        .send("GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    sleep(Duration::from_millis(1)).await;
    house.drain.cancel();
    for client in quiet {
        client.served.await.unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(1));
    let refused = half.rest().await;
    assert!(refused.starts_with("http/1.1 503"), "{refused}");
    assert!(refused.contains("connection: close"), "{refused}");
    half.served.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(2));
    let words = answered.rest().await.matches("word").count();
    assert_eq!(words, 10);
    answered.served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_full_house_answers_for_its_health_only() {
    let house = House::new(1);
    let mut busy = house.connect().await;
    busy.send("GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    sleep(Duration::from_secs(5)).await;
    let mut probe = house.connect().await;
    probe.send(LIVE).await;
    let healthy = probe.rest().await;
    assert!(healthy.starts_with("http/1.1 200"), "{healthy}");
    assert!(healthy.contains("connection: close"), "{healthy}");
    let mut other = house.connect().await;
    other
        .send("GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    let refused = other.rest().await;
    assert!(refused.starts_with("http/1.1 503"), "{refused}");
    assert!(refused.contains("retry-after"), "{refused}");
    // Nor does the reserve fill up with those who say nothing.
    let mut silent = Vec::new();
    for _ in 0..crowd::RESERVE {
        silent.push(house.connect().await);
    }
    assert!(house.try_connect().await.is_none());
    sleep(Duration::from_millis(100)).await;
    let mut probe = house.connect().await;
    probe.send(LIVE).await;
    assert!(probe.rest().await.starts_with("http/1.1 200"));
    assert_eq!(busy.rest().await.matches("word").count(), 10);
}

#[tokio::test(start_paused = true)]
async fn quiet_connections_make_room() {
    let house = House::new(2);
    let mut oldest = house.connect().await;
    oldest.send("GET /live HT").await;
    sleep(Duration::from_secs(2)).await;
    let mut kept = house.connect().await;
    kept.send(LIVE).await;
    kept.until("live").await;
    sleep(Duration::from_secs(2)).await;
    let mut newcomer = house.connect().await;
    newcomer.send(LIVE).await;
    newcomer.until("live").await;
    assert_eq!(oldest.rest().await, "");
    kept.send(LIVE).await;
    kept.until("live").await;
}

#[tokio::test(start_paused = true)]
async fn a_page_that_points_its_own_name_here_gets_nothing() {
    let house = House::visited(8, Visitors::new(true, false, &[]));
    for (request, status) in [
        ("GET /slow HTTP/1.1\r\nhost: evil.example", "421"),
        ("POST /refuse HTTP/1.1\r\nhost: evil.example:80", "421"),
        (
            "GET http://evil.example/slow HTTP/1.1\r\nhost: localhost",
            "421",
        ),
        ("GET /live HTTP/1.1\r\nhost: evil.example", "200"),
        ("POST /refuse HTTP/1.1\r\nhost: localhost", "413"),
        (
            "POST /refuse HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.example",
            "403",
        ),
        (
            "GET /slow HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.example\r\n\
             connection: upgrade\r\nupgrade: websocket",
            "403",
        ),
    ] {
        let mut client = house.connect().await;
        client.send(&format!("{request}\r\n\r\n")).await;
        let answer = client.until("\r\n\r\n").await;
        assert!(
            answer.starts_with(&format!("http/1.1 {status}")),
            "{request}: {answer}"
        );
    }
}
