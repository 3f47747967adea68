//! One run: visitors come, things go wrong, and in the end everything must be right.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::plan::{Fault, Plan, TROUBLE, Visitor, WORKERS, What};
use crate::system::{Front, Scene, System};

/// Conversations that visitors may have, each of so many turns.
pub const SCRIPTS: usize = 12;
const TURNS: usize = 3;
const MAX_TOKENS: u32 = 60;
/// Longest that the system may take to come to rest after the last fault.
const REST: Duration = Duration::from_secs(240);

/// What an undisturbed worker says, by what it is asked.
pub type Expected = BTreeMap<String, String>;

/// What became of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub complete: u32,
    /// Explicit errors: refused, or broken off with an error event.
    pub errors: u32,
    /// Clients or frontends that went away first.
    pub abandoned: u32,
}

/// What must hold and did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How one request ended.
#[derive(Debug)]
enum End {
    Complete(String),
    Error,
    /// With what had been read by then.
    Abandoned,
}

fn question(script: usize, turn: usize) -> String {
    format!("Script {script}, question {turn}: what do caches, queues and pages have in common? ")
        .repeat(3)
}

fn ask(messages: &[Value]) -> Request<Body> {
    let body = json!({
        "model": "chaos", "messages": messages, "stream": true,
        "max_tokens": MAX_TOKENS, "temperature": 0,
    });
    Request::post("/v1/chat/completions")
        .body(Body::from(body.to_string()))
        .expect("a request")
}

/// Asks every question of every script of a system that nobody disturbs.
pub fn expectations(scene: &Scene) -> Result<Expected, Failure> {
    on_paused_clock(async {
        let plan = Plan {
            faults: vec![],
            visitors: vec![],
            mode: "kv",
            seed: 0,
        };
        let system = System::start(scene, &plan).await;
        settle().await;
        let mut expected = Expected::new();
        for script in 0..SCRIPTS {
            let mut messages = Vec::new();
            for turn in 0..TURNS {
                messages.push(json!({"role": "user", "content": question(script, turn)}));
                let End::Complete(text) = exchange(&system.front(), &messages, None, None).await?
                else {
                    return Err(Failure("an undisturbed request failed".to_owned()));
                };
                expected.insert(key(&messages), text.clone());
                messages.push(json!({"role": "assistant", "content": text}));
            }
        }
        Ok(expected)
    })
}

fn key(messages: &[Value]) -> String {
    Value::from(messages.to_vec()).to_string()
}

/// Runs one seed.
pub fn run(scene: &Scene, expected: &Arc<Expected>, seed: u64) -> Result<Outcome, Failure> {
    let plan = Plan::draw(seed, SCRIPTS);
    on_paused_clock(async {
        let mut system = System::start(scene, &plan).await;
        let (fronts, watching) = watch::channel(system.front());
        let tally = Arc::new(Mutex::new(Ok(Outcome::default())));
        let visitors = TaskTracker::new();
        for visitor in plan.visitors.clone() {
            let guest = Guest {
                visitor,
                fronts: watching.clone(),
                expected: Arc::clone(expected),
                tally: Arc::clone(&tally),
            };
            visitors.spawn(guest.visit());
        }
        disturb(&mut system, &plan, &fronts).await;
        visitors.close();
        if tokio::time::timeout(REST, visitors.wait()).await.is_err() {
            return Err(Failure("a request neither ended nor failed".to_owned()));
        }
        let outcome = tally.lock().clone()?;
        rest(&system).await?;
        Ok(outcome)
    })
}

/// Lets the system come to rest, and says what is wrong if it does not.
async fn rest(system: &System<'_>) -> Result<(), Failure> {
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

/// Lets everybody join.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// Carries the plan out, then sees to it that every worker is there.
async fn disturb(system: &mut System<'_>, plan: &Plan, fronts: &watch::Sender<Arc<Front>>) {
    let began = Instant::now();
    // Whoever went comes back, at its time.
    let mut returns: Vec<(Duration, u64)> = Vec::new();
    let mut faults = plan.faults.iter().copied().peekable();
    loop {
        returns.sort();
        let next_fault = faults.peek().map(|fault| fault.at);
        let next_return = returns.first().map(|(at, _)| *at);
        let Some(next) = [next_fault, next_return].into_iter().flatten().min() else {
            break;
        };
        tokio::time::sleep_until(began + next).await;
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
    tokio::time::sleep_until(began + TROUBLE).await;
    for id in 0..WORKERS {
        if !system.is_running(id) {
            system.start_worker(id).await;
        }
    }
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
        What::Stall { worker, lasts } => on(worker, &|one| one.stalled_until = now + lasts),
        What::Slow { worker, by, lasts } => on(worker, &|one| {
            one.slow_until = now + lasts;
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

/// A visitor at work.
struct Guest {
    visitor: Visitor,
    fronts: watch::Receiver<Arc<Front>>,
    expected: Arc<Expected>,
    tally: Arc<Mutex<Result<Outcome, Failure>>>,
}

impl Guest {
    async fn visit(self) {
        tokio::time::sleep(self.visitor.arrives).await;
        if let Err(failure) = self.converse().await {
            *self.tally.lock() = Err(failure);
        }
    }

    async fn converse(&self) -> Result<(), Failure> {
        let mut messages = Vec::new();
        for turn in 0..TURNS {
            let content = question(self.visitor.script, turn);
            messages.push(json!({"role": "user", "content": content}));
            let expected = &self.expected[&key(&messages)];
            let front = Arc::clone(&self.fronts.borrow());
            let hangs_up = self.visitor.hangs_up_after;
            let end = exchange(&front, &messages, Some(expected), hangs_up).await?;
            let mut tally = self.tally.lock();
            let Ok(outcome) = &mut *tally else {
                return Ok(());
            };
            match end {
                End::Complete(_) => outcome.complete += 1,
                End::Error => outcome.errors += 1,
                End::Abandoned => {
                    outcome.abandoned += 1;
                    if hangs_up.is_some() {
                        return Ok(());
                    }
                }
            }
            messages.push(json!({"role": "assistant", "content": expected}));
        }
        Ok(())
    }
}

/// Sends one request and reads its answer to the end, or as far as it wants to.
async fn exchange(
    front: &Front,
    messages: &[Value],
    expected: Option<&String>,
    hangs_up_after: Option<u32>,
) -> Result<End, Failure> {
    let answering = front.frontend.service().oneshot(ask(messages));
    let Some(response) = front.dead.run_until_cancelled(answering).await else {
        return Ok(End::Abandoned);
    };
    let response = response.map_err(|never| Failure(never.to_string()))?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE => return Ok(End::Error),
        status => return Err(Failure(format!("answered with {status}"))),
    }
    let mut reading = Reading::default();
    let mut body = response.into_body();
    loop {
        let Some(frame) = front.dead.run_until_cancelled(body.frame()).await else {
            reading.check(expected)?;
            return Ok(End::Abandoned);
        };
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| Failure(format!("the body broke: {error}")))?;
        reading.take(frame.data_ref().map_or(&[][..], |bytes| bytes))?;
        if hangs_up_after.is_some_and(|most| reading.pieces > most) {
            reading.check(expected)?;
            return Ok(End::Abandoned);
        }
    }
    reading.check(expected)?;
    match (reading.done, reading.finished, reading.failed) {
        (true, true, false) => match expected {
            Some(expected) if *expected != reading.text => Err(Failure(format!(
                "a complete answer of {} characters should have {}",
                reading.text.len(),
                expected.len()
            ))),
            Some(_) | None => Ok(End::Complete(reading.text)),
        },
        (true, false, true) => Ok(End::Error),
        _ => Err(Failure(format!("a stream ended neither way: {reading:?}"))),
    }
}

/// What a client has read.
#[derive(Debug, Default)]
struct Reading {
    text: String,
    pieces: u32,
    finished: bool,
    failed: bool,
    done: bool,
}

impl Reading {
    fn take(&mut self, frame: &[u8]) -> Result<(), Failure> {
        let frame = String::from_utf8_lossy(frame);
        for event in frame.split_terminator("\n\n") {
            if self.done {
                return Err(Failure("something follows the end".to_owned()));
            }
            let event = event.trim_start_matches("data: ");
            if event == "[DONE]" {
                self.done = true;
                continue;
            }
            let event: Value = serde_json::from_str(event)
                .map_err(|error| Failure(format!("an event is not JSON: {error}")))?;
            self.failed |= event.get("error").is_some();
            let choice = &event["choices"][0];
            self.finished |= choice["finish_reason"].is_string();
            let text = choice["delta"]["content"].as_str().unwrap_or_default();
            self.pieces += u32::from(!text.is_empty());
            self.text.push_str(text);
        }
        Ok(())
    }

    /// What has come must be the beginning of what should come.
    fn check(&self, expected: Option<&String>) -> Result<(), Failure> {
        match expected {
            Some(expected) if !expected.starts_with(&self.text) => {
                let same = expected
                    .bytes()
                    .zip(self.text.bytes())
                    .take_while(|(left, right)| left == right);
                let at = same.count();
                Err(Failure(format!(
                    "the answer differs from character {at} of {} on",
                    self.text.len()
                )))
            }
            Some(_) | None => Ok(()),
        }
    }
}
