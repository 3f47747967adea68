//! One run: clients send requests, faults happen, and in the end every invariant must hold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::guest::{Guest, TURNS, batch, chat, converse, key, prompt, question};
use crate::outcome::{Expected, Failure, Outcome};
use crate::plan::{Fault, MOST_PROMPTS, Manner, Plan, TROUBLE, WORKERS, What};
use crate::system::{Front, Scene, System};

/// Conversations that visitors may have.
pub const SCRIPTS: usize = 12;
/// How often the router's books are held against the engines.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// They may differ for so many looks: a step, in which a cancelled sequence is not yet dropped.
const MOST_DIFFERENCES: u32 = 20;
/// Longest that the system may take to come to rest after the last fault.
const REST: Duration = Duration::from_secs(240);

/// Asks every question of every script of a system that nobody disturbs.
pub fn expectations(scene: &Scene) -> Result<Expected, Failure> {
    on_paused_clock(async {
        let plan = Plan {
            faults: vec![],
            visitors: vec![],
            mode: "kv",
            queue_limit: 256,
            seed: 0,
        };
        let system = System::start(scene, &plan).await;
        settle().await;
        let mut expected = Expected::new();
        for script in 0..SCRIPTS {
            let mut messages = Vec::new();
            for turn in 0..TURNS {
                messages.push(json!({"role": "user", "content": question(script, turn)}));
                let end = converse(&system.front(), chat(&messages), Manner::Reads).await?;
                let text = end.undisturbed()?;
                expected.insert(key(&messages), text.clone());
                messages.push(json!({"role": "assistant", "content": text}));
            }
        }
        for number in 0..MOST_PROMPTS {
            let request = batch(std::iter::once(number), true);
            let end = converse(&system.front(), request, Manner::Reads).await?;
            expected.insert(prompt(number), end.undisturbed()?);
        }
        Ok(expected)
    })
}

/// Runs one seed.
pub fn run(scene: &Scene, expected: &Arc<Expected>, seed: u64) -> Result<Outcome, Failure> {
    let plan = Plan::draw(seed, SCRIPTS);
    on_paused_clock(async {
        let mut system = System::start(scene, &plan).await;
        let (fronts, watching) = watch::channel(system.front());
        let tally = Arc::new(Mutex::new(Ok(Outcome::default())));
        let (visitors, unread) = (TaskTracker::new(), TaskTracker::new());
        for visitor in plan.visitors.clone() {
            let guest = Guest {
                visitor,
                fronts: watching.clone(),
                expected: Arc::clone(expected),
                tally: Arc::clone(&tally),
                unread: unread.clone(),
            };
            visitors.spawn(guest.visit());
        }
        let mut books = Books::default();
        disturb(&mut system, &plan, &fronts, &mut books).await?;
        visitors.close();
        let ended = async {
            while !visitors.is_empty() {
                tokio::time::sleep(LOOK_EVERY).await;
                books.look(&system)?;
            }
            Ok(())
        };
        let Ok(ended) = tokio::time::timeout(REST, ended).await else {
            return Err(Failure("a request neither ended nor failed".to_owned()));
        };
        ended?;
        let outcome = tally.lock().clone()?;
        // Those who never read still hold what they do not read.
        wait_until_idle(&system).await?;
        Ok(outcome)
    })
}

/// The router's books beside the engines', look by look.
#[derive(Default)]
struct Books {
    /// Looks in a row at which they differed, by worker.
    differences: BTreeMap<u64, u32>,
}

impl Books {
    fn look(&mut self, system: &System<'_>) -> Result<(), Failure> {
        let mut differences = BTreeMap::new();
        for (worker, (slots, sequences)) in system.books() {
            if slots == sequences {
                continue;
            }
            let looks = self.differences.get(&worker).unwrap_or(&0) + 1;
            if looks > MOST_DIFFERENCES {
                return Err(Failure(format!(
                    "the router holds {slots} slots of worker {worker} for taken, whose engine has \
                     {sequences} sequences"
                )));
            }
            differences.insert(worker, looks);
        }
        self.differences = differences;
        Ok(())
    }
}

/// Lets the system come to rest, and says what is wrong if it does not.
async fn wait_until_idle(system: &System<'_>) -> Result<(), Failure> {
    let began = Instant::now();
    loop {
        let Some(unrest) = system.unrest().await else {
            return Ok(());
        };
        if began.elapsed() > REST {
            return Err(Failure(unrest));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn on_paused_clock<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(work)
}

/// Gives all workers time to join.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// Carries the plan out, then sees to it that every worker is there.
async fn disturb(
    system: &mut System<'_>,
    plan: &Plan,
    fronts: &watch::Sender<Arc<Front>>,
    books: &mut Books,
) -> Result<(), Failure> {
    let began = Instant::now();
    // Workers that left, and when each comes back.
    let mut returns: Vec<(Duration, u64)> = Vec::new();
    let mut faults = plan.faults.iter().copied().peekable();
    loop {
        returns.sort();
        let next_fault = faults.peek().map(|fault| fault.at);
        let next_return = returns.first().map(|(at, _)| *at);
        let Some(next) = [next_fault, next_return].into_iter().flatten().min() else {
            break;
        };
        watch_until(began + next, system, books).await?;
        if next_return == Some(next) {
            let (_, id) = returns.remove(0);
            if system.is_running(id) {
                system.connect(id).await;
            } else {
                system.start_worker(id).await;
            }
        } else if let Some(fault) = faults.next() {
            returns.extend(apply(system, fault, fronts).await);
        }
    }
    watch_until(began + TROUBLE, system, books).await?;
    for id in 0..WORKERS {
        if !system.is_running(id) {
            system.start_worker(id).await;
        }
    }
    Ok(())
}

/// Waits, and looks at the books meanwhile.
async fn watch_until(then: Instant, system: &System<'_>, books: &mut Books) -> Result<(), Failure> {
    while Instant::now() + LOOK_EVERY < then {
        tokio::time::sleep(LOOK_EVERY).await;
        books.look(system)?;
    }
    tokio::time::sleep_until(then).await;
    Ok(())
}

/// Does one thing. Returns who comes back when.
async fn apply(
    system: &mut System<'_>,
    fault: Fault,
    fronts: &watch::Sender<Arc<Front>>,
) -> Option<(Duration, u64)> {
    let now = Instant::now();
    let on = |worker: u64, change: &dyn Fn(&mut crate::wires::Condition)| {
        if let Some(condition) = system.condition(worker) {
            change(&mut condition.lock());
        }
    };
    match fault.what {
        // What is held up already is not let go earlier by another stall.
        What::Stall { worker, lasts } => on(worker, &|one| {
            one.stalled_until = one.stalled_until.max(now + lasts);
        }),
        What::Slow { worker, by, lasts } => on(worker, &|one| {
            one.slow_until = one.slow_until.max(now + lasts);
            one.slow_by = by;
        }),
        What::BadEvents {
            worker,
            lost,
            repeated,
            swapped,
            lasts,
        } => on(worker, &|one| {
            one.bad_until = now + lasts;
            one.bad = [lost, repeated, swapped];
        }),
        What::Partition { worker, lasts } => on(worker, &|one| one.partitioned_until = now + lasts),
        What::CacheReset => system.reset_caches().await,
        What::Crash { worker, back_after } => {
            system.crash(worker);
            return Some((fault.at + back_after, worker));
        }
        What::Disconnect { worker, back_after } => {
            system.disconnect(worker);
            return Some((fault.at + back_after, worker));
        }
        What::FrontendRestart => {
            system.restart_frontend().await;
            fronts.send_replace(system.front());
        }
    }
    None
}
