//! Genuine Dynamo workers behind the frontend, by their own protocol.
//!
//! Ignored unless asked for, because they need `ai-dynamo`: `cargo xtask test --only dynamo`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_servers::dynamo::{Genuine, Planes, RegisterAt, Setting, WORDS, write_model};
use tokio::time::Instant;

use crate::client::{Streamed, assistant, chat, order, user};
use crate::recorded::record;
use crate::system::{MODEL, Process, metric, until, until_metric_exceeds, until_workers};

const BLOCK: usize = 32;
const CONVERSATIONS: u32 = 12;
const ANSWER: u32 = 24;

/// Longer than the frontend's own attempts to fetch a snapshot last.
const LONG_AWAY: Duration = Duration::from_secs(8);

/// A model in a folder, and workers of it.
struct Workers {
    setting: Setting,
    _model: TempDir,
}

impl Workers {
    fn new(place: RegisterAt, planes: Planes) -> Self {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
        let python = target
            .expect("a build directory")
            .join("venv-dynamo/bin/python");
        assert!(python.is_file(), "run `cargo xtask test --only dynamo`");
        let model = tempfile::tempdir().expect("a folder");
        write_model(model.path()).expect("the folder can be written");
        let setting = Setting {
            python,
            model: model.path().to_owned(),
            name: MODEL.to_owned(),
            place,
            planes,
            block_size: BLOCK,
        };
        Self {
            setting,
            _model: model,
        }
    }

    fn start(&self) -> Genuine {
        // Room for all that a fast machine asks: what is full does not grow by what is new.
        let blocks = "--num-gpu-blocks-override=262144";
        let options = ["--max-num-seqs=64", "--speedup-ratio=4", blocks];
        self.setting.mocker(&options).expect("python runs")
    }

    fn frontend(&self, discovery: &[&str]) -> Process {
        let (model, block) = (self.setting.model.to_str(), BLOCK.to_string());
        let base = [
            "--model-path",
            model.expect("text"),
            "--kv-cache-block-size",
            &block,
        ];
        Process::frontend(&[&base[..], discovery].concat())
    }
}

/// Some hundred words that no other conversation has.
fn words(conversation: u32) -> String {
    let count = WORDS.end - WORDS.start;
    let word = |position: u32| match position {
        // Its number: whatever follows, no block of it is another's.
        0 => conversation % count,
        1 => conversation / count,
        _ => (conversation * 7919 + position * 31) % count,
    };
    let words = (0..400).map(|position| format!("w{} ", WORDS.start + word(position)));
    words.collect()
}

/// A conversation of three turns.
async fn converse(frontend: &str, conversation: u32) -> Vec<Streamed> {
    let (mut messages, mut answers) = (Vec::<Value>::new(), Vec::new());
    for turn in 0..3 {
        messages.push(user(&words(conversation + 100_000 * turn)));
        let answer = chat(frontend, &messages, ANSWER, |_| {}).await;
        messages.push(assistant(&answer.text));
        answers.push(answer);
    }
    answers
}

/// New conversations until the time is up, a dozen at once.
async fn load(frontend: &str, first: u32, time: Duration) -> Vec<Vec<Streamed>> {
    let began = Instant::now();
    let users = (0..CONVERSATIONS).map(|user| async move {
        let mut conversations = Vec::new();
        while began.elapsed() < time {
            let number = first + user + CONVERSATIONS * conversations.len() as u32;
            conversations.push(converse(frontend, number).await);
        }
        conversations
    });
    join_all(users).await.concat()
}

fn assert_complete(conversations: &[Vec<Streamed>]) {
    let failed = conversations
        .iter()
        .flatten()
        .find(|turn| !turn.is_complete());
    assert!(failed.is_none(), "{failed:?}");
}

/// Load on three workers, one of which is killed and replaced.
async fn serves(workers: &Workers, frontend: &Process) -> Vec<Genuine> {
    let mut fleet: Vec<_> = (0..3).map(|_| workers.start()).collect();
    until_workers(frontend, 3).await;
    let first = ids(&crate::system::workers(frontend).await);
    let url = frontend.address.as_str();
    let calm = load(url, 0, Duration::from_secs(10)).await;
    assert_complete(&calm);
    let later: Vec<_> = calm.iter().flat_map(|turns| &turns[1..]).collect();
    // Its own first turn, of which the last block may have been filled by the answer.
    let home = later.iter().filter(|turn| turn.cached_tokens >= 384);
    let CachedTokens { predicted, actual } = CachedTokens::count(frontend).await;
    println!(
        "{} conversations; {} of {} later turns found their first; cached tokens predicted \
         {predicted}, reported {actual}",
        calm.len(),
        home.clone().count(),
        later.len()
    );
    assert!(actual > 0.0);
    // What an event says comes a moment after the answer, so a prompt that follows at once may
    // be told less than is there; never more.
    assert!(predicted <= actual && predicted > 0.95 * actual);

    let kill = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        drop(fleet.remove(0));
        tokio::time::sleep(Duration::from_secs(2)).await;
        fleet.push(workers.start());
    };
    let (disturbed, ()) = tokio::join!(load(url, 50_000, Duration::from_secs(10)), kill);
    assert_complete(&disturbed);
    let took = until("the new worker serves", frontend, |workers| {
        workers.len() == 3 && ids(workers) != first
    })
    .await;
    let moved = metric(frontend, "dynamo_frontend_model_migration_total").await;
    println!(
        "one killed and replaced: {} conversations, none failed, {moved} requests moved; three \
         workers again {took:?} after the load",
        disturbed.len()
    );
    fleet
}

fn ids(workers: &[Value]) -> Vec<String> {
    let ids = workers.iter().map(|worker| worker["card"]["id"].as_str());
    ids.map(|id| id.expect("an id is text").to_owned())
        .collect()
}

/// Of all prompts until now.
struct CachedTokens {
    predicted: f64,
    /// As the workers reported.
    actual: f64,
}

impl CachedTokens {
    async fn count(frontend: &Process) -> Self {
        Self {
            predicted: metric(frontend, "homing_router_predicted_cached_tokens_total").await,
            actual: metric(frontend, "homing_router_actual_cached_tokens_total").await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs ai-dynamo: cargo xtask test --only dynamo"]
async fn three_workers_found_in_a_folder_serve_and_one_is_replaced() {
    let registry = tempfile::tempdir().unwrap();
    let workers = Workers::new(
        RegisterAt::Folder(registry.path().to_owned()),
        Planes::Direct,
    );
    let folder = registry.path().to_str().expect("text");
    let frontend = workers.frontend(&["--discovery", "dynamo-file", "--dynamo-file-kv", folder]);
    serves(&workers, &frontend).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs ai-dynamo: cargo xtask test --only dynamo"]
async fn three_workers_found_in_etcd_serve_and_one_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = test_servers::etcd::Server::start(folder.path()).unwrap();
    let workers = Workers::new(RegisterAt::Etcd(etcd.address()), Planes::Direct);
    let frontend = workers.frontend(&["--discovery", "dynamo-etcd", "--etcd", &etcd.address()]);
    serves(&workers, &frontend).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs ai-dynamo: cargo xtask test --only dynamo"]
async fn three_workers_whose_events_go_over_nats_serve_and_are_known_after_its_restart() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = test_servers::etcd::Server::start(folder.path()).unwrap();
    let mut nats = test_servers::nats::Server::start().unwrap();
    let planes = Planes::NatsEvents(nats.url());
    let workers = Workers::new(RegisterAt::Etcd(etcd.address()), planes);
    let discovery = ["--discovery", "dynamo-etcd", "--etcd", &etcd.address()];
    let url = nats.url();
    let options = [&discovery[..], &["--nats", &url]].concat();
    let frontend = workers.frontend(&options);
    let _fleet = serves(&workers, &frontend).await;

    // What is cached while nobody hears of it is known once the server is back.
    let url = frontend.address.as_str();
    nats.kill();
    let before = settled_blocks(&frontend).await;
    let begun = join_all((0..CONVERSATIONS).map(|number| async move {
        let mut messages = vec![user(&words(200_000 + number))];
        let answer = chat(url, &messages, ANSWER, |_| {}).await;
        messages.push(assistant(&answer.text));
        messages.push(user("w5"));
        (answer, messages)
    }))
    .await;
    assert!(begun.iter().all(|(answer, _)| answer.is_complete()));
    assert_eq!(indexed_blocks(&frontend).await, before);
    let snapshots = snapshots_by_worker(&frontend).await;
    nats.restart().unwrap();
    let restarted = Instant::now();
    // The sum alone could be reached by events of the load that were lost when the server died.
    for (worker, taken) in &snapshots {
        until_metric_exceeds(&frontend, worker, *taken).await;
    }
    until("the view is right", &frontend, |workers| {
        let prompts = begun.len() as u64 * 400 / BLOCK as u64;
        sum_of_indexed(workers) >= before + prompts
    })
    .await;
    let took = restarted.elapsed();
    let CachedTokens { predicted, actual } = CachedTokens::count(&frontend).await;
    // What is known decides, not how fast each worker has been, and none is busy with the others.
    let mode = json!({ "mode": "kv-blocks" });
    let (status, _) = order("PUT", &format!("{url}/router"), "", &mode).await;
    assert_eq!(status, 200);
    let mut later = Vec::new();
    for (_, messages) in &begun {
        later.push(chat(url, messages, ANSWER, |_| {}).await);
    }
    assert!(later.iter().all(Streamed::is_complete));
    let now = CachedTokens::count(&frontend).await;
    let (predicted, actual) = (now.predicted - predicted, now.actual - actual);
    let home = later.iter().filter(|turn| turn.cached_tokens >= 384);
    println!(
        "NATS away for {} first turns; view right {took:?} after it was back; {} later turns found \
         their first; cached tokens predicted {predicted}, reported {actual}",
        begun.len(),
        home.clone().count()
    );
    assert_eq!(home.count(), later.len());
    assert!(predicted <= actual && predicted > 0.95 * actual);
}

/// The metric of each worker that counts how often its holdings were replaced by all that it holds.
async fn snapshots_by_worker(frontend: &Process) -> Vec<(String, f64)> {
    let mut counted = Vec::new();
    for id in ids(&crate::system::workers(frontend).await) {
        let name = format!("homing_router_feed_snapshots_total{{worker_id=\"{id}\"}}");
        let taken = metric(frontend, &name).await;
        counted.push((name, taken));
    }
    counted
}

/// What the index holds once no event is under way.
async fn settled_blocks(frontend: &Process) -> u64 {
    let mut last = None;
    loop {
        let now = indexed_blocks(frontend).await;
        if last.replace(now) == Some(now) {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn indexed_blocks(frontend: &Process) -> u64 {
    sum_of_indexed(&crate::system::workers(frontend).await)
}

fn sum_of_indexed(workers: &[Value]) -> u64 {
    let blocks = workers
        .iter()
        .map(|worker| worker["indexed_blocks"].as_u64());
    blocks.flatten().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs ai-dynamo: cargo xtask test --only dynamo"]
async fn three_workers_reached_only_over_nats_serve_and_one_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = test_servers::etcd::Server::start(folder.path()).unwrap();
    let mut nats = test_servers::nats::Server::start().unwrap();
    let workers = Workers::new(RegisterAt::Etcd(etcd.address()), Planes::Nats(nats.url()));
    let discovery = ["--discovery", "dynamo-etcd", "--etcd", &etcd.address()];
    let url = nats.url();
    let options = [&discovery[..], &["--nats", &url]].concat();
    let frontend = workers.frontend(&options);
    let _fleet = serves(&workers, &frontend).await;

    // A frontend that starts while the server is away has its workers once it is back.
    drop(frontend);
    nats.kill();
    let late = workers.frontend(&options);
    until_workers(&late, 3).await;
    tokio::time::sleep(LONG_AWAY).await;
    nats.restart().unwrap();
    for (worker, _) in &snapshots_by_worker(&late).await {
        until_metric_exceeds(&late, worker, 0.0).await;
    }
    assert_complete(&load(&late.address, 100_000, Duration::from_secs(1)).await);
}

/// Replays a trace by Dynamo's own simulator, and says how many requests were completed, of how many
/// prompt tokens, and which share was reused.
const REPLAY: &str = r#"
import json, sys
from dynamo.replay import run_trace_replay
report = run_trace_replay([sys.argv[1]], trace_format="dynamo", execution_model="small")
names = ["completed_requests", "total_input_tokens", "prefix_cache_reused_ratio"]
print(json.dumps([report.summary[name] for name in names]))
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs ai-dynamo: cargo xtask test --only dynamo"]
async fn what_we_record_is_replayed_by_dynamo() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("load.jsonl");
    let lines = record(trace.clone()).await;
    let length = |line: &Value| line["request"]["input_tokens"].as_u64();
    let tokens: u64 = lines.iter().filter_map(length).sum();
    let workers = Workers::new(RegisterAt::Folder(folder.path().to_owned()), Planes::Direct);
    let replayed = Command::new(&workers.setting.python)
        .args(["-c", REPLAY])
        .arg(&trace)
        .output()
        .expect("python runs");
    assert!(replayed.status.success(), "{replayed:?}");
    let said = String::from_utf8(replayed.stdout).expect("text");
    let last = said.lines().last().expect("a line");
    let (completed, prompt, reused): (usize, u64, f64) =
        serde_json::from_str(last).expect("three numbers");
    println!("Dynamo replayed {completed} requests, {prompt} prompt tokens, {reused} reused");
    assert_eq!((completed, prompt), (lines.len(), tokens));
    assert!(reused > 0.0);
}
