//! A load that a frontend recorded, and what replays make of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use futures_util::future::join_all;
use serde_json::Value;

use crate::client::{assistant, chat, user};
use crate::system::{PROGRAM, Process, until_workers};

const CONVERSATIONS: usize = 6;
const ANSWER: u32 = 20;

/// Two workers, and a frontend that writes a request trace.
struct Recording {
    frontend: Process,
    trace: PathBuf,
    _workers: [Process; 2],
}

impl Recording {
    async fn start(trace: PathBuf) -> Self {
        let workers = [Process::worker(&[]), Process::worker(&[])];
        let addresses = workers.each_ref().map(|worker| worker.address.as_str());
        let frontend = Process::frontend(&[
            "--workers",
            &addresses.join(","),
            "--request-trace",
            trace.to_str().expect("text"),
        ]);
        until_workers(&frontend, 2).await;
        Self {
            frontend,
            trace,
            _workers: workers,
        }
    }

    /// What it has written when it has ended.
    fn end(mut self) -> Vec<Value> {
        self.frontend.terminate();
        self.frontend.wait();
        let text = std::fs::read_to_string(&self.trace).expect("it was written");
        let lines = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        lines.collect()
    }
}

/// Conversations of two turns.
async fn converse(frontend: &str) {
    let conversations = (0..CONVERSATIONS).map(|number| async move {
        let words = format!("Conversation {number} is about caches. ").repeat(20);
        let mut messages = vec![user(&words)];
        let first = chat(frontend, &messages, ANSWER, |_| {}).await;
        messages.extend([assistant(&first.text), user("And then?")]);
        let second = chat(frontend, &messages, ANSWER, |_| {}).await;
        assert!(first.is_complete() && second.is_complete());
    });
    join_all(conversations).await;
}

/// Records a load into a file.
pub(crate) async fn record(trace: PathBuf) -> Vec<Value> {
    let recording = Recording::start(trace).await;
    converse(&recording.frontend.address).await;
    recording.end()
}

fn replay(arguments: &[&str], trace: &Path, output: &Path) -> Value {
    let ended = Command::new(PROGRAM)
        .args(["replay", "--format", "dynamo", "--trace"])
        .arg(trace)
        .arg("--output")
        .arg(output)
        .args(arguments)
        .output()
        .expect("the program starts");
    assert!(ended.status.success(), "{ended:?}");
    let summary = std::fs::read(output.join("summary.json")).expect("it was written");
    serde_json::from_slice(&summary).expect("JSON")
}

/// Requests, errors and the share of prompt tokens that were cached, by mode.
fn cells(summary: &Value) -> Vec<(String, u64, u64, f64)> {
    let cells = summary["cells"].as_array().expect("cells").iter();
    let cells = cells.map(|cell| {
        (
            cell["mode"].as_str().expect("a name").to_owned(),
            cell["requests"].as_u64().expect("a number"),
            cell["errors"].as_u64().expect("a number"),
            cell["kv_hit_pct"].as_f64().expect("a number"),
        )
    });
    cells.collect()
}

fn lengths(lines: &[Value]) -> Vec<u64> {
    let length = |line: &Value| line["request"]["replay"]["input_length"].as_u64();
    let mut lengths: Vec<u64> = lines.iter().filter_map(length).collect();
    lengths.sort_unstable();
    lengths
}

fn hashes(line: &Value) -> &[Value] {
    let hashes = line["request"]["replay"]["input_sequence_hashes"].as_array();
    hashes.expect("hashes")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_load_is_replayed_in_virtual_time_and_on_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let lines = record(path("load.jsonl")).await;
    assert_eq!(lines.len(), 2 * CONVERSATIONS);
    for line in &lines {
        let request = &line["request"];
        assert_eq!(request["output_tokens"], ANSWER, "{line}");
        assert!(request["ttft_ms"].as_f64() <= request["total_time_ms"].as_f64());
        let size = request["replay"]["trace_block_size"]
            .as_u64()
            .expect("a size");
        let length = request["input_tokens"].as_u64().expect("a length");
        assert_eq!(hashes(line).len() as u64, length.div_ceil(size));
        // A later turn begins with the blocks of its first.
        let begins_like = |other: &&Value| hashes(other)[..2] == hashes(line)[..2];
        assert_eq!(lines.iter().filter(begins_like).count(), 2, "{line}");
    }
    let simulated = replay(
        &["--virtual", "--workers", "2", "--modes", "kv"],
        &path("load.jsonl"),
        &path("virtual"),
    );
    let requests = lines.len() as u64;
    let [(_, sent, 0, cached)] = cells(&simulated)[..] else {
        panic!("{simulated}")
    };
    assert_eq!(sent, requests);
    assert!(cached > 20.0, "{simulated}");

    let again = Recording::start(path("again.jsonl")).await;
    let live = replay(
        &[
            "--target",
            &again.frontend.address,
            "--modes",
            "round-robin,kv",
        ],
        &path("load.jsonl"),
        &path("live"),
    );
    println!("{:?}", cells(&live));
    for (_, sent, failed, _) in cells(&live) {
        assert_eq!((sent, failed), (requests, 0));
    }
    assert!(cells(&live)[1].3 > 20.0, "{live}");
    // Each mode has sent the same prompts, as long as those that were recorded.
    let twice: Vec<u64> = lengths(&lines)
        .iter()
        .flat_map(|&length| [length; 2])
        .collect();
    assert_eq!(lengths(&again.end()), twice);
}
