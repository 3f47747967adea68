//! Against another implementation of the protocol, and against peers that mean harm.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use tasks::Tasks;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::DropGuard;
use zeromq::{Socket as _, SocketRecv as _, SocketSend as _, ZmqMessage};
use zmtp::{Asker, Bound, Error, Message, Publisher, Subscriber, codec, serve_answers};

const LIMIT: usize = 1 << 20;
/// Far beyond what anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn parts(parts: &[&str]) -> Message {
    parts
        .iter()
        .map(|&part| Bytes::from(part.to_owned()))
        .collect()
}

fn theirs(message: &[&str]) -> ZmqMessage {
    ZmqMessage::try_from(parts(message)).unwrap()
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap()
}

async fn publisher() -> (Publisher, String, DropGuard) {
    let tasks = Tasks::new();
    let bound = Bound::bind("127.0.0.1", 0).await.unwrap();
    let endpoint = format!("tcp://127.0.0.1:{}", bound.port());
    let publisher = Publisher::serve(bound, &tasks);
    (publisher, endpoint, tasks.stop.drop_guard())
}

/// Publishes until it is heard: nobody tells a publisher that a subscription has arrived.
async fn heard<T>(publisher: &Publisher, message: &[&str], hears: impl Future<Output = T>) -> T {
    let mut hears = std::pin::pin!(hears);
    in_time(async {
        loop {
            publisher.publish(parts(message));
            tokio::select! {
                heard = &mut hears => return heard,
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
            }
        }
    })
    .await
}

#[tokio::test]
async fn our_publisher_is_heard_by_us_and_by_others() {
    let (publisher, endpoint, _stop) = publisher().await;
    let mut ours = Subscriber::connect(&endpoint, "kv", LIMIT).await.unwrap();
    let mut others = zeromq::SubSocket::new();
    others.connect(&endpoint).await.unwrap();
    others.subscribe("kv").await.unwrap();
    publisher.publish(parts(&["other", "not this"]));
    let message = heard(&publisher, &["kv.1", "body"], ours.next()).await;
    assert_eq!(message.unwrap(), parts(&["kv.1", "body"]));
    let message = heard(&publisher, &["kv.2", ""], others.recv()).await;
    assert_eq!(message.unwrap().into_vec().len(), 2);
}

#[tokio::test]
async fn we_hear_the_publisher_of_others_and_find_it_again() {
    let mut socket = zeromq::PubSocket::new();
    let endpoint = socket.bind("tcp://127.0.0.1:0").await.unwrap().to_string();
    let mut subscriber = Subscriber::connect(&endpoint, "", LIMIT).await.unwrap();
    let long = "x".repeat(70_000);
    let mut tell = async |socket: &mut zeromq::PubSocket| {
        let next = subscriber.next();
        let mut next = std::pin::pin!(next);
        in_time(async {
            loop {
                socket.send(theirs(&["topic", &long])).await.unwrap();
                tokio::select! {
                    heard = &mut next => return heard,
                    () = tokio::time::sleep(Duration::from_millis(20)) => {}
                }
            }
        })
        .await
    };
    assert_eq!(tell(&mut socket).await.unwrap(), parts(&["topic", &long]));
    drop(socket);
    let mut socket = zeromq::PubSocket::new();
    in_time(async {
        while socket.bind(&endpoint).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    // What was sent before the end is still read, and the end is told once.
    while tell(&mut socket).await.is_ok() {}
    assert_eq!(tell(&mut socket).await.unwrap(), parts(&["topic", &long]));
}

#[tokio::test]
async fn questions_are_answered_whoever_asks_whom() {
    let tasks = Tasks::new();
    let _stop = tasks.stop.clone().drop_guard();
    let bound = Bound::bind("127.0.0.1", 0).await.unwrap();
    let endpoint = format!("tcp://127.0.0.1:{}", bound.port());
    let echo = |question: &Message| vec![question.clone(), parts(&["", "end"])];
    serve_answers(bound, echo, &tasks);
    let mut ours = Asker::connect(&endpoint, LIMIT).await.unwrap();
    ours.ask(&parts(&["", "7"])).await.unwrap();
    assert_eq!(in_time(ours.answer()).await.unwrap(), parts(&["", "7"]));
    assert_eq!(in_time(ours.answer()).await.unwrap(), parts(&["", "end"]));
    let mut others = zeromq::DealerSocket::new();
    others.connect(&endpoint).await.unwrap();
    others.send(theirs(&["", "8"])).await.unwrap();
    assert_eq!(
        in_time(others.recv()).await.unwrap().into_vec(),
        parts(&["", "8"])
    );

    let mut router = zeromq::RouterSocket::new();
    let endpoint = router.bind("tcp://127.0.0.1:0").await.unwrap().to_string();
    let mut ours = Asker::connect(&endpoint, LIMIT).await.unwrap();
    ours.ask(&parts(&["", "9"])).await.unwrap();
    let question = in_time(router.recv()).await.unwrap();
    router.send(question).await.unwrap();
    assert_eq!(in_time(ours.answer()).await.unwrap(), parts(&["", "9"]));
}

/// A frame that announces four exabytes.
fn endless() -> Vec<u8> {
    [&[2][..], &(1_u64 << 62).to_be_bytes()].concat()
}

async fn greet(stream: &mut TcpStream, kind: codec::Kind) {
    let mut hello = bytes::BytesMut::from(&codec::greeting()[..]);
    codec::encode(&codec::ready(kind), &mut hello);
    stream.write_all(&hello).await.unwrap();
}

#[tokio::test]
async fn a_peer_that_announces_too_much_is_dropped_and_the_others_are_served() {
    let (publisher, endpoint, _stop) = publisher().await;
    let mut honest = Subscriber::connect(&endpoint, "", LIMIT).await.unwrap();
    let address = endpoint.trim_start_matches("tcp://");
    // At once, after the greeting, and after the handshake.
    for stage in 0..3 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        match stage {
            0 => {}
            1 => stream.write_all(&codec::greeting()).await.unwrap(),
            _ => greet(&mut stream, codec::Kind::Sub).await,
        }
        stream.write_all(&endless()).await.unwrap();
        // Padding, so that a stage that waits for more gets it.
        stream.write_all(&[0; 100]).await.unwrap();
        let mut answer = Vec::new();
        // A reset ends it as well.
        let _ = in_time(stream.read_to_end(&mut answer)).await;
    }
    let message = heard(&publisher, &["still", "here"], honest.next()).await;
    assert_eq!(message.unwrap(), parts(&["still", "here"]));
}

#[tokio::test]
async fn a_publisher_that_announces_too_much_costs_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
    let hostile = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        greet(&mut stream, codec::Kind::Pub).await;
        stream.write_all(&endless()).await.unwrap();
        stream
    };
    let listen = Subscriber::connect(&endpoint, "", LIMIT);
    let (_stream, subscriber) = in_time(async { tokio::join!(hostile, listen) }).await;
    let error = in_time(subscriber.unwrap().next()).await.unwrap_err();
    assert!(matches!(error, Error::Violation(_)), "{error}");
}
