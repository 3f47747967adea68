//! `homing loadgen` against `homing demo`, as a user runs them: two processes and a socket.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use loadgen::{RequestRecord, TurnType};
use serde_json::Value;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_homing");

/// A demo on free ports, ended with the test.
pub(crate) struct Demo {
    process: Child,
    pub(crate) url: String,
    /// Host and port of the console.
    pub(crate) console: String,
}

impl Demo {
    pub(crate) fn start(options: &str) -> Self {
        let mut process = Command::new(PROGRAM)
            .args(["demo", "--http-port", "0"])
            .args([
                "--console-port",
                "0",
                "--shutdown-grace",
                "0",
                "--no-baseline",
            ])
            .args(options.split_whitespace())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let mut address = |name: &str| loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "the demo ended");
            if let Some(address) = line.trim().strip_prefix(name) {
                break address.trim().to_owned();
            }
        };
        let (url, console) = (address("api"), address("console"));
        // Its greeting goes on, and nobody may make it wait.
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        Self {
            process,
            url,
            console: console.trim_start_matches("http://").to_owned(),
        }
    }

    fn loadgen(&self, options: &str, files: &[(&str, &Path)]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(["loadgen", "--target", &self.url]);
        command.args(["--ramp", "0", "--concurrency", "4", "--max-tokens", "24"]);
        command.args(options.split_whitespace());
        for (option, path) in files {
            command.arg(option).arg(path);
        }
        command.output().unwrap()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn lines<T: serde::de::DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = std::fs::read_to_string(path).unwrap();
    let parsed = text.lines().map(|line| serde_json::from_str(line).unwrap());
    parsed.collect()
}

#[test]
fn a_run_measures_records_and_judges() {
    let mut demo = Demo::start("--no-load");
    let folder = tempfile::tempdir().unwrap();
    let [record, export] = ["record.jsonl", "export.jsonl"].map(|name| folder.path().join(name));
    let options = "--duration 4s --turns 3 --slo e2e_p99=120s,itl_p50=60s";
    let files = [("--record", &*record), ("--export-aiperf", &*export)];
    let output = demo.loadgen(options, &files);
    let table = String::from_utf8(output.stdout).unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{table}\n{log}");
    assert!(
        table.contains("TTFT") && table.contains(" 0 failed"),
        "{table}"
    );
    assert_eq!(table.matches(": holds").count(), 2, "{table}");
    assert!(log.contains("running"), "progress is told: {log}");

    let records: Vec<RequestRecord> = lines(&record);
    assert!(!records.is_empty());
    for one in &records {
        assert_eq!(one.error, None);
        assert!(
            one.ttft_ms.is_some() && one.output_tokens <= Some(24),
            "{one:?}"
        );
        let routing = one.routing.as_ref().expect("our server says why");
        let chosen = one.worker.as_deref().expect("our server names its worker");
        let candidates = &routing.candidates;
        assert_eq!((&*routing.mode, candidates.len()), ("kv", 3));
        assert!(candidates.iter().any(|one| one.worker == chosen));
        assert!(candidates.is_sorted_by_key(|one| one.cost.unwrap()));
    }
    // A busy machine may send some of them elsewhere, but not all.
    let went_home =
        |one: &RequestRecord| one.turn_type == TurnType::Followup && one.cached_tokens > Some(3000);
    assert!(records.iter().any(went_home));
    let conversations: BTreeSet<&str> = records.iter().map(|one| &*one.conversation_id).collect();
    let exported: Vec<Value> = lines(&export);
    assert_eq!(exported.len(), conversations.len());
    assert!(exported[0]["turns"][0]["text"].is_string());

    let missed = demo.loadgen("--duration 1s --slo ttft_p50=0.001ms", &[]);
    assert_eq!(missed.status.code(), Some(1));
    let model = demo.loadgen("--duration 1s --model other", &[]);
    assert_eq!(model.status.code(), Some(2));
    demo.process.kill().unwrap();
    demo.process.wait().unwrap();
    let away = demo.loadgen("--duration 1s", &[]);
    let log = String::from_utf8(away.stderr).unwrap();
    assert_eq!(away.status.code(), Some(2));
    assert!(
        log.contains("cannot use") && log.contains("refused"),
        "{log}"
    );
}
