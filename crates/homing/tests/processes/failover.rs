//! A worker dies with a hundred open streams, and nobody who reads them can tell.

use std::time::Duration;

use tokio::sync::Notify;

use crate::client::Streamed;
use crate::system::{Process, cached_blocks, index_is_right, metric, until, until_workers};
use crate::turns::{STREAMS, ask, begin_during, first_turns, percentile, second_turns, texts};

/// Two turns of every conversation; a worker is killed in the midst of the second.
async fn survives(frontend: &Process, workers: &mut Vec<Process>) {
    let url = frontend.address.as_str();
    let first = ask(url, &first_turns(), None).await;
    assert!(first.iter().all(Streamed::is_complete), "the first turns");
    let turns = second_turns(first_turns(), &first);
    let undisturbed = ask(url, &turns, None).await;
    assert!(undisturbed.iter().all(Streamed::is_complete));
    let cached = undisturbed.iter().filter(|answer| answer.cached_tokens > 0);
    println!(
        "{} of {STREAMS} second turns found their first",
        cached.count()
    );

    let begun = Notify::new();
    let kill = async {
        begun.notified().await;
        let mut victim = workers.remove(0);
        victim.kill();
    };
    let (disturbed, ()) = tokio::join!(ask(url, &turns, Some(&begun)), kill);
    let failed = disturbed.iter().find(|answer| !answer.is_complete());
    assert!(failed.is_none(), "{failed:?}");
    assert_eq!(texts(&disturbed), texts(&undisturbed));
    let moved = metric(frontend, "dynamo_frontend_model_migration_total").await;
    assert!(moved > 0.0, "the worker that was killed had streams");
    let gaps = disturbed.iter().map(|answer| answer.longest_gap).collect();
    let took = until("the index is right", frontend, |workers| {
        workers.len() == 2 && workers.iter().all(index_is_right)
    })
    .await;
    println!(
        "{moved} of {STREAMS} streams moved; longest gap p99 {:?}; index right after {took:?}",
        percentile(gaps, 0.99)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_worker_costs_no_stream_over_nats_and_etcd() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = test_servers::etcd::Server::start(folder.path()).unwrap();
    let mut nats = test_servers::nats::Server::start().unwrap();
    let (etcd_url, nats_url) = (etcd.address(), nats.url());
    let plane = [
        "--discovery",
        "etcd",
        "--etcd",
        &etcd_url,
        "--nats",
        &nats_url,
    ];
    let publish = [&plane[..], &["--events", "nats"]].concat();
    let mut workers: Vec<_> = (0..3).map(|_| Process::worker(&publish)).collect();
    let frontend = Process::frontend(&plane);
    until_workers(&frontend, 3).await;
    survives(&frontend, &mut workers).await;

    // The broker goes for ten seconds; requests go on, and hits recover.
    let before = cached_blocks(&crate::system::workers(&frontend).await);
    nats.kill();
    let url = frontend.address.as_str();
    let (turns, without) = begin_during(url, Duration::from_secs(10)).await;
    assert!(without.iter().all(Streamed::is_complete));
    nats.restart().unwrap();
    let took = until("the index is right", &frontend, |workers| {
        cached_blocks(workers) > before && workers.iter().all(index_is_right)
    })
    .await;
    let again = ask(url, &second_turns(turns, &without)[..20], None).await;
    assert!(again.iter().all(Streamed::is_complete));
    let hits = again
        .iter()
        .filter(|answer| answer.cached_tokens > 0)
        .count();
    println!(
        "NATS away for 10 s: {} requests, none failed; index right {took:?} after it was back; \
         {hits} of 20 second turns hit",
        without.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_worker_costs_no_stream_over_zeromq() {
    let mut workers: Vec<_> = (0..3)
        .map(|_| Process::worker(&["--events", "zmq"]))
        .collect();
    let addresses: Vec<_> = workers.iter().map(|one| one.address.clone()).collect();
    let frontend = Process::frontend(&["--workers", &addresses.join(",")]);
    until_workers(&frontend, 3).await;
    survives(&frontend, &mut workers).await;
}

/// A machine that is starved, suspended or moved: every worker on it is silent, and none dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_all_stand_still_for_a_while_cost_no_stream() {
    let workers: Vec<_> = (0..3).map(|_| Process::worker(&[])).collect();
    let addresses: Vec<_> = workers.iter().map(|one| one.address.clone()).collect();
    let frontend = Process::frontend(&["--workers", &addresses.join(",")]);
    until_workers(&frontend, 3).await;
    let turns: Vec<_> = first_turns().into_iter().take(30).collect();
    let undisturbed = ask(&frontend.address, &turns, None).await;
    assert!(undisturbed.iter().all(Streamed::is_complete));

    let begun = Notify::new();
    let still = async {
        begun.notified().await;
        workers.iter().for_each(Process::stand_still);
        tokio::time::sleep(Duration::from_secs(4)).await;
        workers.iter().for_each(Process::go_on);
    };
    let (answers, ()) = tokio::join!(ask(&frontend.address, &turns, Some(&begun)), still);
    let failed = answers.iter().find(|answer| !answer.is_complete());
    assert!(failed.is_none(), "{failed:?}");
    assert_eq!(texts(&answers), texts(&undisturbed));
    until_workers(&frontend, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_worker_finishes_and_one_that_comes_back_is_taken_in() {
    let mut workers: Vec<_> = (0..2).map(|_| Process::worker(&[])).collect();
    let addresses: Vec<_> = workers.iter().map(|one| one.address.clone()).collect();
    let frontend = Process::frontend(&["--workers", &addresses.join(",")]);
    until_workers(&frontend, 2).await;
    let begun = Notify::new();
    let turns: Vec<_> = first_turns().into_iter().take(20).collect();
    let drain = async {
        begun.notified().await;
        workers[0].terminate();
    };
    let (answers, ()) = tokio::join!(ask(&frontend.address, &turns, Some(&begun)), drain);
    assert!(answers.iter().all(Streamed::is_complete));
    let moved = metric(&frontend, "dynamo_frontend_model_migration_total").await;
    assert!(moved == 0.0, "who drains finishes: {moved} moved");
    workers[0].wait();
    until_workers(&frontend, 1).await;
    let port = addresses[0].rsplit(':').next().unwrap();
    workers[0] = Process::worker(&["--port", port]);
    until_workers(&frontend, 2).await;
    let answers = ask(&frontend.address, &turns, None).await;
    assert!(answers.iter().all(Streamed::is_complete));
}
