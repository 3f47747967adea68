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

use crate::plan::{Fault, MOST_PROMPTS, Manner, Plan, TROUBLE, Visitor, WORKERS, What};
use crate::system::{Front, Scene, System};

/// Conversations that visitors may have, each of so many turns.
pub const SCRIPTS: usize = 12;
const TURNS: usize = 3;
const MAX_TOKENS: u32 = 60;
/// How often the router's books are held against the engines.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// They may differ for so many looks: a step, in which a cancelled sequence is not yet dropped.
const MOST_DIFFERENCES: u32 = 20;
/// Further behind than any client may be.
const FAR_BEHIND: Duration = Duration::from_secs(45);
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

/// How one request ended, and what each of its answers said by then.
#[derive(Debug)]
struct End {
    how: How,
    texts: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum How {
    Complete,
    Error,
    Abandoned,
}

impl End {
    fn undisturbed(self) -> Result<Vec<String>, Failure> {
        match self.how {
            How::Complete => Ok(self.texts),
            How::Error | How::Abandoned => Err(Failure("an undisturbed request failed".to_owned())),
        }
    }

    /// What has come must be the beginning of what should come, and all of it where the
    /// answer is complete.
    fn check(&self, expected: &[&String]) -> Result<(), Failure> {
        if self.how == How::Complete && self.texts.len() != expected.len() {
            let (found, due) = (self.texts.len(), expected.len());
            return Err(Failure(format!("{found} of {due} answers came")));
        }
        for (text, expected) in self.texts.iter().zip(expected) {
            let same = expected
                .bytes()
                .zip(text.bytes())
                .take_while(|(left, right)| left == right);
            let same = same.count();
            if same < text.len() {
                return Err(Failure(format!(
                    "the answer differs from character {same} of {} on",
                    text.len()
                )));
            }
            if self.how == How::Complete && text.len() < expected.len() {
                return Err(Failure(format!(
                    "a complete answer of {} characters should have {}",
                    text.len(),
                    expected.len()
                )));
            }
        }
        Ok(())
    }
}

fn question(script: usize, turn: usize) -> String {
    format!("Script {script}, question {turn}: what do caches, queues and pages have in common? ")
        .repeat(3)
}

fn prompt(number: usize) -> String {
    format!("Prompt {number} of a batch: what do caches, queues and pages have in common?")
}

fn chat(messages: &[Value]) -> Request<Body> {
    post(
        "/v1/chat/completions",
        json!({ "messages": messages, "stream": true }),
    )
}

fn batch(prompts: impl Iterator<Item = usize>, stream: bool) -> Request<Body> {
    let prompts: Vec<String> = prompts.map(prompt).collect();
    post(
        "/v1/completions",
        json!({ "prompt": prompts, "stream": stream }),
    )
}

fn post(path: &str, mut body: Value) -> Request<Body> {
    body["model"] = json!("chaos");
    body["max_tokens"] = json!(MAX_TOKENS);
    body["temperature"] = json!(0);
    Request::post(path)
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
                let text = end.undisturbed()?.remove(0);
                expected.insert(key(&messages), text.clone());
                messages.push(json!({"role": "assistant", "content": text}));
            }
        }
        for number in 0..MOST_PROMPTS {
            let request = batch(std::iter::once(number), true);
            let end = converse(&system.front(), request, Manner::Reads).await?;
            expected.insert(prompt(number), end.undisturbed()?.remove(0));
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
        rest(&system).await?;
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
async fn disturb(
    system: &mut System<'_>,
    plan: &Plan,
    fronts: &watch::Sender<Arc<Front>>,
    books: &mut Books,
) -> Result<(), Failure> {
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
#[derive(Clone)]
struct Guest {
    visitor: Visitor,
    fronts: watch::Receiver<Arc<Front>>,
    expected: Arc<Expected>,
    tally: Arc<Mutex<Result<Outcome, Failure>>>,
    /// Whoever holds an answer without reading it.
    unread: TaskTracker,
}

impl Guest {
    async fn visit(self) {
        tokio::time::sleep(self.visitor.arrives).await;
        let visited = match self.visitor.manner {
            Manner::Greedy { conversations } => {
                let each = (0..conversations).map(|_| self.converse());
                futures_util::future::try_join_all(each).await.map(|_| ())
            }
            Manner::Batch { prompts, stream } => self.ask_batch(prompts, stream).await,
            Manner::NeverReads => self.ignore().await,
            Manner::Reads | Manner::HangsUp { .. } | Manner::Drips => self.converse().await,
        };
        if let Err(failure) = visited {
            *self.tally.lock() = Err(failure);
        }
    }

    fn front(&self) -> Arc<Front> {
        Arc::clone(&self.fronts.borrow())
    }

    fn count(&self, how: &How) {
        if let Ok(outcome) = &mut *self.tally.lock() {
            match how {
                How::Complete => outcome.complete += 1,
                How::Error => outcome.errors += 1,
                How::Abandoned => outcome.abandoned += 1,
            }
        }
    }

    async fn converse(&self) -> Result<(), Failure> {
        let mut messages = Vec::new();
        for turn in 0..TURNS {
            let content = question(self.visitor.script, turn);
            messages.push(json!({"role": "user", "content": content}));
            let expected = &self.expected[&key(&messages)];
            let end = converse(&self.front(), chat(&messages), self.visitor.manner).await?;
            end.check(&[expected])?;
            self.count(&end.how);
            let leaves = matches!(self.visitor.manner, Manner::HangsUp { .. });
            if end.how == How::Abandoned && leaves {
                return Ok(());
            }
            messages.push(json!({"role": "assistant", "content": expected}));
        }
        Ok(())
    }

    async fn ask_batch(&self, prompts: usize, stream: bool) -> Result<(), Failure> {
        let request = batch(0..prompts, stream);
        let end = converse(&self.front(), request, self.visitor.manner).await?;
        let expected: Vec<&String> = (0..prompts)
            .map(|number| &self.expected[&prompt(number)])
            .collect();
        end.check(&expected)?;
        self.count(&end.how);
        Ok(())
    }

    /// Has the answer begin, and keeps it unread for as long as its frontend lives.
    async fn ignore(&self) -> Result<(), Failure> {
        let front = self.front();
        let content = question(self.visitor.script, 0);
        let request = chat(&[json!({"role": "user", "content": content})]);
        if let Ok(unread) = open(&front, request).await? {
            self.unread.spawn(async move {
                front.dead.cancelled().await;
                drop(unread);
            });
        }
        self.count(&How::Abandoned);
        Ok(())
    }
}

/// Sends a request and waits until its answer begins; if it does not, says how it ended.
async fn open(front: &Front, request: Request<Body>) -> Result<Result<Body, How>, Failure> {
    let answering = front.frontend.service().oneshot(request);
    let Some(response) = front.dead.run_until_cancelled(answering).await else {
        return Ok(Err(How::Abandoned));
    };
    let response = response.map_err(|never| Failure(never.to_string()))?;
    match response.status() {
        StatusCode::OK => Ok(Ok(response.into_body())),
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE => Ok(Err(How::Error)),
        status => Err(Failure(format!("answered with {status}"))),
    }
}

/// Sends one request and reads its answer to the end, or as far and as fast as its manner is.
async fn converse(front: &Front, request: Request<Body>, manner: Manner) -> Result<End, Failure> {
    let mut reading = Reading::default();
    let mut body = match open(front, request).await? {
        Ok(body) => body,
        Err(how) => return Ok(reading.end(how)),
    };
    loop {
        let Some(frame) = front.dead.run_until_cancelled(body.frame()).await else {
            return Ok(reading.end(How::Abandoned));
        };
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| Failure(format!("the body broke: {error}")))?;
        let mut bytes = frame.data_ref().map_or(&[][..], |bytes| bytes);
        let hangs_up = match manner {
            Manner::HangsUp { after } => {
                let left = after.saturating_sub(reading.bytes);
                let enough = bytes.len() > left;
                bytes = &bytes[..bytes.len().min(left)];
                enough
            }
            Manner::Drips => {
                let pause = Duration::from_secs(bytes.len() as u64).min(FAR_BEHIND);
                tokio::time::sleep(pause).await;
                false
            }
            Manner::Reads | Manner::NeverReads | Manner::Batch { .. } | Manner::Greedy { .. } => {
                false
            }
        };
        reading.take(bytes)?;
        if hangs_up {
            return Ok(reading.end(How::Abandoned));
        }
    }
    reading.ended()
}

/// What a client has read.
#[derive(Debug, Default)]
struct Reading {
    /// What does not make a whole event yet, or is a document in one piece.
    rest: Vec<u8>,
    bytes: usize,
    texts: BTreeMap<u64, String>,
    finished: u32,
    failed: bool,
    done: bool,
}

impl Reading {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.bytes += bytes.len();
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = self.rest.drain(..end + 2).collect();
            let event = String::from_utf8_lossy(&event);
            if self.done {
                return Err(Failure("something follows the end".to_owned()));
            }
            match event.trim().trim_start_matches("data: ") {
                "[DONE]" => self.done = true,
                event => self.document(event)?,
            }
        }
        Ok(())
    }

    /// An event of a stream, or an answer in one piece.
    fn document(&mut self, text: &str) -> Result<(), Failure> {
        let document: Value = serde_json::from_str(text)
            .map_err(|error| Failure(format!("an answer is not JSON: {error}")))?;
        self.failed |= document.get("error").is_some();
        for choice in document["choices"].as_array().into_iter().flatten() {
            let text = choice["delta"]["content"].as_str();
            let text = text.or(choice["text"].as_str()).unwrap_or_default();
            let index = choice["index"].as_u64().unwrap_or_default();
            self.texts.entry(index).or_default().push_str(text);
            self.finished += u32::from(choice["finish_reason"].is_string());
        }
        Ok(())
    }

    fn end(self, how: How) -> End {
        End {
            how,
            texts: self.texts.into_values().collect(),
        }
    }

    /// The body is at its end: how did it go?
    fn ended(mut self) -> Result<End, Failure> {
        if !self.rest.is_empty() && !self.done {
            let document = String::from_utf8_lossy(&self.rest).into_owned();
            self.document(&document)?;
            self.done = true;
        }
        let all = self.finished as usize == self.texts.len() && self.finished > 0;
        match (self.done, all, self.failed) {
            (true, true, false) => Ok(self.end(How::Complete)),
            (true, _, true) => Ok(self.end(How::Error)),
            _ => Err(Failure(format!("a stream ended neither way: {self:?}"))),
        }
    }
}
