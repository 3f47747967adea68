//! Every order in which a few requests can meet on a worker with one slot.
//!
//! Threads find the order that the machine happens to produce; here a model checker
//! (shuttle) runs the shipped router in all of them, or, where there are too many, in a
//! seeded sample. It may interrupt at both ends of every critical section (see
//! [`crate::sync`]), also between a place being bound and its owner being told, and it reports
//! a request that sleeps when nobody is left to wake it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

use shuttle::scheduler::{DfsScheduler, RandomScheduler, Scheduler};
use shuttle::thread;

use super::*;
use crate::sync::tested::as_model;

/// Orders tried where there are too many for all of them.
const SAMPLE: usize = 20_000;

/// Workers with one slot each, and what the requests see of them.
#[derive(Clone)]
struct Scene {
    router: Router,
    placed: Arc<AtomicU32>,
    refused: Arc<AtomicU32>,
}

fn one_slot(worker: u64) -> WorkerCard {
    WorkerCard {
        slots: 1,
        ..card(worker)
    }
}

impl Scene {
    fn new(workers: u64) -> Self {
        let (router, _) = router("kv", 0);
        for worker in 0..workers {
            router.join(one_slot(worker)).unwrap();
        }
        Self {
            router,
            placed: Arc::default(),
            refused: Arc::default(),
        }
    }

    /// One request at most on each worker, as the router's own books say, and slots free
    /// only if nobody waits for them.
    fn check_slots(&self) {
        let guarded = self.router.shared.guarded.look();
        let views = guarded.state.workers(Moment::ZERO);
        for view in &views {
            assert!(view.in_flight <= 1, "{view:?}");
        }
        if views.iter().any(|view| view.in_flight == 0) {
            assert_eq!(guarded.state.waiting(), 0, "a slot is free: {views:?}");
        }
    }

    /// Asks, waits as long as it takes, answers and goes.
    fn request(&self, prompt: u64) {
        let prompt = chain(prompt, 2);
        match shuttle::future::block_on(self.router.route(&query(&prompt))) {
            Ok(mut placement) => {
                self.check_slots();
                placement.first_token(0, self.router.clock().now());
                self.placed.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                assert_eq!(error, RouteError::NoWorker);
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.check_slots();
    }

    /// Asks, looks once, and goes, placed or not.
    fn impatient(&self, prompt: u64) {
        let prompt = chain(prompt, 2);
        let query = query(&prompt);
        {
            let mut routing = pin!(self.router.route(&query));
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(Ok(_)) = routing.as_mut().poll(&mut context) {
                self.check_slots();
            }
        }
        self.check_slots();
    }

    /// After everyone has gone.
    fn check_empty(&self) {
        let guarded = self.router.shared.guarded.look();
        let state = &guarded.state;
        assert_eq!((state.in_flight(), state.waiting()), (0, 0));
        assert!(guarded.waiters.is_empty());
        for view in state.workers(Moment::ZERO) {
            let books = (
                view.in_flight,
                view.pending_prefill_tokens,
                view.active_blocks,
            );
            assert_eq!(books, (0, 0, 0), "{view:?}");
        }
        assert_eq!(state.known_blocks().1, 0, "no expected block is left");
    }

    fn counts(&self) -> (u32, u32) {
        let count = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
        (count(&self.placed), count(&self.refused))
    }
}

type Part = fn(&Scene);

/// Runs the parts at once and then `after`, in every order that the scheduler thinks of, and
/// says in how many.
fn run(scheduler: impl Scheduler + 'static, workers: u64, parts: &[Part], after: Part) -> usize {
    // On a clock that stands still, so that an order can be run again.
    let stopped = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let _entered = stopped.enter();
    let parts = parts.to_vec();
    let mut orders = 0;
    as_model(|| {
        let runner = shuttle::Runner::new(scheduler, shuttle::Config::new());
        orders = runner.run(move || {
            let scene = Scene::new(workers);
            let threads: Vec<_> = parts
                .iter()
                .map(|&part| {
                    let scene = scene.clone();
                    thread::spawn(move || part(&scene))
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            scene.check_empty();
            after(&scene);
        });
    });
    orders
}

/// In all orders.
fn check_all(workers: u64, parts: &[Part], after: Part) {
    let orders = run(DfsScheduler::new(None, false), workers, parts, after);
    println!("{orders} orders");
}

/// In a sample of them.
fn check_some(workers: u64, parts: &[Part], after: Part) {
    let scheduler = RandomScheduler::new_from_seed(1, SAMPLE);
    run(scheduler, workers, parts, after);
}

#[test]
fn two_requests_share_a_slot_one_after_the_other() {
    let parts: [Part; 2] = [|scene| scene.request(0), |scene| scene.request(1)];
    check_all(1, &parts, |scene| assert_eq!(scene.counts(), (2, 0)));
}

#[test]
fn a_request_that_gives_up_never_keeps_the_slot() {
    let parts: [Part; 2] = [
        |scene| scene.request(0),
        |scene| {
            scene.impatient(0);
            // The other has a place by now, or has not asked yet.
            assert_eq!(scene.router.shared.guarded.look().state.waiting(), 0);
        },
    ];
    check_all(1, &parts, |scene| assert_eq!(scene.counts(), (1, 0)));
}

#[test]
fn a_worker_that_leaves_takes_nobody_with_it() {
    let parts: [Part; 2] = [
        |scene| scene.request(0),
        |scene| assert!(scene.router.leave(WorkerId(0))),
    ];
    check_all(1, &parts, |scene| {
        let (placed, refused) = scene.counts();
        assert_eq!(placed + refused, 1);
    });
}

#[test]
fn whoever_waits_gets_the_slot_of_one_that_gives_up() {
    let parts: [Part; 3] = [
        |scene| scene.request(0),
        |scene| scene.impatient(0),
        |scene| scene.request(1),
    ];
    check_some(1, &parts, |scene| assert_eq!(scene.counts(), (2, 0)));
}

#[test]
fn two_that_give_up_leave_the_slot_to_the_third() {
    let parts: [Part; 3] = [
        |scene| scene.impatient(0),
        |scene| scene.impatient(1),
        |scene| scene.request(0),
    ];
    check_some(1, &parts, |scene| assert_eq!(scene.counts(), (1, 0)));
}

#[test]
fn a_worker_that_leaves_while_others_wait_strands_nobody() {
    let parts: [Part; 3] = [
        |scene| scene.request(0),
        |scene| scene.request(1),
        |scene| assert!(scene.router.leave(WorkerId(0))),
    ];
    check_some(1, &parts, |scene| {
        let (placed, refused) = scene.counts();
        assert_eq!(placed + refused, 2);
    });
}

#[test]
fn three_requests_on_two_workers_of_which_one_goes_and_returns() {
    let parts: [Part; 4] = [
        |scene| scene.request(0),
        |scene| scene.request(0),
        |scene| scene.impatient(1),
        |scene| {
            assert!(scene.router.leave(WorkerId(1)));
            scene.router.join(one_slot(1)).unwrap();
        },
    ];
    check_some(2, &parts, |scene| assert_eq!(scene.counts(), (2, 0)));
}
