//! The virtual cluster is the same system.
//!
//! One plan is run twice: by the discrete-event loop of `homing sweep --virtual`, and by the
//! whole asynchronous pipeline (HTTP service, router behind its lock, feeds, engines as
//! tasks) on tokio's paused clock. Prompts are token ids, so both see the same tokens.
//!
//! Tokio's timers ring on whole milliseconds and the event loop's do not, so with arbitrary
//! step times the two would drift apart by less than a millisecond and then, here and there,
//! see two events in the other order. The first test takes that out of the picture: its
//! hardware computes in whole milliseconds, so nothing is rounded and everything must be
//! equal: every decision, in order, and every latency, to the nanosecond. The second takes
//! the default hardware and one conversation at a time on each worker, where order is not in
//! question, and finds every latency within the timers' millisecond for each step.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use contract::{Moment, TokenId, WorkerId};
use engine::sim::{AnswerBank, Profile};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use lab::{CellPlan, Record, Workload, run_recorded};
use loadgen::{Driver, Ending, Schedule, TurnPlan};
use serde_json::{Value, json};
use tokio::task::LocalSet;
use tower::ServiceExt as _;

use testkit::{Cluster, Setup};

const SEED: u64 = 5;

const WORKLOAD: &str = r#"
about = "short conversations"
[conversations]
turns = [3, 5]
starters = { pool = 4 }
starter_tokens = [200, 300]
follow_up_tokens = [5, 20]
max_tokens = 64
"#;

/// Every step takes whole milliseconds. Slots are few and memory is short, so that requests
/// wait and blocks are evicted.
const WHOLE_MILLISECONDS: &str = r#"
about = "hardware that computes in whole milliseconds"
model = "test"
workers = 3
[gpu]
kind = "test"
count = 1
memory = { value = 4.0, unit = "GB", origin = "chosen" }
[engine]
slots = 4
max_step_tokens = 128
max_context_tokens = 2048
block_size = 16
[memory]
weights = { value = 0.0, unit = "GB", origin = "chosen" }
overhead_per_gpu = { value = 0.0, unit = "GB", origin = "chosen" }
usable_fraction = { value = 1.0, unit = "ratio", origin = "chosen" }
free_gpu_memory_fraction = { value = 1.0, unit = "ratio", origin = "chosen" }
kv_per_token = { value = 1000, unit = "KiB", origin = "chosen" }
[timing]
base = { value = 20.0, unit = "ms", origin = "chosen" }
per_token = { value = 1000.0, unit = "us", origin = "chosen" }
per_sequence = { value = 1000.0, unit = "us", origin = "chosen" }
per_context_token = { value = 0.0, unit = "ns", origin = "chosen" }
attention_per_pair = { value = 0.0, unit = "ns", origin = "chosen" }
[answers]
mean = { value = 40, unit = "tokens", origin = "chosen" }
spread = { value = 12, unit = "tokens", origin = "chosen" }
min = { value = 10, unit = "tokens", origin = "chosen" }
max = { value = 80, unit = "tokens", origin = "chosen" }
"#;

/// One experiment, for both ways to run it.
#[derive(Clone)]
struct Plan {
    mode: &'static str,
    profile: Profile,
    workload: Workload,
    conversations: u32,
    length: Duration,
}

impl Plan {
    fn new(mode: &'static str, profile: Profile, conversations: u32) -> Self {
        Self {
            mode,
            profile,
            workload: Workload::parse("short", WORKLOAD).unwrap(),
            conversations,
            length: Duration::from_secs(60),
        }
    }
}

/// What became of one turn. Times are since the load began.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Turn {
    worker: WorkerId,
    placed: Duration,
    first_token: Duration,
    ended: Duration,
    cached_tokens: u32,
    output_tokens: u32,
}

type Turns = BTreeMap<(u64, u32), Turn>;
type Prompt = (Arc<[TokenId]>, u64);

fn virtually(plan: &Plan) -> (Vec<Record>, Turns) {
    let records = run_recorded(&CellPlan {
        workload: &plan.workload,
        profile: &plan.profile,
        workers: 3,
        mode: plan.mode.parse().unwrap(),
        level: plan.conversations,
        repeat: 1,
        seed: SEED,
        warmup: Duration::ZERO,
        window: plan.length,
    });
    let since = |moment: Option<Moment>| moment.unwrap() - Moment::ZERO;
    let turn = |record: &Record| Turn {
        worker: record.worker,
        placed: since(Some(record.placed)),
        first_token: since(record.first_token),
        ended: since(record.ended),
        cached_tokens: record.cached_tokens,
        output_tokens: record.output_tokens,
    };
    let turns = records
        .iter()
        .map(|record| ((record.conversation, record.turn), turn(record)));
    let turns = turns.collect();
    (records, turns)
}

/// The clients of the asynchronous run.
struct Clients {
    cluster: Cluster,
    driver: RefCell<Driver>,
    /// What each turn says, and the seed of its answer.
    prompts: BTreeMap<(u64, u32), Prompt>,
    began: Moment,
    length: Duration,
    turns: RefCell<Turns>,
}

impl Clients {
    fn now(&self) -> Moment {
        Moment::ZERO + (self.cluster.clock.now() - self.began)
    }

    /// One conversation after the other, as the driver says.
    async fn converse(self: Rc<Self>) {
        loop {
            let Some(plan) = self.driver.borrow_mut().next(self.now()) else {
                return;
            };
            let turn = self.ask(&plan).await;
            let key = (plan.conversation, plan.turn);
            self.turns.borrow_mut().insert(key, turn);
            let now = self.now();
            let mut driver = self.driver.borrow_mut();
            if now > Moment::ZERO + self.length {
                driver.close();
            }
            driver.ended(plan.lane, Ending::Answered, now);
        }
    }

    async fn ask(&self, plan: &TurnPlan) -> Turn {
        let (prompt, seed) = &self.prompts[&(plan.conversation, plan.turn)];
        let body = json!({
            "model": self.cluster.model,
            "prompt": &**prompt,
            "max_tokens": plan.max_tokens,
            "seed": seed,
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        let request = Request::post("/v1/completions")
            .header("x-request-id", request_id(plan.conversation, plan.turn))
            .body(Body::from(body.to_string()))
            .unwrap();
        let service = self.cluster.frontend.service();
        let response = service.oneshot(request).await.unwrap();
        // The response begins with the first token.
        let first_token = self.now() - Moment::ZERO;
        assert_eq!(response.status(), StatusCode::OK);
        let worker = response.headers()["x-homing-worker"].to_str().unwrap();
        let worker = WorkerId(worker.parse().unwrap());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let usage = usage(std::str::from_utf8(&body).unwrap());
        Turn {
            worker,
            placed: Duration::ZERO,
            first_token,
            ended: self.now() - Moment::ZERO,
            cached_tokens: usage["prompt_tokens_details"]["cached_tokens"]
                .as_u64()
                .unwrap() as u32,
            output_tokens: usage["completion_tokens"].as_u64().unwrap() as u32,
        }
    }
}

fn request_id(conversation: u64, turn: u32) -> String {
    format!("{conversation}.{turn}")
}

fn usage(events: &str) -> Value {
    let events = events
        .split("\n\n")
        .filter_map(|event| event.strip_prefix("data: "));
    let values = events.filter_map(|event| serde_json::from_str::<Value>(event).ok());
    let usages = values.filter_map(|value| value.get("usage").cloned());
    let last = usages.filter(Value::is_object).last();
    last.expect("usage was asked for")
}

/// The same plan through the whole pipeline. Prompts come from the virtual run: what a turn
/// says depends on the plan alone, and output lengths are compared.
fn asynchronously(plan: &Plan, records: &[Record]) -> (Vec<(String, WorkerId)>, Turns) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async {
        let cluster = Cluster::start(Setup {
            mode: plan.mode,
            profile: plan.profile.clone(),
            seed: Some(SEED),
            answers: Some(Arc::new(AnswerBank::default())),
            decisions_kept: 10_000,
            ..Setup::default()
        })
        .await;
        let schedule = Schedule::constant(plan.conversations);
        let prompts = records.iter().map(|record| {
            let prompt = (record.prompt.clone(), record.sampling_seed);
            ((record.conversation, record.turn), prompt)
        });
        let clients = Rc::new(Clients {
            driver: RefCell::new(Driver::new(plan.workload.script.clone(), schedule, SEED)),
            prompts: prompts.collect(),
            began: cluster.clock.now(),
            cluster,
            length: plan.length,
            turns: RefCell::default(),
        });
        let tasks: Vec<_> = (0..plan.conversations)
            .map(|_| tokio::task::spawn_local(Rc::clone(&clients).converse()))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let mut decisions = clients.cluster.router.decisions(usize::MAX);
        decisions.sort_by_key(|decision| decision.number);
        let mut turns = clients.turns.take();
        let mut decided = Vec::new();
        for decision in decisions {
            let id = decision.request.as_str().to_owned();
            let (conversation, turn) = id.split_once('.').unwrap();
            let key = (conversation.parse().unwrap(), turn.parse().unwrap());
            turns.get_mut(&key).unwrap().placed = decision.at - clients.began;
            decided.push((id, decision.winner));
        }
        (decided, turns)
    })
}

fn decided(records: &[Record]) -> Vec<(String, WorkerId)> {
    let name = |record: &Record| request_id(record.conversation, record.turn);
    records
        .iter()
        .map(|record| (name(record), record.worker))
        .collect()
}

#[test]
fn decisions_and_latencies_are_equal_where_timers_do_not_round() {
    let profile = Profile::parse("whole-milliseconds", WHOLE_MILLISECONDS).unwrap();
    for mode in ["round-robin", "kv-blocks", "kv"] {
        let plan = Plan::new(mode, profile.clone(), 14);
        let (records, expected) = virtually(&plan);
        assert!(records.len() > 200, "{mode}: {}", records.len());
        // Slots are short, so requests wait: in the engine, or in the router in mode `kv`.
        let asked = |&(conversation, turn): &(u64, u32)| {
            let before = expected.get(&(conversation, turn.wrapping_sub(1)));
            before.map(|before| before.ended)
        };
        let waits = expected.iter().filter(|(key, turn)| {
            asked(key).is_some_and(|asked| turn.first_token - asked > Duration::from_millis(500))
        });
        assert!(
            waits.count() > 10,
            "{mode}: nobody waits, so the test says little"
        );
        let (decisions, turns) = asynchronously(&plan, &records);
        for (index, pair) in decisions.iter().zip(&decided(&records)).enumerate() {
            assert_eq!(
                pair.0,
                pair.1,
                "{mode}: decision {index} of {}",
                records.len()
            );
        }
        assert_eq!(decisions.len(), records.len(), "{mode}");
        for (key, turn) in &turns {
            assert_eq!(Some(turn), expected.get(key), "{mode}: {key:?}");
        }
        assert_eq!(turns.len(), expected.len(), "{mode}");
    }
}

#[test]
fn latencies_agree_within_a_step_where_timers_round() {
    let plan = Plan::new(
        "round-robin",
        Profile::named(engine::sim::DEFAULT_PROFILE).unwrap(),
        1,
    );
    let (records, expected) = virtually(&plan);
    let (decisions, turns) = asynchronously(&plan, &records);
    assert_eq!(decisions, decided(&records)[..decisions.len()]);
    assert!(turns.len() > 30, "{}", turns.len());
    for (key, turn) in &turns {
        let other = &expected[key];
        assert_eq!(turn.output_tokens, other.output_tokens);
        assert_eq!(turn.cached_tokens, other.cached_tokens);
        let latency = |turn: &Turn| (turn.ended - turn.placed).as_secs_f64();
        let first = |turn: &Turn| (turn.first_token - turn.placed).as_secs_f64();
        for (one, two) in [(latency(turn), latency(other)), (first(turn), first(other))] {
            // The engine makes up in the next step for what a timer was late, so the error
            // of a whole answer is that of its last step.
            assert!((one - two).abs() <= 0.002, "{key:?}: {one} and {two}");
        }
    }
}
