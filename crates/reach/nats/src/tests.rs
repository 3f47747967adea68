//! Against the real program.

use std::time::Duration;

use test_servers::nats::Server;

use super::*;

/// Far beyond what anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, future).await;
    waited.unwrap_or_else(|_| panic!("waited in vain: {what}"))
}

/// What comes next, if messages are published until something does.
async fn next(nats: &Nats, subscription: &mut Subscription) -> Received {
    let publish = async {
        loop {
            nats.publish("here", Bytes::from_static(b"x"))
                .await
                .unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let receive = async {
        tokio::select! {
            received = subscription.next() => received.expect("the connection is kept"),
            () = publish => unreachable!("it goes on"),
        }
    };
    in_time("a message", receive).await
}

#[tokio::test]
async fn a_gap_shows_at_the_start_and_after_every_connection() {
    let mut server = Server::start().expect("tests need nats-server");
    let nats = Nats::connect(&server.url()).await.unwrap();
    let mut subscription = nats.subscribe("here").await.unwrap();
    let message = Received::Message(Bytes::from_static(b"x"));
    assert_eq!(next(&nats, &mut subscription).await, Received::Gap);
    in_time("a message", async {
        while next(&nats, &mut subscription).await != message {}
    })
    .await;
    server.kill();
    server.restart().unwrap();
    // What had arrived before is still there.
    in_time("a gap", async {
        while next(&nats, &mut subscription).await != Received::Gap {}
    })
    .await;
    assert_eq!(next(&nats, &mut subscription).await, message);
}

#[tokio::test]
async fn requests_are_answered_or_fail_at_once() {
    let mut server = Server::start().expect("tests need nats-server");
    let nats = Nats::connect(&server.url()).await.unwrap();
    in_time("a connection", async {
        while nats.own_address().is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert!(
        nats.own_address()
            .is_some_and(|address| address.is_loopback())
    );
    let ask = |size: usize| in_time("a reply", nats.request("nobody", vec![0; size].into()));
    let error = ask(1).await.unwrap_err();
    assert!(matches!(error, RequestError::NoListener(_)), "{error}");
    let error = ask(2 << 20).await.unwrap_err();
    let limit = 1 << 20;
    assert!(
        matches!(&error, RequestError::TooLarge { limit: is, .. } if *is == limit),
        "{error}"
    );
    server.kill();
    in_time("a lost connection", async {
        while !matches!(ask(1).await, Err(RequestError::Disconnected)) {}
    })
    .await;
}

#[tokio::test]
async fn an_address_that_is_none_is_refused_without_its_password() {
    let error = Nats::connect("nats://user:secret@h:port")
        .await
        .unwrap_err();
    assert!(
        error.to_string().starts_with("NATS at nats://h:port: "),
        "{error}"
    );
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn nobody_reads_a_password() {
    assert_eq!(without_credentials("nats://a:b@n:4222"), "nats://n:4222");
    assert_eq!(without_credentials("nats://n:4222"), "nats://n:4222");
    assert_eq!(without_credentials("n:4222"), "n:4222");
}
