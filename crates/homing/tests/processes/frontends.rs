//! Several frontends over the same workers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;

use crate::client::{Streamed, chat, user};
use crate::system::{Process, until, until_workers, workers};

const CONCURRENCY: usize = 180;
const TURNS: usize = 3;

fn p95(answers: &[Streamed]) -> Duration {
    let mut firsts: Vec<_> = answers.iter().map(|answer| answer.first).collect();
    firsts.sort();
    firsts[(firsts.len() - 1) * 95 / 100]
}

/// Conversations over all frontends alike. Meanwhile no worker may have more requests than
/// slots.
async fn load(frontends: &[Process]) -> (Vec<Streamed>, u64) {
    let running = AtomicBool::new(true);
    let conversations = (0..CONCURRENCY).map(|index| async move {
        let frontend = &frontends[index % frontends.len()].address;
        // Everybody arriving in the same instant is not what is measured here.
        tokio::time::sleep(Duration::from_millis(10 * index as u64)).await;
        let mut answers = Vec::new();
        for turn in 0..TURNS {
            let text = format!("Question {turn} of conversation {index}. ").repeat(10);
            answers.push(chat(frontend, &[user(&text)], 80, |_| {}).await);
        }
        answers
    });
    let watch = async {
        let mut most = 0;
        while running.load(Ordering::Relaxed) {
            for frontend in frontends {
                for worker in workers(frontend).await {
                    let status = &worker["status"];
                    let given = status["running"].as_u64().unwrap_or(0)
                        + status["waiting"].as_u64().unwrap_or(0);
                    most = most.max(given);
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        most
    };
    let work = async {
        let answers = join_all(conversations).await;
        running.store(false, Ordering::Relaxed);
        answers.concat()
    };
    tokio::join!(work, watch)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_frontends_never_overfill_a_worker() {
    let workers: Vec<_> = (0..3).map(|_| Process::worker(&[])).collect();
    let addresses: Vec<_> = workers.iter().map(|one| one.address.clone()).collect();
    let list = addresses.join(",");
    let start = || Process::frontend(&["--workers", &list]);

    let mut frontends = vec![start()];
    until_workers(&frontends[0], 3).await;
    let (alone, most_alone) = load(&frontends).await;
    frontends.push(start());
    until_workers(&frontends[1], 3).await;
    let shared = |workers: &[serde_json::Value]| workers.iter().all(|worker| worker["lease"] == 32);
    let took = until("the slots are divided", &frontends[1], shared).await;
    println!("slots divided {took:?} after the second frontend came");
    let (together, most) = load(&frontends).await;
    for answers in [&alone, &together] {
        let failed = answers.iter().find(|answer| !answer.is_complete());
        assert!(failed.is_none(), "{failed:?}");
    }
    println!(
        "TTFT p95: one frontend {:?}, two {:?}; most on a worker: {most_alone}, {most} of 64",
        p95(&alone),
        p95(&together)
    );
    assert!(most_alone <= 64 && most <= 64, "{most_alone}, {most}");

    // What a dead frontend had is the other's.
    frontends.remove(1).kill();
    let all = |workers: &[serde_json::Value]| workers.iter().all(|worker| worker["lease"] == 64);
    let took = until("leases come back", &frontends[0], all).await;
    println!("leases back {took:?} after a frontend was killed");
}
