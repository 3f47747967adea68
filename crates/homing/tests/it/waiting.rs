//! When every worker is full, in the mode that binds late.

use std::time::Duration;

use http::StatusCode;

use crate::cluster::{Chat, Cluster, Setup, user};

async fn full_cluster() -> (Cluster, usize) {
    let setup = Setup {
        mode: "kv",
        workers: 1,
        ..Setup::default()
    };
    let cluster = Cluster::start(setup).await;
    let slots = cluster.views()[0].card.slots as usize;
    (cluster, slots)
}

fn long(cluster: &Cluster) -> Chat<'_> {
    let request = cluster.chat(&[user("a long answer, please")]);
    request.with("ignore_eos", true).with("max_tokens", 300)
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_in_the_router_until_a_slot_frees() {
    let (cluster, slots) = full_cluster().await;
    let mut running = Vec::new();
    for _ in 0..slots {
        running.push(long(&cluster).with("stream", true).send().await);
    }
    let late = cluster.chat(&[user("me too")]).with("max_tokens", 2);
    let free_one = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(cluster.router.total_queued(), 1);
        assert_eq!(cluster.views()[0].in_flight as usize, slots);
        running.pop();
    };
    let (answer, ()) = tokio::join!(late.answer(), free_one);
    assert!(answer.first_token >= Duration::from_secs(1));
    assert_eq!(answer.finish, "length");
    assert_eq!(cluster.router.total_queued(), 0);
    let decision = &cluster.get("/decisions?limit=1").await["decisions"][0];
    assert!(
        decision["queued_ms"].as_f64().unwrap() >= 999.0,
        "{decision}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_cannot_wait_that_long_is_refused_at_once() {
    let (cluster, slots) = full_cluster().await;
    let mut running = Vec::new();
    for _ in 0..slots {
        running.push(long(&cluster).with("stream", true).send().await);
    }
    let impatient = cluster
        .chat(&[user("now")])
        .header("x-request-timeout-ms", "1");
    let refused = impatient.send().await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(
        cluster.router.total_queued(),
        0,
        "it does not stay in the queue"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_the_queue_leaves_nothing_behind() {
    let (cluster, slots) = full_cluster().await;
    let mut running = Vec::new();
    for _ in 0..slots {
        running.push(long(&cluster).with("stream", true).send().await);
    }
    {
        let mut waiting = Box::pin(cluster.chat(&[user("never mind")]).send());
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        let queued = |c: &Cluster| c.router.total_queued() == 1;
        cluster.until("it waits", queued).await;
    }
    let left = |c: &Cluster| c.router.total_queued() == 0;
    cluster.until("it has left", left).await;
    assert_eq!(cluster.views()[0].in_flight as usize, slots);
    drop(running);
    let empty = |c: &Cluster| c.views()[0].in_flight == 0;
    cluster.until("the others have left", empty).await;
}

#[tokio::test(start_paused = true)]
async fn the_more_urgent_goes_first() {
    let (cluster, slots) = full_cluster().await;
    let mut running = Vec::new();
    for _ in 0..slots {
        running.push(long(&cluster).with("stream", true).send().await);
    }
    let ordinary = cluster.chat(&[user("ordinary")]).with("max_tokens", 2);
    let urgent = cluster.chat(&[user("urgent")]).with("max_tokens", 2);
    let free = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        running.pop();
    };
    let (ordinary, urgent, ()) = tokio::join!(
        ordinary.answer(),
        urgent.header("x-request-priority", "5").answer(),
        free,
    );
    assert!(urgent.first_token < ordinary.first_token);
}

#[tokio::test(start_paused = true)]
async fn a_header_that_is_not_a_number_is_named() {
    let (cluster, _) = full_cluster().await;
    let request = cluster
        .chat(&[user("hello")])
        .header("x-request-priority", "high");
    assert_eq!(request.send().await.status(), StatusCode::BAD_REQUEST);
}
