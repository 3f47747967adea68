//! Bodies that come slowly or not at all, and looking into a large server.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use engine::sim::Profile;
use futures_util::stream;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use testkit::{Cluster, Setup, bytes, user};

/// A body in two pieces, the second of which is `end`, some seconds after the first.
fn slowly(cluster: &Cluster, end: Result<(), std::io::ErrorKind>) -> Request<Body> {
    let body = json!({ "model": cluster.model, "messages": [user("hi")], "max_tokens": 2 });
    let text = body.to_string();
    let (first, rest) = text.split_at(10);
    let pieces = [
        Ok(Bytes::from(first.to_owned())),
        end.map(|()| Bytes::from(rest.to_owned()))
            .map_err(std::io::Error::from),
    ];
    let pieces = stream::unfold(pieces.into_iter(), async |mut pieces| {
        let piece = pieces.next()?;
        tokio::time::sleep(Duration::from_secs(8)).await;
        Some((piece, pieces))
    });
    let request = Request::post("/v1/chat/completions");
    request.body(Body::from_stream(pieces)).unwrap()
}

/// The value of the first line of `/metrics` that begins so.
async fn metric(cluster: &Cluster, name: &str) -> f64 {
    let response = cluster.call("GET", "/metrics", None).await;
    let text = String::from_utf8(bytes(response).await.to_vec()).unwrap();
    let line = text.lines().find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn time_to_first_token_begins_when_the_request_is_there() {
    let cluster = Cluster::start(Setup::default()).await;
    let request = slowly(&cluster, Ok(()));
    let response = cluster.frontend.service().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    bytes(response).await;
    let took = metric(&cluster, "dynamo_frontend_time_to_first_token_seconds_sum").await;
    assert!(took > 0.0 && took < 8.0, "{took}");
}

#[tokio::test(start_paused = true)]
async fn who_hangs_up_while_sending_is_counted_and_leaves_nothing() {
    let cluster = Cluster::start(Setup::default()).await;
    // Once as an error of the body, once as hyper does it: by forgetting the request.
    let broken = slowly(&cluster, Err(std::io::ErrorKind::UnexpectedEof));
    let response = cluster.frontend.service().oneshot(broken).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let forgotten = slowly(&cluster, Ok(()));
    let forgotten = cluster.frontend.service().oneshot(forgotten);
    let gone = tokio::time::timeout(Duration::from_secs(10), forgotten).await;
    assert!(gone.is_err());
    let requests = "dynamo_frontend_requests_total{";
    let response = cluster.call("GET", "/metrics", None).await;
    let text = String::from_utf8(bytes(response).await.to_vec()).unwrap();
    let counted: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with(requests))
        .collect();
    assert_eq!(counted.len(), 1, "{counted:?}");
    assert!(counted[0].contains("\"cancelled\""), "{counted:?}");
    assert!(counted[0].ends_with(" 2"), "{counted:?}");
    assert_eq!(cluster.frontend.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_has_its_place_before_its_body() {
    let cluster = Cluster::start(Setup::default()).await;
    let request = slowly(&cluster, Ok(()));
    let served = cluster.frontend.service().oneshot(request);
    let held = cluster.until("the body is being read", |c| c.frontend.in_flight() == 1);
    let (served, ()) = tokio::join!(served, held);
    assert_eq!(served.unwrap().status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn decisions_come_in_pages_of_a_bounded_size() {
    let profile = Profile::named(engine::sim::DEFAULT_PROFILE).unwrap();
    let cluster = Cluster::start(Setup {
        workers: 64,
        profile,
        ..Setup::default()
    })
    .await;
    for number in 0..90 {
        let message = user(&format!("question {number}"));
        let chat = cluster.chat(&[message]).with("max_tokens", 1);
        assert_eq!(chat.send().await.status(), StatusCode::OK);
    }
    let mut numbers = Vec::new();
    let mut pages = 0;
    let mut path = "/decisions?limit=1000".to_owned();
    loop {
        let response = cluster.call("GET", &path, None).await;
        let page = bytes(response).await;
        assert!(page.len() < 1_200_000, "{}", page.len());
        let page: Value = serde_json::from_slice(&page).unwrap();
        let decisions = page["decisions"].as_array().unwrap().iter();
        numbers.extend(decisions.map(|decision| decision["number"].as_u64().unwrap()));
        pages += 1;
        match page["next"].as_u64() {
            Some(next) => path = format!("/decisions?limit=1000&before={next}"),
            None => break,
        }
    }
    assert!(pages > 1, "all fitted one page");
    let expected: Vec<u64> = (1..=90).rev().collect();
    assert_eq!(numbers, expected);
    let page = cluster.get("/decisions?limit=2&before=10").await;
    assert_eq!(page["decisions"][0]["number"], 9);
    assert_eq!(page["next"], 8);
}
