//! Waiting futures: woken, dropped, and dropped at the worst moment.

use std::task::{Context, Poll, Waker};

use super::*;
use crate::mode::Mode;

/// One worker with that many slots.
fn narrow(slots: u32) -> (Router, Registry) {
    let (router, registry) = router("kv", 0);
    let card = WorkerCard { slots, ..card(0) };
    router.join(card).unwrap();
    (router, registry)
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_until_a_slot_frees() {
    let (router, registry) = narrow(1);
    let prompt = chain(0, 10);
    let first = route(&router, &prompt).unwrap();
    let query = query(&prompt);
    let second = router.route(&query);
    let free = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert_eq!((router.in_flight(), router.total_queued()), (1, 1));
        drop(first);
    };
    let (second, ()) = tokio::join!(second, free);
    let second = second.unwrap();
    assert_eq!((router.in_flight(), router.total_queued()), (1, 0));
    assert_eq!(router.decisions(1)[0].queued_ms, 700.0);
    drop(second);
    assert_eq!(router.in_flight(), 0);
    let series = "homing_router_queue_wait_seconds_sum";
    assert_eq!(metric(&registry, series), 0.7);
}

#[tokio::test(start_paused = true)]
async fn whoever_has_waited_long_enough_is_told() {
    let (router, registry) = narrow(1);
    let prompt = chain(0, 10);
    let _first = route(&router, &prompt).unwrap();
    let began = router.clock().now();
    // Longer than a slot is expected to be taken, which nobody can know better.
    let patience = Duration::from_secs(40);
    let query = RouteQuery {
        deadline: Some(began + patience),
        ..query(&prompt)
    };
    let told = router.route(&query).await.unwrap_err();
    assert!(matches!(told, RouteError::QueueTimeout { .. }), "{told}");
    assert_eq!(router.clock().now() - began, patience);
    assert_eq!((router.in_flight(), router.total_queued()), (1, 0));
    assert!(router.shared.guarded.lock().waiters.is_empty());
    let series = "homing_router_rejections_total{reason=\"queue_timeout\"}";
    assert_eq!(metric(&registry, series), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_frees_at_the_last_moment_is_taken() {
    let (router, _) = narrow(1);
    let prompt = chain(0, 10);
    let first = route(&router, &prompt).unwrap();
    let patience = Duration::from_secs(40);
    let query = RouteQuery {
        deadline: Some(router.clock().now() + patience),
        ..query(&prompt)
    };
    // Bound when the timer has rung and before the task looks.
    let mut waiting = Box::pin(router.route(&query));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    tokio::time::advance(patience).await;
    drop(first);
    let placement = waiting.await.unwrap();
    assert_eq!((router.in_flight(), router.total_queued()), (1, 0));
    drop(placement);
    assert_eq!(router.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_makes_place_for_another_is_told() {
    let registry = Registry::new();
    let config = RouterConfig {
        queue_limit: 1,
        ..RouterConfig::new(32)
    };
    let router = Router::new(config, &registry, Clock::start());
    router
        .join(WorkerCard {
            slots: 1,
            ..card(0)
        })
        .unwrap();
    let prompt = chain(0, 10);
    let first = route(&router, &prompt).unwrap();
    let of = |tenant| RouteQuery {
        identity: Identity {
            tenant,
            share: 1,
            session: 0,
        },
        ..query(&prompt)
    };
    // With one place each holds as much as the other: nobody has to go.
    let (one, two) = (of(1), of(2));
    let mut waiting = Box::pin(router.route(&one));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    assert!(router.route(&two).await.is_err());
    // With two places for one, the other gets the second.
    router
        .join(WorkerCard {
            slots: 1,
            ..card(1)
        })
        .unwrap();
    let _placement = waiting.await.unwrap();
    let mut older = Box::pin(router.route(&one));
    let mut newer = Box::pin(router.route(&one));
    assert!(older.as_mut().poll(&mut context).is_pending());
    assert!(newer.as_mut().poll(&mut context).is_pending());
    let mut other = Box::pin(router.route(&two));
    assert!(other.as_mut().poll(&mut context).is_pending());
    let told = newer.await.unwrap_err();
    assert!(matches!(told, RouteError::Saturated { .. }), "{told}");
    assert_eq!(router.total_queued(), 2);
    drop((older, other, first));
    assert_eq!(router.total_queued(), 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_is_left_without_a_worker_is_told() {
    let (router, _) = narrow(1);
    let prompt = chain(0, 10);
    let _first = route(&router, &prompt).unwrap();
    let query = query(&prompt);
    let leave = async { router.leave(WorkerId(0)) };
    let (second, _) = tokio::join!(router.route(&query), leave);
    assert_eq!(second.unwrap_err(), RouteError::NoWorker);
}

#[test]
fn a_waiting_future_that_is_dropped_leaves_the_queue() {
    let (router, _) = narrow(1);
    let prompt = chain(0, 10);
    let first = route(&router, &prompt).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    for bound_before_the_drop in [false, true] {
        let query = query(&prompt);
        let mut waiting = Box::pin(router.route(&query));
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert_eq!(router.total_queued(), 1);
        if bound_before_the_drop {
            // The claim is in the channel when the future goes.
            router
                .join(WorkerCard {
                    slots: 1,
                    ..card(1)
                })
                .unwrap();
            assert_eq!((router.in_flight(), router.total_queued()), (2, 0));
        }
        drop(waiting);
        assert_eq!((router.in_flight(), router.total_queued()), (1, 0));
    }
    drop(first);
    assert_eq!(router.in_flight(), 0);
}

#[test]
fn a_mode_that_does_not_wait_places_those_who_do() {
    let (router, _) = narrow(1);
    let prompt = chain(0, 10);
    let _first = route(&router, &prompt).unwrap();
    let query = query(&prompt);
    let mut waiting = Box::pin(router.route(&query));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    router.set_mode(Mode::RoundRobin);
    assert!(matches!(
        waiting.as_mut().poll(&mut context),
        Poll::Ready(Ok(_))
    ));
}

/// Threads that route on three workers with two slots each, drop their futures early or late,
/// and switch modes and workers in between.
#[test]
fn threads_that_wait_and_give_up_leave_nothing_behind() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 500;
    let (router, _) = router("kv", 0);
    for worker in 0..3 {
        let card = WorkerCard {
            slots: 2,
            ..card(worker)
        };
        router.join(card).unwrap();
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let router = router.clone();
            scope.spawn(move || live(&router, thread, ROUNDS));
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
}

fn live(router: &Router, thread: u64, rounds: u64) {
    let mut context = Context::from_waker(Waker::noop());
    let mut random = contract::random::Random::new(thread);
    let mut open = Vec::new();
    for round in 0..rounds {
        let prompt = chain(round % 7, 4 + (thread % 3) as usize);
        let query = query(&prompt);
        let mut routing = Box::pin(router.route(&query));
        // A few looks, and then it gives up: some are bound in that very moment.
        for _ in 0..1 + random.below(4) {
            match routing.as_mut().poll(&mut context) {
                Poll::Ready(Ok(mut placement)) => {
                    placement.first_token(0, router.clock().now());
                    placement.progress(20, router.clock().now());
                    open.push(placement);
                    break;
                }
                Poll::Ready(Err(_)) => break,
                Poll::Pending => std::thread::yield_now(),
            }
        }
        drop(routing);
        if open.len() > random.below(3) {
            drop(open.swap_remove(0));
        }
        match (thread, round % 20) {
            (0, 0) => drop(router.leave(WorkerId(2))),
            (0, 10) => {
                let card = WorkerCard {
                    slots: 2,
                    ..card(2)
                };
                router.join(card).unwrap();
            }
            (1, 7) => router.set_mode(Mode::LeastLoaded),
            (1, 9) => router.set_mode(Mode::Kv),
            _ => {}
        }
    }
}
