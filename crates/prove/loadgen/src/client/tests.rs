//! The client against a server of known latency, on a paused clock.

mod tls;

use super::*;
use crate::mock::{Fault, Manner, Mock};
use http_client::HttpOptions;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

async fn chat(mock: &Mock, http2: bool) -> Exchange {
    let client = mock.client(Clock::start(), http2);
    let messages = [Message::user("hello")];
    let chat = Chat {
        messages: &messages,
        max_tokens: 50,
        session: "session-1",
        seed: None,
    };
    client.chat(&chat, &mut ()).await
}

#[track_caller]
fn check(exchange: Exchange, ttft: u64, tpot: u64, e2e: u64) {
    let answer = exchange.outcome.unwrap();
    assert_eq!(
        (answer.ttft, answer.tpot, answer.e2e),
        (Some(ms(ttft)), Some(ms(tpot)), ms(e2e))
    );
}

#[tokio::test(start_paused = true)]
async fn figures_are_exact_over_both_versions_of_http() {
    for http2 in [false, true] {
        let mock = Mock::new(Manner::default());
        check(chat(&mock, http2).await, 300, 30, 870);
        let seen = &mock.seen()[0];
        assert_eq!((&*seen.session, &seen.key), ("session-1", &None));
        assert_eq!(seen.body["max_tokens"], 50);
    }
}

#[tokio::test(start_paused = true)]
async fn four_tokens_in_an_event_leave_the_time_of_a_token_right() {
    let manner = Manner {
        tokens_per_event: 4,
        ..Manner::default()
    };
    let exchange = chat(&Mock::new(manner), false).await;
    let answer = exchange.outcome.clone().unwrap();
    assert_eq!((answer.chunks, answer.usage.completion_tokens), (5, 20));
    assert!(answer.gaps.iter().all(|gap| gap.per_token() == ms(30)));
    check(exchange, 300, 30, 780);
}

#[tokio::test(start_paused = true)]
async fn an_early_role_leaves_the_first_token_where_it_is() {
    let manner = Manner {
        role_first: true,
        ..Manner::default()
    };
    check(chat(&Mock::new(manner), false).await, 300, 30, 870);
}

#[track_caller]
fn check_failure(exchange: Exchange, kind: FailureKind, status: Option<u16>, part: &str) {
    let failure = exchange.outcome.unwrap_err();
    assert_eq!((failure.kind, failure.status), (kind, status), "{failure}");
    assert!(failure.message.contains(part), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn every_failure_has_its_kind() {
    let unauthorized = Fault::Refuse {
        status: 401,
        every: 1,
    };
    for (fault, kind, status, part) in [
        (Fault::Away, FailureKind::Connect, None, "refused"),
        (
            unauthorized,
            FailureKind::Status,
            Some(401),
            "No, thank you.",
        ),
        (
            Fault::Stall(3),
            FailureKind::Stalled,
            None,
            "no byte for 5s",
        ),
        (
            Fault::BreakOff(3),
            FailureKind::BrokenStream,
            None,
            "after 3 events",
        ),
        (Fault::Garbage, FailureKind::BrokenStream, None, "oops"),
        (
            Fault::NoUsage,
            FailureKind::NoUsage,
            None,
            "number of output tokens",
        ),
    ] {
        let manner = Manner {
            fault,
            ..Manner::default()
        };
        check_failure(chat(&Mock::new(manner), false).await, kind, status, part);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_reaches_the_server() {
    let mock = Mock::new(Manner::default());
    let client = mock.client(Clock::start(), false);
    let target = client.target().clone().with_key("secret-7").unwrap();
    let client = Client::new(client.transport, target, client.patience, client.clock);
    let messages = [Message::user("hello")];
    let chat = Chat {
        messages: &messages,
        max_tokens: 5,
        session: "s",
        seed: None,
    };
    assert!(client.chat(&chat, &mut ()).await.outcome.is_ok());
    assert_eq!(mock.seen()[0].key.as_deref(), Some("Bearer secret-7"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_ends_is_given_up() {
    let slow = Manner {
        ttft: Duration::from_secs(60),
        ..Manner::default()
    };
    let exchange = chat(&Mock::new(slow), false).await;
    assert_eq!(exchange.ended - exchange.sent, Duration::from_secs(20));
    check_failure(exchange, FailureKind::Timeout, None, "within 20s");
}

#[tokio::test]
async fn nobody_at_an_address_is_a_failure_to_connect() {
    // Bound and let go: nobody listens there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let transport = HttpClient::network(HttpOptions::default());
    let target = Target::new(&address, "m").unwrap();
    let client = Client::new(transport, target, Patience::default(), Clock::start());
    let failure = client.models().await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connect, "{failure}");
    assert!(
        failure.message.to_lowercase().contains("refused"),
        "{failure}"
    );
}
