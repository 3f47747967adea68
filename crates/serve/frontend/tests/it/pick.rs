//! Picks for a proxy over engines that are not there: who is chosen, what is held, and what is given
//! back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use frontend::{Call, Incoming, Offered, Pick, PickConfig, Refused};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use router::Condition;
use serde_json::{Value, json};
use testkit::passing::{LONGEST_BODY, PassingFleet, SLOTS, address, passing_fleet};

struct Fleet(PassingFleet);

fn call(line: &str) -> Call {
    let (method, path) = line.split_once(' ').unwrap();
    Call {
        method: method.parse().unwrap(),
        path: path.to_owned(),
        headers: HeaderMap::new(),
        subset: None,
    }
}

fn chat(text: &str) -> Vec<u8> {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": text}]});
    serde_json::to_vec(&body).unwrap()
}

impl Fleet {
    async fn new() -> Self {
        Self(passing_fleet(10, LONGEST_BODY).await)
    }

    async fn pick(&self, call: Call, body: &[u8]) -> Result<Pick, Refused> {
        let config = PickConfig {
            fallbacks: 2,
            ..PickConfig::default()
        };
        let mut incoming = self.0.frontend.picker(config).open(call)?;
        for part in body.chunks(1000) {
            incoming.add(part).await?;
        }
        let (pick, held) = incoming.pick().await?;
        assert_eq!(&held.bytes[..], body);
        Ok(pick)
    }

    async fn chat(&self, text: &str) -> Result<Pick, Refused> {
        self.pick(call("POST /v1/chat/completions"), &chat(text))
            .await
    }

    fn decision(&self) -> Arc<router::Decision> {
        self.0.router.decisions(1).pop().unwrap()
    }

    fn place(&self, sought: SocketAddr) -> usize {
        let mut places = (1..=3).map(address);
        places.position(|one| one == sought).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_is_held_until_the_answer_has_ended_or_the_proxy_lets_go() {
    let fleet = Fleet::new().await;
    let mut pick = fleet.chat("hello").await.unwrap();
    assert_eq!(
        (fleet.0.router.in_flight(), fleet.0.frontend.in_flight()),
        (1, 1)
    );
    pick.begins(StatusCode::OK, Some(pick.endpoints()[0]));
    pick.read(b"data: a");
    pick.read(b"data: b");
    assert_eq!(fleet.decision().actual_cached_tokens, Some(7));
    let place = fleet.place(pick.endpoints()[0]);
    pick.completes();
    assert_eq!(fleet.0.heard[place].lock().as_slice(), b"data: adata: b");
    assert_eq!(
        (fleet.0.router.in_flight(), fleet.0.frontend.in_flight()),
        (0, 0)
    );
    assert_eq!(fleet.decision().forwarded.as_deref(), Some("gateway"));
    drop(fleet.chat("hello").await.unwrap());
    assert_eq!(
        (fleet.0.router.in_flight(), fleet.0.frontend.in_flight()),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_prompt_is_routed_by_its_blocks_and_the_others_follow_the_best() {
    let fleet = Fleet::new().await;
    let text = "a sentence that is long enough for blocks ".repeat(100);
    let pick = fleet.chat(&text).await.unwrap();
    let decision = fleet.decision();
    assert!(decision.blocks > 10, "{decision:?}");
    let mut endpoints = pick.endpoints().to_vec();
    assert_eq!(endpoints[0], address(decision.winner.0));
    endpoints.sort();
    assert_eq!(endpoints, [address(1), address(2), address(3)]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_routed_all_the_same() {
    let fleet = Fleet::new().await;
    for (line, body) in [
        ("POST /v1/chat/completions", &b"not json"[..]),
        ("POST /v1/chat/completions", b""),
        ("POST /v1/chat/completions", b"{\"messages\": 5}"),
        ("POST /v1/audio/transcriptions", b"\x00\xff"),
        ("PUT /anything?else", b"{}"),
        (
            "POST /pool/v1/messages?beta=true",
            b"{\"model\": \"another\"}",
        ),
    ] {
        let pick = fleet.pick(call(line), body).await.unwrap();
        assert_eq!(pick.endpoints().len(), 3, "{line}");
        assert_eq!(fleet.0.router.in_flight(), 1, "{line}");
        pick.completes();
    }
    let get = fleet.pick(call("GET /v1/models"), b"").await.unwrap();
    assert_eq!(fleet.0.router.in_flight(), 0, "it takes no slot");
    assert_eq!(get.endpoints().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_what_the_proxy_offers_is_picked() {
    let fleet = Fleet::new().await;
    let offers = |texts: &[&str]| {
        let offered = texts.iter().filter_map(|text| Offered::parse(text));
        Some(offered.collect::<Vec<_>>())
    };
    for (subset, expected) in [
        (offers(&["10.0.0.2:8000"]), vec![address(2)]),
        (offers(&["10.0.0.3", "10.0.0.3:8000"]), vec![address(3)]),
    ] {
        for line in ["POST /v1/chat/completions", "GET /v1/models"] {
            let call = Call {
                subset: subset.clone(),
                ..call(line)
            };
            let pick = fleet.pick(call, b"{}").await.unwrap();
            assert_eq!(pick.endpoints(), expected);
        }
    }
    for subset in [
        offers(&[]),
        offers(&["10.9.9.9:1"]),
        offers(&["no address"]),
    ] {
        let call = Call {
            subset,
            ..call("POST /v1/chat/completions")
        };
        let refused = fleet.pick(call, b"{}").await.unwrap_err();
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.code, Some("no_endpoint"));
    }
}

#[tokio::test(start_paused = true)]
async fn who_finds_no_room_waits_and_is_then_refused_in_the_words_of_its_api() {
    let fleet = Fleet::new().await;
    let mut held = Vec::new();
    for number in 0..3 * SLOTS {
        held.push(fleet.chat(&format!("{number}")).await.unwrap());
    }
    let impatient = |line: &str| {
        let mut call = call(line);
        let patience = HeaderValue::from_static("1");
        call.headers.insert("x-request-timeout-ms", patience);
        call
    };
    let call = impatient("POST /v1/chat/completions");
    let refused = fleet.pick(call, &chat("one more")).await.unwrap_err();
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    let body: Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!(body["error"]["type"], "rate_limit_error", "{body}");
    assert!(refused.retry_after_seconds.is_some());
    let call = impatient("POST /v1/messages");
    let messages = fleet.pick(call, b"{}").await.unwrap_err();
    let body: Value = serde_json::from_slice(&messages.body).unwrap();
    assert_eq!(body["type"], "error", "{body}");
    // One that waits gets the place of one that ends.
    let waiting = fleet.chat("one more");
    let ends = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        held.pop().unwrap().completes();
    };
    let (picked, ()) = tokio::join!(waiting, ends);
    picked.unwrap();
}

#[tokio::test(start_paused = true)]
async fn bodies_and_requests_are_bounded() {
    let fleet = Fleet::new().await;
    let long = vec![b' '; LONGEST_BODY + 1];
    let refused = fleet.pick(call("POST /x"), &long).await.unwrap_err();
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    let mut announced = call("POST /x");
    let length = HeaderValue::from(LONGEST_BODY + 1);
    announced.headers.insert(header::CONTENT_LENGTH, length);
    let refused = fleet.pick(announced, b"").await.unwrap_err();
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    let picker = fleet.0.frontend.picker(PickConfig::default());
    let inside: Vec<Incoming> = (0..10)
        .map(|_| picker.open(call("POST /x")).unwrap())
        .collect();
    let refused = picker.open(call("POST /x")).unwrap_err();
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    drop(inside);
    picker.open(call("POST /x")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_failed_the_proxy_is_blamed_and_the_other_has_the_request() {
    let fleet = Fleet::new().await;
    let mut pick = fleet.chat("hello").await.unwrap();
    let [first, second, _] = *pick.endpoints() else {
        panic!("two fall-backs");
    };
    pick.begins(StatusCode::OK, Some(second));
    pick.read(b"token");
    let on = |address: SocketAddr| {
        let views = fleet.0.router.workers();
        let place = fleet.place(address);
        (views[place].in_flight, views[place].health)
    };
    assert_eq!(on(second), (1, Condition::Sound));
    assert_eq!(on(first).0, 0);
    assert!(!fleet.0.heard[fleet.place(second)].lock().is_empty());
    assert!(fleet.0.heard[fleet.place(first)].lock().is_empty());
    pick.completes();
    // Again and again, until it is left alone.
    for _ in 0..20 {
        let mut pick = fleet.chat("hello").await.unwrap();
        if pick.endpoints()[0] == first {
            pick.begins(StatusCode::SERVICE_UNAVAILABLE, None);
        }
    }
    assert_ne!(on(first).1, Condition::Sound);
}
