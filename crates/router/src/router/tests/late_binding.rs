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
