//! Our frontend beside Dynamo's own, over genuine Dynamo workers.
//!
//! Both are given the same load on the same workers, by turns: three of Dynamo's simulated
//! workers (from PyPI), found in a folder. Prompts are made of words that their model knows. The
//! texts of a turn differ from those of another in their first word alone, so that nobody finds
//! what another left in the caches. Who comes first changes from round to round.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::Value;

use self::genuine::{Genuine, Planes, RegisterAt, Setting, WORDS, write_model};
use super::HOMING;
use super::client::percentile;
use super::figures::say;
use super::server::cpu_of;
use crate::ci::{fetch, genuine_dynamo};
use crate::repository;

/// By its path, because the crate around it would triple what has to be compiled before any task
/// can run.
#[path = "../../../crates/prove/test-servers/src/dynamo.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "tests of other crates use all of it"
)]
pub(super) mod genuine;

const NAME: &str = "words";
const BLOCK: usize = 32;
pub(super) const WORKERS: usize = 3;
/// Texts with which conversations begin.
const TEXTS: u32 = 40;
const WORDS_A_TEXT: u32 = 3000;
/// For a process to be there and to have found the workers.
const PATIENCE: u32 = 60;

#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// Seconds in which conversations begin turns, for each side and round
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Conversations at once
    #[arg(long, default_value_t = 48)]
    concurrency: u32,
    /// How often both sides take their turn
    #[arg(long, default_value_t = 2)]
    rounds: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    Homing,
    Dynamo,
}

/// What a side's load came to.
#[derive(Debug)]
struct Outcome {
    requests: usize,
    failed: usize,
    first_turns: Vec<Duration>,
    later_turns: Vec<Duration>,
    tpot: Vec<Duration>,
    tokens: u64,
    prompt_tokens: u64,
    cached_tokens: u64,
    /// Later turns that went where the turn before them was.
    at_home: usize,
    seconds: f64,
    cpu: Duration,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let python = genuine_dynamo()?;
    let folder = repository::target_directory()?.join("beside-dynamo");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let (model, registry) = (folder.join("model"), folder.join("registry"));
    fs::create_dir_all(&model)?;
    fs::create_dir_all(&registry)?;
    write_model(&model)?;
    let setting = Setting {
        python,
        model,
        name: NAME.to_owned(),
        place: RegisterAt::Folder(registry),
        planes: Planes::Direct,
        block_size: BLOCK,
    };
    let options = ["--max-num-seqs=64", "--max-num-batched-tokens=8192"];
    let workers = (0..WORKERS).map(|_| setting.mocker(&options));
    let _workers = workers.collect::<Result<Vec<_>, _>>()?;
    say(&format!(
        "{WORKERS} of Dynamo's simulated workers, {} conversations at once",
        arguments.concurrency
    ));
    for round in 0..arguments.rounds {
        let mut sides = [Side::Homing, Side::Dynamo];
        sides.rotate_left(round as usize % 2);
        for (place, side) in sides.into_iter().enumerate() {
            let turn = 2 * round + place as u32;
            write_texts(&folder.join("texts"), turn)?;
            let outcome = measure(side, &setting, &folder, arguments)?;
            outcome.print(&format!("{} {side:?}", round + 1))?;
        }
    }
    Ok(())
}

/// Texts that share no block with each other or with another turn's, of words that the model
/// knows.
fn write_texts(folder: &Path, turn: u32) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    let count = WORDS.end - WORDS.start;
    for text in 0..TEXTS {
        let first = WORDS.start + (turn * TEXTS + text) % count;
        let mut words = format!("# w{first} Text {text}\n\n");
        for position in 0..WORDS_A_TEXT {
            // Both factors are prime, so a text does not repeat itself.
            let word = WORDS.start + (text * 7919 + position * (31 + text)) % count;
            write!(words, "w{word} ")?;
        }
        fs::write(folder.join(format!("{text}.md")), words)?;
    }
    Ok(())
}

/// A frontend of either kind; ended when dropped.
#[derive(Debug)]
pub(super) enum Frontend {
    Homing(Child),
    Dynamo(Genuine),
}

impl Frontend {
    pub(super) fn start(side: Side, setting: &Setting, port: u16) -> anyhow::Result<Self> {
        let (Side::Homing, RegisterAt::Folder(registry)) = (side, &setting.place) else {
            return Ok(Self::Dynamo(setting.frontend(port)?));
        };
        let child = Command::new(HOMING)
            .args(["frontend", "--discovery", "dynamo-file", "--dynamo-file-kv"])
            .arg(registry)
            .arg("--model-path")
            .arg(&setting.model)
            .args(["--model-name", &setting.name, "--log", "error"])
            .arg(format!("--kv-cache-block-size={}", setting.block_size))
            .arg(format!("--http-port={port}"))
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {HOMING}"))?;
        Ok(Self::Homing(child))
    }

    pub(super) fn id(&self) -> u32 {
        match self {
            Self::Homing(child) => child.id(),
            Self::Dynamo(genuine) => genuine.id(),
        }
    }
}

impl Drop for Frontend {
    fn drop(&mut self) {
        if let Self::Homing(child) = self {
            // Best effort: the benchmark is over either way.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn measure(
    side: Side,
    setting: &Setting,
    folder: &Path,
    arguments: &Arguments,
) -> anyhow::Result<Outcome> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port();
    let frontend = Frontend::start(side, setting, port)?;
    wait_for_workers(side, port)?;
    let record = folder.join("record.jsonl");
    let before = cpu_of(frontend.id())?;
    let done = Command::new(HOMING)
        .args([
            "loadgen",
            "--target",
            &format!("http://127.0.0.1:{port}/v1"),
        ])
        .args(["--concurrency", &arguments.concurrency.to_string()])
        .args(["--duration", &format!("{}s", arguments.seconds)])
        .args(["--turns", "3..5", "--max-tokens", "100", "--seed", "7"])
        .arg("--corpus")
        .arg(folder.join("texts"))
        .arg("--record")
        .arg(&record)
        .output()?;
    let errors = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "the load generator failed: {errors}");
    let mut outcome = Outcome::read(&record)?;
    outcome.cpu = cpu_of(frontend.id())? - before;
    if let Side::Homing = side {
        print_prediction(port)?;
    }
    Ok(outcome)
}

pub(super) fn wait_for_workers(side: Side, port: u16) -> anyhow::Result<()> {
    let path = match side {
        Side::Homing => "/workers",
        Side::Dynamo => "/health",
    };
    for _ in 0..PATIENCE {
        std::thread::sleep(Duration::from_secs(1));
        let Ok(text) = fetch(port, path) else {
            continue;
        };
        let known = match side {
            Side::Homing => text.matches("\"card\"").count(),
            Side::Dynamo => text.matches("\"endpoint\":\"generate\"").count(),
        };
        if known >= WORKERS {
            // What they hold is asked for next.
            std::thread::sleep(Duration::from_secs(3));
            return Ok(());
        }
    }
    anyhow::bail!(
        "{side:?} has not found {WORKERS} workers: {:?}",
        fetch(port, path)
    )
}

/// Cached tokens as the router foresaw them and as the workers reported them.
fn print_prediction(port: u16) -> anyhow::Result<()> {
    let metrics = fetch(port, "/metrics")?;
    let total = |name: &str| -> f64 {
        let lines = metrics.lines().filter(|line| line.starts_with(name));
        let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum()
    };
    let predicted = total("homing_router_predicted_cached_tokens_total");
    let reported = total("homing_router_actual_cached_tokens_total");
    say(&format!(
        "  cached tokens: {predicted} predicted, {reported} reported by the workers"
    ));
    Ok(())
}

impl Outcome {
    fn read(record: &PathBuf) -> anyhow::Result<Self> {
        let mut outcome = Self {
            requests: 0,
            failed: 0,
            first_turns: Vec::new(),
            later_turns: Vec::new(),
            tpot: Vec::new(),
            tokens: 0,
            prompt_tokens: 0,
            cached_tokens: 0,
            at_home: 0,
            seconds: 0.0,
            cpu: Duration::ZERO,
        };
        let mut last: BTreeMap<u64, String> = BTreeMap::new();
        for line in fs::read_to_string(record)?.lines() {
            let request: Value = serde_json::from_str(line)?;
            outcome.add(&request, &mut last)?;
        }
        Ok(outcome)
    }

    /// `last` is where a conversation's turn before this one was.
    fn add(&mut self, request: &Value, last: &mut BTreeMap<u64, String>) -> anyhow::Result<()> {
        self.requests += 1;
        let number = |name: &str| request[name].as_u64().context("a record without a count");
        self.seconds = self.seconds.max(request["ended_s"].as_f64().unwrap_or(0.0));
        let (Some(ttft), Some(worker)) = (request["ttft_ms"].as_f64(), request["worker"].as_str())
        else {
            self.failed += 1;
            return Ok(());
        };
        let ttft = Duration::from_secs_f64(ttft / 1e3);
        let before = last.insert(number("conversation")?, worker.to_owned());
        if number("turn")? == 0 {
            self.first_turns.push(ttft);
        } else {
            self.later_turns.push(ttft);
            self.at_home += usize::from(before.as_deref() == Some(worker));
        }
        if let Some(tpot) = request["tpot_ms"].as_f64() {
            self.tpot.push(Duration::from_secs_f64(tpot / 1e3));
        }
        self.tokens += number("output_tokens")?;
        self.prompt_tokens += number("prompt_tokens")?;
        self.cached_tokens += request["cached_tokens"].as_u64().unwrap_or(0);
        Ok(())
    }

    fn print(mut self, name: &str) -> anyhow::Result<()> {
        let milliseconds = |samples: &mut Vec<Duration>, share| -> anyhow::Result<f64> {
            Ok(percentile(samples, share)?.as_secs_f64() * 1e3)
        };
        let later = self.later_turns.len();
        say(&format!(
            "{name}: {} requests, {} failed; TTFT p50/p95 first {:.1}/{:.1}, later {:.1}/{:.1} ms; \
             TPOT p50 {:.2} ms; {:.0} tok/s; cached {:.1} %; {} of {later} later turns at home; \
             frontend's CPU {:.2} ms a request",
            self.requests,
            self.failed,
            milliseconds(&mut self.first_turns, 0.5)?,
            milliseconds(&mut self.first_turns, 0.95)?,
            milliseconds(&mut self.later_turns, 0.5)?,
            milliseconds(&mut self.later_turns, 0.95)?,
            milliseconds(&mut self.tpot, 0.5)?,
            self.tokens as f64 / self.seconds,
            100.0 * self.cached_tokens as f64 / self.prompt_tokens.max(1) as f64,
            self.at_home,
            self.cpu.as_secs_f64() * 1e3 / self.requests as f64,
        ));
        Ok(())
    }
}
