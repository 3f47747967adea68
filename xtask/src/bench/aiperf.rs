//! Whether another load generator, aiperf, measures what ours does.
//!
//! Ours talks to a fresh `homing demo` and writes down what its users said; aiperf then says
//! the same to another fresh one. What users say is in the file, what they are told becomes
//! history on both sides, and the simulator answers equal prompts equally, so the two runs
//! hold the same prompts. Every conversation begins with a line of its own: what is cached is
//! then its own history, and does not depend on who came first.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::Value;

use super::HOMING;
use super::client::percentile;
use super::server::Server;
use crate::repository;

const AIPERF: &str = "aiperf==0.13.0";

/// Carries the vocabulary that aiperf would otherwise fetch from the network, in the layout
/// of tiktoken's cache. Its other parts are not needed.
const VOCABULARY: &str = "litellm==1.108.4";

const STREAMS: &str = "8";
const TOKENS: &str = "64";

#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// Python environment with aiperf; made if it is missing, which takes minutes and a
    /// gigabyte. By default under the build directory
    #[arg(long, value_name = "DIR")]
    venv: Option<PathBuf>,
    /// Seconds in which our load generator begins turns
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

/// What one side measured.
#[derive(Debug, Default, PartialEq)]
struct Side {
    requests: u64,
    prompt_tokens: u64,
    cached_tokens: u64,
    output_tokens: u64,
    ttft: Vec<Duration>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let venv = match &arguments.venv {
        Some(venv) => venv.clone(),
        None => repository::target_directory()?.join("aiperf"),
    };
    let vocabulary = prepare(&venv)?;
    let folder = repository::target_directory()?.join("aiperf-run");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    println!("homing loadgen, {STREAMS} streams …");
    let ours = homing(&folder, arguments.seconds)?;
    println!("aiperf, {STREAMS} streams …\n");
    let theirs = aiperf(&venv, &vocabulary, &folder)?;
    compare(ours, theirs)
}

/// Makes the environment if need be. Returns where the vocabulary is.
fn prepare(venv: &Path) -> anyhow::Result<PathBuf> {
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ];
    let python = venv.join("bin/python");
    if !venv.join("bin/aiperf").is_file() {
        println!("installing {AIPERF} into {} …", venv.display());
        execute(Command::new("python3").args(["-m", "venv"]).arg(venv))?;
        execute(Command::new(&python).args(pip).arg(AIPERF))?;
    }
    let packages = repository::target_directory()?.join("aiperf-vocabulary");
    let vocabulary = packages.join("litellm/litellm_core_utils/tokenizers");
    if !vocabulary.is_dir() {
        let mut install = Command::new(&python);
        install.args(pip).args(["--no-deps", "--target"]);
        execute(install.arg(&packages).arg(VOCABULARY))?;
    }
    Ok(vocabulary)
}

fn homing(folder: &Path, seconds: u64) -> anyhow::Result<Side> {
    let server = Server::start(&[])?;
    let record = folder.join("record.jsonl");
    execute(
        Command::new(HOMING)
            .args(["loadgen", "--target", &format!("http://{}", server.address)])
            .args(["--unique", "--concurrency", STREAMS, "--ramp", "0"])
            .args(["--turns", "3", "--max-tokens", TOKENS])
            .args(["--duration", &format!("{seconds}s")])
            .arg("--record")
            .arg(&record)
            .arg("--export-aiperf")
            .arg(folder.join("conversations.jsonl")),
    )?;
    let mut side = Side::default();
    for line in fs::read_to_string(record)?.lines() {
        let request: Value = serde_json::from_str(line)?;
        let count = |name: &str| request[name].as_u64();
        side.add(
            [
                count("prompt_tokens"),
                count("cached_tokens"),
                count("output_tokens"),
            ],
            &request["ttft_ms"],
        )?;
    }
    Ok(side)
}

fn aiperf(venv: &Path, vocabulary: &Path, folder: &Path) -> anyhow::Result<Side> {
    let server = Server::start(&[])?;
    let conversations = folder.join("conversations.jsonl");
    let count = fs::read_to_string(&conversations)?.lines().count();
    let results = folder.join("aiperf");
    execute(
        Command::new(venv.join("bin/aiperf"))
            .args(["profile", "--model", &server.model])
            .args(["--url", &format!("http://{}", server.address)])
            .args([
                "--endpoint-type",
                "chat",
                "--streaming",
                "--tokenizer",
                "builtin",
            ])
            .args([
                "--concurrency",
                STREAMS,
                "--custom-dataset-type",
                "multi_turn",
            ])
            .args(["--dataset-sampling-strategy", "sequential"])
            .args(["--conversation-num", &count.to_string()])
            .args(["--use-server-token-count", "--ui", "none", "--input-file"])
            .arg(&conversations)
            .arg("--artifact-dir")
            .arg(&results)
            .env("TIKTOKEN_CACHE_DIR", vocabulary),
    )?;
    let mut side = Side::default();
    for line in fs::read_to_string(results.join("profile_export.jsonl"))?.lines() {
        let request: Value = serde_json::from_str(line)?;
        let metrics = &request["metrics"];
        // Tokens that did not come out of the cache are left out, not 0.
        let count = |name: &str| metrics[name]["value"].as_u64();
        let cached = count("usage_prompt_cache_read_tokens").or(Some(0));
        let counts = [
            count("usage_prompt_tokens"),
            cached,
            count("usage_completion_tokens"),
        ];
        side.add(counts, &metrics["time_to_first_token"]["value"])?;
    }
    Ok(side)
}

impl Side {
    /// Prompt, cached and output tokens of a request, and its TTFT in milliseconds.
    fn add(&mut self, counts: [Option<u64>; 3], ttft: &Value) -> anyhow::Result<()> {
        let [prompt, cached, output] = counts;
        self.requests += 1;
        self.prompt_tokens += prompt.context("a request without prompt tokens")?;
        self.cached_tokens += cached.context("a request without cached tokens")?;
        self.output_tokens += output.context("a request without output tokens")?;
        let ttft = ttft.as_f64().context("a request without a TTFT")?;
        self.ttft.push(Duration::from_secs_f64(ttft / 1e3));
        Ok(())
    }
}

fn compare(mut ours: Side, mut theirs: Side) -> anyhow::Result<()> {
    println!("{:<24} {:>10} {:>10}", "", "homing", "aiperf");
    for (name, ours, theirs) in [
        ("requests", ours.requests, theirs.requests),
        ("prompt tokens", ours.prompt_tokens, theirs.prompt_tokens),
        ("cached tokens", ours.cached_tokens, theirs.cached_tokens),
        ("output tokens", ours.output_tokens, theirs.output_tokens),
    ] {
        let verdict = if ours == theirs {
            "the same"
        } else {
            "DIFFERENT"
        };
        println!("{name:<24} {ours:>10} {theirs:>10}  {verdict}");
    }
    for (share, name) in [(0.50, "TTFT p50, ms"), (0.95, "TTFT p95, ms")] {
        let [left, right] = [&mut ours, &mut theirs].map(|side| percentile(&mut side.ttft, share));
        let [left, right] = [left?, right?].map(|ttft| ttft.as_secs_f64() * 1e3);
        let apart = (left - right).abs();
        let near = apart <= 10.0 || apart <= 0.05 * left;
        let verdict = if near {
            "within 5 % or 10 ms"
        } else {
            "FURTHER than 5 % and 10 ms"
        };
        println!("{name:<24} {left:>10.1} {right:>10.1}  {verdict}");
    }
    Ok(())
}

/// Runs quietly; its output becomes part of the error if it fails.
fn execute(command: &mut Command) -> anyhow::Result<()> {
    let done = command.output().with_context(|| format!("{command:?}"))?;
    let errors = String::from_utf8_lossy(&done.stderr);
    let printed = String::from_utf8_lossy(&done.stdout);
    ensure!(
        done.status.success(),
        "{command:?} failed:\n{printed}{errors}"
    );
    Ok(())
}
