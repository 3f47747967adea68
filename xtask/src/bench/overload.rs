//! Five times more requests than workers can serve: does the frontend stay up, say no in time,
//! and keep the workers as busy as before?
//!
//! First a closed loop fills every slot and shows what the workers give at most. Then requests
//! arrive at five times that rate, whatever becomes of them. Workers are simulated, in real time
//! and in processes of their own.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::HOMING;
use super::figures::say;
use super::server::Server;
use crate::repository;

const WORKERS: usize = 3;
/// A small GPU that is invented for tests.
const PROFILE: &str = "crates/homing/tests/processes/small.toml";
const OVERLOAD: f64 = 5.0;
/// Seconds at the beginning that do not count.
const WARMUP: u64 = 5;

/// What came out in the time that counts.
#[derive(Debug)]
struct Goodput {
    tokens_per_second: f64,
    answered_per_second: f64,
    refused: usize,
    failed_otherwise: usize,
}

pub(crate) fn run(seconds: u64) -> anyhow::Result<()> {
    let profile = ["--profile", PROFILE];
    let server = Server::cluster(WORKERS, &profile, &["--max-queue-wait", "1"])?;
    let peak = load(&server, &["--concurrency", "192", "--ramp", "0"], seconds)?;
    let resident = server.resident()?;
    say(&format!(
        "every slot full: {:.0} tok/s, {:.1} answers/s, {} refused, {} failed otherwise; frontend has {} MB",
        peak.tokens_per_second,
        peak.answered_per_second,
        peak.refused,
        peak.failed_otherwise,
        resident / 1_000_000
    ));
    let rate = format!("{:.1}", OVERLOAD * peak.answered_per_second);
    for round in 1..=3 {
        let overload = load(&server, &["--arrivals", &rate], seconds)?;
        say(&format!(
            "{round}: {rate} requests/s arrive: {:.0} tok/s ({:+.1} %), {:.1} answers/s, {} refused with 429, \
             {} failed otherwise; frontend had at most {} MB",
            overload.tokens_per_second,
            100.0 * (overload.tokens_per_second / peak.tokens_per_second - 1.0),
            overload.answered_per_second,
            overload.refused,
            overload.failed_otherwise,
            server.most_resident()? / 1_000_000
        ));
    }
    Ok(())
}

fn load(server: &Server, how: &[&str], seconds: u64) -> anyhow::Result<Goodput> {
    let record = repository::target_directory()?.join("overload.jsonl");
    let done = Command::new(HOMING)
        .args(["loadgen", "--target", &format!("http://{}", server.address)])
        .args(["--turns", "1", "--max-tokens", "100", "--unique"])
        .args(["--duration", &format!("{}s", WARMUP + seconds)])
        .args(how)
        .arg("--record")
        .arg(&record)
        .output()?;
    let errors = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "the load generator failed: {errors}");
    Goodput::read(&record, seconds)
}

impl Goodput {
    fn read(record: &Path, seconds: u64) -> anyhow::Result<Self> {
        let window = WARMUP as f64..(WARMUP + seconds) as f64;
        let (mut tokens, mut answered, mut refused, mut failed_otherwise) = (0, 0, 0, 0);
        for line in fs::read_to_string(record)?.lines() {
            let request: Value = serde_json::from_str(line)?;
            let ended = request["ended_s"].as_f64().context("no end")?;
            if !window.contains(&ended) {
                continue;
            }
            match (&request["error"], request["output_tokens"].as_u64()) {
                (Value::Null, Some(output)) => {
                    answered += 1;
                    tokens += output;
                }
                (error, _) if error["status"] == 429 => refused += 1,
                _ => failed_otherwise += 1,
            }
        }
        Ok(Self {
            tokens_per_second: tokens as f64 / seconds as f64,
            answered_per_second: f64::from(answered) / seconds as f64,
            refused,
            failed_otherwise,
        })
    }
}
