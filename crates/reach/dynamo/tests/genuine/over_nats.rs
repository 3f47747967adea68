//! The same, with a NATS server between us and the workers.

use contract::LinkError;
use dynamo::Registry;
use nats::Nats;
use telemetry::catalog;
use test_servers::dynamo::Planes;
use test_servers::nats::Server;

use crate::Ground;
use crate::fleet::{Fleet, in_time, prompt, request};

pub(crate) async fn watch(ground: &Ground, server: &Server) -> Fleet {
    let nats = Nats::connect(&server.url())
        .await
        .expect("it is an address");
    let folder = ground.registry.path().to_owned();
    Fleet::watch_with(Registry::Files(folder), Some(nats)).await
}

pub(crate) fn nothing_is_unreadable(fleet: &Fleet) {
    for metric in [
        &catalog::DYNAMO_ORPHANED_BLOCKS_TOTAL,
        &catalog::DYNAMO_UNREADABLE_EVENTS_TOTAL,
        &catalog::DYNAMO_REFUSED_STREAMS_TOTAL,
        &catalog::DYNAMO_UNREADABLE_REGISTRATIONS_TOTAL,
    ] {
        let count = fleet.metrics.counter(metric, &[]).get();
        assert_eq!(count, 0, "{}", metric.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs ai-dynamo"]
async fn events_over_nats_predict_the_cache_and_are_made_up_for_after_a_restart() {
    let mut server = Server::start().expect("tests need nats-server");
    let ground = Ground::new();
    let planes = Planes::NatsEvents(server.url());
    let options = ["--num-workers=2", "--speedup-ratio=20"];
    let _mocker = ground.start_in(ground.folder(), planes, &options);
    let mut fleet = watch(&ground, &server).await;
    let ids = fleet.until(2).await;

    let worker = fleet.worker(ids[0]);
    let heard = prompt(1, 70);
    worker.serve(request(&heard, 3)).await.unwrap();
    worker.until_predicted(&heard, 64).await;
    let again = worker.serve(request(&heard, 3)).await.unwrap();
    assert_eq!(again.cached_tokens, 64);
    assert_eq!(fleet.worker(ids[1]).predicted(&heard), 0);

    // Requests go on without the server; what they leave in the cache is known once it is back,
    // without another request.
    server.kill();
    let worker = fleet.worker(ids[0]);
    let unheard = prompt(2, 70);
    worker.serve(request(&unheard, 3)).await.unwrap();
    assert_eq!(worker.predicted(&unheard), 0);
    server.restart().unwrap();
    worker.until_predicted(&unheard, 64).await;
    assert_eq!(worker.predicted(&heard), 64);

    let child = [&unheard[..64], &prompt(9, 40)].concat();
    let reused = worker.serve(request(&child, 3)).await.unwrap();
    assert_eq!(reused.cached_tokens, 64);
    worker.until_predicted(&child, 96).await;
    nothing_is_unreadable(&fleet);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs ai-dynamo"]
async fn requests_over_nats_are_served_recovered_and_fail_at_once() {
    let mut server = Server::start().expect("tests need nats-server");
    let ground = Ground::new();
    let start = || {
        let planes = Planes::Nats(server.url());
        ground.start_in(ground.folder(), planes, &["--speedup-ratio=20"])
    };
    let doomed = start();
    let mut fleet = watch(&ground, &server).await;
    let first = fleet.until(1).await[0];
    let worker = fleet.worker(first);
    let held = prompt(1, 70);
    let answer = worker.serve(request(&held, 40)).await.unwrap();
    assert_eq!(answer.tokens.len(), 40);
    worker.until_predicted(&held, 64).await;
    let again = worker.serve(request(&held, 3)).await.unwrap();
    assert_eq!(again.cached_tokens, 64);
    let snapshot = in_time("a snapshot", worker.link.snapshot()).await.unwrap();
    assert!(snapshot.blocks.len() >= 4, "{snapshot:?}");

    // NATS takes a megabyte at once.
    let huge = worker.serve(request(&prompt(3, 600_000), 5)).await;
    let error = huge.unwrap_err();
    assert!(matches!(error, LinkError::TooLarge { .. }), "{error}");
    assert!(worker.serve(request(&prompt(4, 40), 5)).await.is_ok());

    // A killed worker is noticed before its registration expires.
    let link = std::sync::Arc::clone(&worker.link);
    drop(doomed);
    let error = in_time("a refusal", async {
        loop {
            // One that the server still handed to the dead worker is not answered.
            match link.generate(request(&prompt(5, 40), 5)).await {
                Err(error) if error.to_string().contains("nobody listens") => return error,
                Ok(_) | Err(_) => {}
            }
        }
    });
    let error = error.await;
    assert!(matches!(error, LinkError::Unreachable { .. }), "{error}");
    fleet.until(0).await;

    let _next = start();
    let next = fleet.until(1).await[0];
    let worker = fleet.worker(next);
    worker.serve(request(&prompt(6, 40), 5)).await.unwrap();
    server.kill();
    let error = in_time("a refusal", async {
        loop {
            match worker.link.generate(request(&prompt(7, 40), 5)).await {
                Err(error) if error.to_string().contains("no connection") => return error,
                Ok(_) | Err(_) => {}
            }
        }
    });
    let error = error.await;
    assert!(matches!(error, LinkError::Unreachable { .. }), "{error}");
    server.restart().unwrap();
    in_time("an answer", async {
        while worker.serve(request(&prompt(8, 40), 5)).await.is_err() {}
    })
    .await;
}
