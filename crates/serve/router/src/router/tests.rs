//! The guard, the clock, the metrics, and many threads at once.

use std::time::Duration;

use contract::{BlockHash, RequestId};

use super::*;
use crate::decision::Outcome;
use crate::query::Identity;
use crate::state::tests::{card, chain, stored};

mod late_binding;
mod model;

fn router(mode: &str, workers: u64) -> (Router, Registry) {
    let registry = Registry::new();
    let config = RouterConfig {
        mode: mode.parse().unwrap(),
        ..RouterConfig::new(32)
    };
    let router = Router::new(config, &registry, Clock::start());
    for worker in 0..workers {
        router.join(card(worker)).unwrap();
    }
    (router, registry)
}

fn query(chain: &[BlockHash]) -> RouteQuery<'_> {
    RouteQuery {
        request: RequestId::new("r"),
        prompt_tokens: chain.len() as u32 * 32,
        chain,
        excluded: &[],
        identity: Identity::default(),
        priority: 0,
        deadline: None,
    }
}

/// Routes a request that does not have to wait.
fn route(router: &Router, chain: &[BlockHash]) -> Result<Placement, RouteError> {
    match router.try_route(&query(chain))? {
        Routed::Placed(placement) => Ok(placement),
        Routed::Waiting(turn) => panic!("{turn:?}"),
    }
}

/// The value of the metric line that begins with `series`.
#[track_caller]
fn metric(registry: &Registry, series: &str) -> f64 {
    let text = registry.render(Duration::ZERO);
    let line = text.lines().find(|line| line.starts_with(series));
    let value = line
        .unwrap_or_else(|| panic!("{series} in {text}"))
        .rsplit(' ')
        .next();
    value.unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_placement_gives_its_place_back_when_dropped() {
    let (router, _) = router("kv-blocks", 2);
    let mut placement = route(&router, &chain(0, 10)).unwrap();
    assert_eq!((router.in_flight(), placement.decision_number()), (1, 1));
    tokio::time::advance(Duration::from_millis(200)).await;
    placement.first_token(0, router.clock().now());
    tokio::time::advance(Duration::from_millis(800)).await;
    drop(placement);
    assert_eq!(router.in_flight(), 0);
    assert!(
        router
            .workers()
            .iter()
            .all(|view| view.in_flight == 0 && view.active_blocks == 0)
    );
    assert_eq!(
        router.decisions(1)[0].outcome,
        Outcome::Ended {
            first_token_after: 0.2,
            ended_after: 1.0
        }
    );
}

#[test]
fn what_happens_is_counted() {
    let (router, registry) = router("kv-blocks", 2);
    let prompt = chain(0, 10);
    assert_eq!(router.observe(&stored(1, 0, &prompt)), Observed::Applied);
    let mut placement = route(&router, &prompt).unwrap();
    assert_eq!(placement.worker(), WorkerId(1));
    assert_eq!(placement.predicted_cached_tokens(), 288);
    placement.first_token(256, router.clock().now());
    placement.first_token(999, router.clock().now());
    for (series, expected) in [
        (
            "homing_router_decisions_total{mode=\"kv-blocks\",worker_id=\"1\"}",
            1.0,
        ),
        (
            "homing_router_decision_seconds_count{mode=\"kv-blocks\"}",
            1.0,
        ),
        (
            "homing_router_predicted_cached_tokens_total{worker_id=\"1\"}",
            288.0,
        ),
        (
            "homing_router_actual_cached_tokens_total{worker_id=\"1\"}",
            256.0,
        ),
        (
            "homing_router_decision_reasons_total{mode=\"kv-blocks\",reason=\"lowest_cost\"}",
            1.0,
        ),
        (
            "homing_router_predicted_ttft_seconds_count{worker_id=\"1\"}",
            1.0,
        ),
        (
            "homing_router_actual_ttft_seconds_count{worker_id=\"1\"}",
            1.0,
        ),
        ("homing_router_index_blocks", 10.0),
        ("homing_router_index_speculative_blocks", 10.0),
        ("homing_router_inflight_spread", 1.0),
        (
            "dynamo_component_kv_cache_events_applied{status=\"ok\",event_type=\"stored\",worker_id=\"1\"}",
            1.0,
        ),
    ] {
        assert_eq!(metric(&registry, series), expected, "{series}");
    }
    drop(placement);
    assert_eq!(metric(&registry, "homing_router_inflight_spread"), 0.0);
    assert_eq!(
        metric(&registry, "homing_router_index_speculative_blocks"),
        0.0
    );
}

#[test]
fn a_gap_a_snapshot_a_refusal_and_a_change_of_mode_are_counted() {
    let (router, registry) = router("kv-blocks", 1);
    let prompt = chain(0, 3);
    assert_eq!(
        router.observe(&stored(0, 5, &prompt)),
        Observed::NeedsSnapshot
    );
    let snapshot = KvSnapshot {
        epoch: 1,
        next_sequence: 5,
        blocks: Vec::new(),
    };
    assert_eq!(router.restore(WorkerId(0), &snapshot), Observed::Applied);
    router.set_mode("random".parse().unwrap());
    assert_eq!(router.mode(), Mode::Random);
    drop(route(&router, &prompt).unwrap());
    for (series, expected) in [
        ("homing_router_feed_gaps_total{worker_id=\"0\"}", 1.0),
        ("homing_router_feed_snapshots_total{worker_id=\"0\"}", 1.0),
        ("homing_router_index_blocks", 3.0),
        (
            "homing_router_decisions_total{mode=\"random\",worker_id=\"0\"}",
            1.0,
        ),
        ("homing_router_decision_seconds_count{mode=\"random\"}", 1.0),
    ] {
        assert_eq!(metric(&registry, series), expected, "{series}");
    }
    assert!(router.leave(WorkerId(0)));
    assert!(
        !registry.render(Duration::ZERO).contains("worker_id"),
        "its rows go with it"
    );
    assert_eq!(route(&router, &prompt).unwrap_err(), RouteError::NoWorker);
    assert_eq!(
        metric(
            &registry,
            "homing_router_rejections_total{reason=\"no_worker\"}"
        ),
        1.0
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_predicted_what_came_and_what_was_learned_stand_side_by_side() {
    let (router, registry) = router("kv", 2);
    let series =
        |name: &str, worker: u64| format!("homing_router_{name}{{worker_id=\"{worker}\"}}");
    let prior = metric(&registry, &series("learned_step_seconds", 0));
    let mut placement = route(&router, &chain(0, 10)).unwrap();
    let worker = placement.worker().0;
    let predicted = router.decisions(1)[0].predicted_ttft_ms / 1e3;
    tokio::time::advance(Duration::from_millis(700)).await;
    placement.first_token(0, router.clock().now());
    let read = |name: &str| metric(&registry, &series(name, worker));
    assert_eq!(read("actual_ttft_seconds_sum"), 0.7);
    assert!((read("predicted_ttft_seconds_sum") - predicted).abs() < 1e-6);
    for _ in 0..20 {
        tokio::time::advance(Duration::from_millis(1600)).await;
        placement.progress(16, router.clock().now());
        router.report(WorkerId(worker), WorkerStatus::default());
    }
    // A hundred milliseconds for each token, where thirty were believed.
    let learned = read("learned_step_seconds");
    assert!(prior < 0.04 && learned > 0.06, "{prior} {learned}");
    let view = &router.workers()[worker as usize].learned;
    assert!((learned - view.step_ms / 1e3).abs() < 1e-9);
    let prefill = read("learned_prefill_seconds_per_token");
    assert!((prefill * view.prefill_tokens_per_second - 1.0).abs() < 1e-6);
    drop(placement);
}

#[tokio::test(start_paused = true)]
async fn the_lag_of_the_index_is_counted_from_the_workers_publishing() {
    let (router, registry) = router("kv", 1);
    let published = router.clock().now();
    tokio::time::advance(Duration::from_millis(250)).await;
    let prompt = chain(0, 3);
    assert_eq!(router.observe(&stored(0, 0, &prompt)), Observed::Applied);
    router.caught_up(WorkerId(0), published);
    router.caught_up(WorkerId(9), published);
    let lag = "homing_router_index_lag_seconds_sum{worker_id=\"0\"}";
    assert_eq!(metric(&registry, lag), 0.25);
}

#[test]
fn reports_and_drains_show_in_the_workers_view() {
    let (router, _) = router("round-robin", 2);
    router.report(
        WorkerId(1),
        WorkerStatus {
            running: 7,
            ..WorkerStatus::default()
        },
    );
    assert!(router.drain(WorkerId(0)));
    let views = router.workers();
    assert_eq!((views[1].status.running, views[0].draining), (7, true));
    assert_eq!(router.total_queued(), 0);
}

#[test]
fn many_threads_leave_nothing_behind() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 400;
    let (router, registry) = router("kv-blocks", 3);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let router = router.clone();
            scope.spawn(move || {
                let mut open = Vec::new();
                for round in 0..ROUNDS {
                    let prompt = chain(round % 7, 4 + (thread % 3) as usize);
                    let mut placement = route(&router, &prompt).unwrap();
                    if round % 3 == 0 {
                        placement.first_token(0, router.clock().now());
                    }
                    open.push(placement);
                    if open.len() > 10 {
                        drop(open.swap_remove((round % 10) as usize));
                    }
                    // One worker comes and goes all the time.
                    match (thread, round % 10) {
                        (0, 0) => drop(router.leave(WorkerId(2))),
                        (0, 5) => router.join(card(2)).unwrap(),
                        _ => {}
                    }
                }
            });
        }
    });
    assert_eq!((router.in_flight(), router.total_queued()), (0, 0));
    for view in router.workers() {
        let books = (
            view.in_flight,
            view.pending_prefill_tokens,
            view.active_blocks,
        );
        assert_eq!(books, (0, 0, 0), "{view:?}");
    }
    assert_eq!(
        metric(&registry, "homing_router_index_speculative_blocks"),
        0.0
    );
    assert_eq!(router.decisions(1)[0].number, THREADS * ROUNDS);
}
