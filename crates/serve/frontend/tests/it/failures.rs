//! What a client sees when something is wrong.

use std::sync::Arc;
use std::time::Duration;

use contract::{GenerateRequest, KvSnapshot, LinkError, TokenStream, WorkerId, token_stream};
use engine::sim::Profile;
use http::StatusCode;
use serde_json::Value;
use transport::{Change, LinkFuture, Member, WorkerLink, feed};

use testkit::{Cluster, Setup, bytes, user};

/// A worker that dies before the first token: of any answer, or before it takes a request.
#[derive(Clone, Copy, Debug)]
struct Broken {
    id: WorkerId,
    takes: bool,
}

impl WorkerLink for Broken {
    fn generate(&self, _: GenerateRequest) -> LinkFuture<'_, TokenStream> {
        let Self { id, takes } = *self;
        Box::pin(async move {
            match takes {
                true => Ok(token_stream(id).1),
                false => Err(LinkError::Lost { worker: id }),
            }
        })
    }

    fn snapshot(&self) -> LinkFuture<'_, KvSnapshot> {
        Box::pin(async { Ok(KvSnapshot::default()) })
    }

    fn reset_cache(&self) -> LinkFuture<'_, ()> {
        Box::pin(async {
            Err(LinkError::Unreachable {
                worker: self.id,
                detail: "broken".to_owned(),
            })
        })
    }
}

async fn join_broken(cluster: &Cluster, id: u64) -> transport::FeedPublisher {
    let id = WorkerId(id);
    join(cluster, Broken { id, takes: true }).await
}

async fn join(cluster: &Cluster, broken: Broken) -> transport::FeedPublisher {
    let card = Profile::named(engine::sim::DEFAULT_PROFILE)
        .unwrap()
        .card(broken.id, "broken");
    let (publisher, feed) = feed(cluster.router.clock());
    let before = cluster.views().len();
    let member = Member {
        card,
        link: Arc::new(broken),
        feed,
        warm: false,
        lease: None,
    };
    cluster
        .roster
        .announce(Change::Joined(Box::new(member)))
        .await;
    cluster
        .until("it has joined", |c| c.views().len() == before + 1)
        .await;
    publisher
}

async fn error(response: http::Response<axum::body::Body>) -> (StatusCode, Value) {
    let status = response.status();
    (
        status,
        serde_json::from_slice::<Value>(&bytes(response).await).unwrap()["error"].clone(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_before_the_first_token_costs_a_retry_and_not_the_request() {
    let cluster = Cluster::start(Setup {
        mode: "round-robin",
        workers: 1,
        ..Setup::default()
    })
    .await;
    let _feed = join_broken(&cluster, 7).await;
    for _ in 0..4 {
        let answer = cluster
            .chat(&[user("retry me")])
            .with("max_tokens", 3)
            .answer()
            .await;
        assert_eq!(answer.worker, "0");
    }
    assert!(cluster.views().iter().all(|worker| worker.in_flight == 0));
}

#[tokio::test(start_paused = true)]
async fn when_every_worker_fails_the_client_is_told() {
    let cluster = Cluster::start(Setup {
        workers: 0,
        ..Setup::default()
    })
    .await;
    let _feed = join_broken(&cluster, 7).await;
    let (status, error) = error(cluster.chat(&[user("anyone?")]).send().await).await;
    assert_eq!(status, StatusCode::BAD_GATEWAY);
    assert_eq!(error["code"], "worker_failed");
    assert_eq!(cluster.views()[0].in_flight, 0);
}

/// A fleet loses many workers at once, and a request that none of them had taken killed none.
#[tokio::test(start_paused = true)]
async fn workers_that_are_lost_before_they_take_a_request_are_not_counted_against_it() {
    for (takes, expected) in [(false, StatusCode::OK), (true, StatusCode::BAD_GATEWAY)] {
        let cluster = Cluster::start(Setup {
            mode: "round-robin",
            workers: 1,
            ..Setup::default()
        })
        .await;
        let mut feeds = Vec::new();
        for id in (7..15).map(WorkerId) {
            feeds.push(join(&cluster, Broken { id, takes }).await);
        }
        // Whoever is tried first: one of nine serves, and the migration limit is 3.
        let mut statuses = Vec::new();
        for _ in 0..9 {
            let request = cluster.chat(&[user("move me")]).with("max_tokens", 3);
            statuses.push(request.send().await.status());
        }
        assert!(statuses.contains(&expected), "{statuses:?}");
        let served = statuses.iter().all(|status| *status == StatusCode::OK);
        assert_eq!(served, !takes, "{statuses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_feed_ends_is_gone() {
    let cluster = Cluster::start(Setup {
        workers: 0,
        ..Setup::default()
    })
    .await;
    drop(join_broken(&cluster, 7).await);
    cluster.until("it is gone", |c| c.views().is_empty()).await;
    let (status, error) = error(cluster.chat(&[user("anyone?")]).send().await).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(error["code"], "no_worker");
}

#[tokio::test(start_paused = true)]
async fn full_workers_and_queues_refuse_with_a_retry_after() {
    let cluster = Cluster::start(Setup {
        workers: 1,
        queue_limit: 2,
        ..Setup::default()
    })
    .await;
    let slots = cluster.views()[0].card.slots as usize;
    let messages = [user("fill the worker")];
    let mut running = Vec::new();
    for _ in 0..slots {
        let request = cluster
            .chat(&messages)
            .with("stream", true)
            .with("ignore_eos", true);
        running.push(request.with("max_tokens", 5000).send().await);
    }
    // Two more wait in the engine's queue; they have no first token yet, so poll them once.
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let request = cluster.chat(&messages).with("max_tokens", 1);
        let mut request = Box::pin(request.send());
        assert!(futures_util::poll!(request.as_mut()).is_pending());
        waiting.push(request);
    }
    let placed = |c: &Cluster| c.views()[0].in_flight as usize == slots + 2;
    cluster.until("they are placed", placed).await;
    let response = cluster.chat(&messages).send().await;
    assert!(response.headers().contains_key("retry-after"));
    let (status, error) = error(response).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(error["code"], "workers_full");
    drop((running, waiting));
    let empty = |c: &Cluster| c.views()[0].in_flight == 0;
    cluster.until("everything is given back", empty).await;
    assert_eq!(
        cluster
            .chat(&messages)
            .with("max_tokens", 2)
            .answer()
            .await
            .finish,
        "length"
    );
}

#[tokio::test(start_paused = true)]
async fn a_closing_server_finishes_what_runs_and_takes_nothing_new() {
    let cluster = Cluster::start(Setup::default()).await;
    let messages = [user("one last thing")];
    let running = cluster
        .chat(&messages)
        .with("max_tokens", 100)
        .with("ignore_eos", true)
        .answer();
    let closing = async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        cluster.frontend.close();
        let refused = error(cluster.chat(&messages).send().await).await;
        let ready = cluster.call("GET", "/ready", None).await.status();
        cluster.frontend.idle().await;
        (refused, ready)
    };
    let (answer, ((status, error), ready)) = tokio::join!(running, closing);
    assert_eq!(answer.usage.completion_tokens, 100);
    assert_eq!(
        (status, error["code"].as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, Some("draining"))
    );
    assert_eq!(ready, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_cannot_be_reset_is_named() {
    let cluster = Cluster::start(Setup {
        workers: 1,
        ..Setup::default()
    })
    .await;
    let _feed = join_broken(&cluster, 7).await;
    let response = cluster.call("POST", "/reset_prefix_cache", None).await;
    let outcome: Value = serde_json::from_slice(&bytes(response).await).unwrap();
    assert_eq!(outcome["reset"], serde_json::json!(["0"]));
    assert_eq!(outcome["failed"][0]["worker"], "7");
}

#[tokio::test(start_paused = true)]
async fn a_failed_worker_does_not_start_the_time_to_wait_anew() {
    let patience = Duration::from_secs(5);
    let cluster = Cluster::start(Setup {
        mode: "kv",
        workers: 1,
        max_queue_wait: Some(patience),
        ..Setup::default()
    })
    .await;
    // Half a minute of work, so that no slot of the worker that works frees.
    let mut running = Vec::new();
    for _ in 0..cluster.views()[0].card.slots {
        let request = cluster.chat(&[user("a long answer, please")]);
        let request = request.with("ignore_eos", true).with("max_tokens", 1000);
        running.push(request.with("stream", true).send().await);
    }
    let began = cluster.clock.now();
    let late = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let feed = join_broken(&cluster, 7).await;
        let failed = |c: &Cluster| c.get_metric("homing_frontend_retries_total") == 1.0;
        cluster.until("it has failed the request", failed).await;
        feed
    };
    let (refused, _feed) = tokio::join!(cluster.chat(&[user("me too")]).send(), late);
    let waited = cluster.clock.now() - began;
    let (status, error) = error(refused).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{error}");
    assert_eq!(error["code"], "queue_timeout");
    assert!(
        waited.abs_diff(patience) < Duration::from_millis(10),
        "{waited:?}"
    );
}
