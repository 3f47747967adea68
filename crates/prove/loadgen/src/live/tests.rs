//! Whole runs against a server of known latency, on a paused clock.

mod interface;

use std::time::Duration;

use contract::Clock;
use serde_json::Value;
use telemetry::Registry;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use super::*;
use crate::failure::FailureKind;
use crate::log::ConversationStatus;
use crate::mock::{Fault, Manner, Mock};

struct Bench {
    load: LoadGenerator,
    mock: Mock,
    registry: Registry,
    clock: Clock,
    records: Arc<Mutex<Vec<RequestRecord>>>,
}

fn settings(concurrency: u32) -> Settings {
    Settings {
        concurrency,
        starts_per_second: 0.0,
        ..Settings::default()
    }
}

fn bench(settings: Settings, manner: Manner) -> Bench {
    bench_with(settings, manner, None)
}

fn bench_with(settings: Settings, manner: Manner, user: Option<&Mock>) -> Bench {
    bench_when(settings, manner, user, |_| Readiness::assumed())
}

/// With a readiness that is made of the client.
fn bench_when(
    settings: Settings,
    manner: Manner,
    user: Option<&Mock>,
    ready: impl FnOnce(Client) -> Readiness,
) -> Bench {
    let clock = Clock::start();
    let (mock, registry) = (Mock::new(manner), Registry::new());
    let records: Arc<Mutex<Vec<RequestRecord>>> = Arc::default();
    let sink = Arc::clone(&records);
    let config = LiveConfig {
        settings,
        seed: 7,
        sampling_seeds: true,
        warmup: Duration::ZERO,
        unix_ms: 1_000_000,
    };
    let parts = LiveParts {
        ready: ready(mock.client(clock, false)),
        client: mock.client(clock, false),
        starters: vec![
            Starter::new("Tides", "The moon pulls."),
            Starter::new("Rivers", "They flow."),
        ],
        user_model: user.map(|user| UserModel::new(user.client(clock, false))),
        registry: registry.clone(),
        clock,
        records: Some(Box::new(move |record, _| sink.lock().push(record.clone()))),
    };
    let load = LoadGenerator::spawn(config, parts, &TaskTracker::new()).unwrap();
    Bench {
        load,
        mock,
        registry,
        clock,
        records,
    }
}

async fn seconds(count: u64) {
    sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn figures_are_the_servers_and_the_level_is_kept() {
    let bench = bench(settings(8), Manner::default());
    assert_eq!(bench.load.snapshot().phase, Phase::Stopped);
    bench.load.start().await;
    let mut snapshots = bench.load.snapshots();
    for _ in 0..30 {
        snapshots.changed().await.unwrap();
    }
    let at = bench.clock.now().as_secs_f64();
    assert!((28.0..=30.0).contains(&at), "one snapshot a second: {at}");
    let snapshot = snapshots.borrow().clone();
    assert_eq!(
        (snapshot.phase, snapshot.conversations.active),
        (Phase::Running, 8)
    );
    let window = snapshot.window;
    assert_eq!(
        (window.ttft_ms.p50, window.ttft_ms.p99),
        (Some(300.0), Some(300.0))
    );
    assert_eq!(
        (window.tpot_ms.p95, window.itl_ms.p95),
        (Some(30.0), Some(30.0))
    );
    assert_eq!(window.e2e_ms.p50, Some(870.0));
    assert_eq!(window.dispatch_lag_ms.p99, Some(0.0));
    assert_eq!((window.failures, window.error_pct), (0, Some(0.0)));
    assert_eq!(window.cached_pct, Some(40.0));
    assert!(window.followup.ttft_ms.samples > window.initial.ttft_ms.samples);
    // Eight conversations, each 870 ms busy and never idle.
    assert!((window.rps - 8.0 / 0.87).abs() < 0.3, "{}", window.rps);
    let page = bench
        .registry
        .render(bench.clock.now() - contract::Moment::ZERO);
    assert!(
        page.contains("loadgen_ttft_all_seconds{quantile=\"0.95\"} 0.3\n"),
        "{page}"
    );
    assert!(page.contains("loadgen_active_conversations 8\n"), "{page}");
    assert!(page.contains("loadgen_requests_total{turn_type=\"followup\",status=\"success\"}"));
}

#[tokio::test(start_paused = true)]
async fn a_long_answer_shows_before_it_ends() {
    for counts_along in [true, false] {
        let long = Manner {
            tokens: 500,
            counts_along,
            ..Manner::default()
        };
        let bench = bench(settings(6), long);
        bench.load.start().await;
        seconds(10).await;
        let window = bench.load.snapshot().window;
        assert_eq!(window.requests, 0, "none has ended");
        assert_eq!(
            (window.ttft_ms.samples, window.ttft_ms.p95),
            (6, Some(300.0))
        );
        // 9.7 of 10 seconds, a token every 30 ms.
        let expected = 6.0 * (9.7 / 0.03_f64).ceil() / 10.0;
        assert!((window.tops - expected).abs() < 1.0, "{}", window.tops);
        assert_eq!(window.tokens_per_chunk, Some(1.0));
        // Only a server that counts along says these before the end.
        assert_eq!(window.cached_pct, counts_along.then_some(40.0));
        assert_eq!(window.itl_ms.p95, counts_along.then_some(30.0));
        let page = bench
            .registry
            .render(bench.clock.now() - contract::Moment::ZERO);
        assert!(
            page.contains("loadgen_ttft_all_seconds_count 6\n"),
            "{page}"
        );
        seconds(10).await;
        let window = bench.load.snapshot().window;
        assert_eq!((window.requests, window.ttft_ms.samples), (6, 12));
        assert_eq!(
            (window.cached_pct, window.itl_ms.p95),
            (Some(40.0), Some(30.0))
        );
        assert_eq!(bench.load.totals().ttft.len(), 6, "those that ended");
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_are_the_servers_count_in_the_end() {
    for counts_along in [true, false] {
        let bundles = Manner {
            tokens: 40,
            tokens_per_event: 4,
            counts_along,
            ..Manner::default()
        };
        let bench = bench(settings(4), bundles);
        bench.load.start().await;
        seconds(30).await;
        bench.load.drain().await;
        bench.load.stopped().await;
        let snapshot = bench.load.snapshot();
        let (window, totals) = (snapshot.window, snapshot.totals);
        assert_eq!(totals.output_tokens, 40 * totals.requests);
        let tokens = window.tops * window.seconds;
        let difference = (tokens - totals.output_tokens as f64).abs();
        assert!(difference < 0.5, "{window:?}");
        assert_eq!(window.tokens_per_chunk, Some(4.0));
        assert_eq!(
            (window.itl_ms.p50, window.itl_ms.p99),
            (Some(30.0), Some(30.0))
        );
        let page = bench
            .registry
            .render(bench.clock.now() - contract::Moment::ZERO);
        let counted = format!("loadgen_output_tokens_total {}\n", totals.output_tokens);
        assert!(page.contains(&counted), "{page}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_token_was_measured_even_if_the_answer_fails() {
    let manner = Manner {
        counts_along: true,
        fault: Fault::BreakOff(5),
        ..Manner::default()
    };
    let bench = bench(settings(1), manner);
    bench.load.start().await;
    seconds(1).await;
    bench.load.stop().await;
    bench.load.stopped().await;
    let window = bench.load.snapshot().window;
    assert_eq!((window.requests, window.failures, window.rps), (1, 1, 0.0));
    assert_eq!((window.ttft_ms.samples, window.e2e_ms.samples), (1, 0));
    assert_eq!((window.tops * window.seconds).round(), 5.0);
    assert_eq!(bench.load.totals().ttft.len(), 1);
    let records = bench.records.lock();
    assert_eq!((records[0].ttft_ms, records[0].e2e_ms), (Some(300.0), None));
    assert!(records[0].error.is_some());
}

#[tokio::test(start_paused = true)]
async fn every_turn_resends_the_whole_conversation() {
    let bench = bench(settings(3), Manner::default());
    bench.load.start().await;
    seconds(20).await;
    bench.load.drain().await;
    bench.load.stopped().await;
    let seen = bench.mock.seen();
    let mut turns = 0;
    for (at, later) in seen.iter().enumerate() {
        let messages = later.body["messages"].as_array().unwrap();
        assert_eq!(messages.len() % 2, 1);
        assert!(!later.session.is_empty());
        let earlier = seen[..at]
            .iter()
            .rev()
            .find(|one| one.session == later.session);
        let Some(earlier) = earlier else {
            assert_eq!(messages.len(), 1);
            continue;
        };
        let before: &Vec<Value> = earlier.body["messages"].as_array().unwrap();
        assert_eq!(messages[..before.len()], before[..]);
        assert_eq!(messages.len(), before.len() + 2);
        let question = messages.last().unwrap()["content"].as_str().unwrap();
        assert!(
            question.contains("A sentence of just six words."),
            "{question}"
        );
        turns += 1;
    }
    assert!(turns > 30, "{turns}");
    let records = bench.records.lock();
    assert_eq!(records.len(), seen.len());
    assert!(records.iter().all(|record| record.ttft_ms == Some(300.0)));
    let line = serde_json::to_string(&records[0]).unwrap();
    assert_eq!(
        serde_json::from_str::<RequestRecord>(&line).unwrap(),
        records[0]
    );
    assert!(!line.contains("error"), "{line}");
    let totals = bench.load.totals();
    assert_eq!((totals.requests as usize, totals.failed()), (seen.len(), 0));
}

#[tokio::test(start_paused = true)]
async fn one_failure_in_twenty_is_five_in_a_hundred() {
    let fault = Fault::Refuse {
        status: 500,
        every: 20,
    };
    let manner = Manner {
        fault,
        ..Manner::default()
    };
    let bench = bench(settings(10), manner);
    bench.load.start().await;
    seconds(50).await;
    bench.load.drain().await;
    bench.load.stopped().await;
    let snapshot = bench.load.snapshot();
    let (requests, failures) = (snapshot.totals.requests, snapshot.totals.failures);
    assert_eq!(failures, requests / 20);
    assert!(
        (4.7..5.0).contains(&snapshot.window.error_pct.unwrap()),
        "{snapshot:?}"
    );
    assert_eq!(snapshot.window.ttft_ms.samples, requests - failures);
    assert_eq!(
        snapshot.totals.failures_by_kind[&FailureKind::Status],
        failures
    );
    assert_eq!(snapshot.last_failure.unwrap().failure.status, Some(500));
}

#[tokio::test(start_paused = true)]
async fn load_resumes_when_the_target_returns() {
    let bench = bench(settings(5), Manner::default());
    bench.load.start().await;
    seconds(10).await;
    let stalls = Manner {
        fault: Fault::Stall(2),
        ..Manner::default()
    };
    bench.mock.behave(stalls);
    seconds(2).await;
    let away = Manner {
        fault: Fault::Away,
        ..Manner::default()
    };
    bench.mock.behave(away);
    seconds(30).await;
    let during = bench.load.snapshot();
    assert_eq!(during.conversations.active, 5);
    let kinds = &during.totals.failures_by_kind;
    assert_eq!(kinds[&FailureKind::Stalled], 5);
    // Asked again once per second, not faster.
    let refused = kinds[&FailureKind::Connect];
    assert!((90..=150).contains(&refused), "{refused}");
    bench.mock.behave(Manner::default());
    seconds(10).await;
    let after = bench.load.snapshot();
    assert_eq!(after.conversations.active, 5);
    let answered = |snapshot: &Snapshot| snapshot.totals.requests - snapshot.totals.failures;
    assert!(answered(&after) > answered(&during) + 40);
    assert_eq!(
        after.conversations.failed, 0,
        "nobody gave up on an absent server"
    );
}

#[tokio::test(start_paused = true)]
async fn load_waits_for_the_first_worker() {
    let nobody = Manner {
        fault: Fault::Refuse {
            status: 503,
            every: 1,
        },
        ..Manner::default()
    };
    let follow = |client| Readiness::follow(client, None, &TaskTracker::new());
    let bench = bench_when(settings(5), nobody, None, follow);
    seconds(2).await;
    bench.load.start().await;
    seconds(20).await;
    let waiting = bench.load.snapshot();
    assert_eq!((waiting.phase, waiting.running_s), (Phase::Waiting, 0.0));
    assert_eq!(waiting.conversations.active, 0);
    bench.load.stop().await;
    assert_eq!(bench.load.snapshot().phase, Phase::Stopped);
    bench.load.start().await;
    assert_eq!(bench.load.snapshot().phase, Phase::Waiting);
    bench.mock.behave(Manner::default());
    bench.load.begun().await;
    seconds(10).await;
    let running = bench.load.snapshot();
    assert_eq!(running.phase, Phase::Running);
    assert_eq!(
        (running.totals.failures, running.conversations.active),
        (0, 5)
    );
    assert!(running.running_s > 8.0 && running.totals.requests > 5);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_always_fails_ends_its_conversation() {
    let fault = Fault::Refuse {
        status: 401,
        every: 1,
    };
    let manner = Manner {
        fault,
        ..Manner::default()
    };
    let bench = bench(settings(1), manner);
    bench.load.start().await;
    seconds(3).await;
    let first = bench.load.conversations().pop().unwrap();
    assert_eq!(first.status, ConversationStatus::Error);
    let told = bench.load.conversation(&first.id).unwrap();
    let attempts: Vec<u32> = told.turns[0].failed.iter().map(|one| one.attempt).collect();
    assert_eq!(attempts, [0, 1, 2]);
    assert!(
        bench.mock.seen().len() < 10,
        "refusals are not asked for without a pause"
    );
}

#[tokio::test(start_paused = true)]
async fn everything_changes_while_load_runs() {
    let bench = bench(settings(4), Manner::default());
    bench.load.start().await;
    seconds(5).await;
    bench.load.set(settings(12)).await.unwrap();
    seconds(2).await;
    assert_eq!(bench.load.snapshot().conversations.active, 12);
    bench.load.set(settings(2)).await.unwrap();
    seconds(2).await;
    let snapshot = bench.load.snapshot();
    assert_eq!(snapshot.conversations.active, 2);
    assert!(snapshot.conversations.stopped >= 8);
    assert!(
        bench
            .load
            .set(Settings {
                max_tokens: 0,
                ..settings(1)
            })
            .await
            .is_err()
    );

    bench.load.pause().await;
    seconds(2).await;
    let sent = bench.mock.seen().len();
    seconds(20).await;
    let paused = bench.load.snapshot();
    assert_eq!(
        (paused.phase, bench.mock.seen().len()),
        (Phase::Paused, sent)
    );
    assert_eq!(
        (paused.conversations.active, paused.conversations.idle),
        (2, 2)
    );
    let limited = Settings {
        max_requests_per_second: Some(1.0),
        max_tokens: 9,
        ..settings(2)
    };
    bench.load.set(limited).await.unwrap();
    bench.load.resume().await;
    seconds(10).await;
    let seen = bench.mock.seen();
    assert!(
        (9..=11).contains(&(seen.len() - sent)),
        "{}",
        seen.len() - sent
    );
    assert_eq!(seen.last().unwrap().body["max_tokens"], 9);

    bench.load.stop().await;
    bench.load.stopped().await;
    let stopped = bench.load.snapshot();
    assert_eq!(
        (stopped.phase, stopped.conversations.active),
        (Phase::Stopped, 0)
    );
    bench.load.start().await;
    seconds(5).await;
    let again = bench.load.snapshot();
    assert_eq!(
        (again.phase, again.conversations.active),
        (Phase::Running, 2)
    );
    assert!(again.totals.requests <= 6, "totals begin anew");
}

#[tokio::test(start_paused = true)]
async fn a_drain_lets_answers_end_and_a_stop_does_not() {
    let slow = Manner {
        tokens: 100,
        ..Manner::default()
    };
    for (drains, ended) in [(true, 4), (false, 0)] {
        let bench = bench(settings(4), slow);
        bench.load.start().await;
        seconds(1).await;
        if drains {
            bench.load.drain().await;
        } else {
            bench.load.stop().await;
        }
        bench.load.stopped().await;
        let snapshot = bench.load.snapshot();
        assert_eq!(
            (snapshot.totals.requests, snapshot.totals.failures),
            (ended, 0)
        );
        assert_eq!(snapshot.conversations.stopped, 4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_in_the_users_place_asks_and_may_fail() {
    let user = Mock::new(Manner {
        tokens: 3,
        ..Manner::default()
    });
    let bench = bench_with(settings(2), Manner::default(), Some(&user));
    bench.load.start().await;
    seconds(10).await;
    let snapshot = bench.load.snapshot();
    assert_eq!(snapshot.totals.user_model_fallbacks, 0);
    // Its time is the user's, not the server's, and no lag of ours.
    assert_eq!(snapshot.window.ttft_ms.p99, Some(300.0));
    assert_eq!(snapshot.window.dispatch_lag_ms.p99, Some(0.0));
    let asked = &user.seen()[0].body;
    assert_eq!(
        (&asked["max_tokens"], &asked["messages"][0]["role"]),
        (&100.into(), &"system".into())
    );
    let told = bench.load.transcripts();
    assert!(
        told.iter()
            .any(|one| one.turns.len() > 1 && one.turns[1].user.starts_with("A sentence"))
    );

    user.behave(Manner {
        fault: Fault::Garbage,
        ..Manner::default()
    });
    seconds(10).await;
    let snapshot = bench.load.snapshot();
    assert!(snapshot.totals.user_model_fallbacks > 5);
    assert_eq!(snapshot.totals.failures, 0);
}

#[tokio::test(start_paused = true)]
async fn in_an_open_loop_a_slow_server_gathers_conversations() {
    let open = Settings {
        arrivals_per_second: Some(2.0),
        turns: 1..=1,
        ..settings(1)
    };
    let slow = Manner {
        ttft: Duration::from_secs(15),
        ..Manner::default()
    };
    let bench = bench(open, slow);
    bench.load.start().await;
    seconds(60).await;
    // Two a second that stay for 15.6 seconds.
    let active = bench.load.snapshot().conversations.active;
    assert!((20..45).contains(&active), "{active}");
}
