//! Three workers with a small real model on this machine: what routing by cache changes, and how
//! well a virtual run with a calibrated profile foresees it.
//!
//! Every real run gets a fresh server, as every virtual one does, and a profile calibrated right
//! before it: other tenants of a machine change its speed within minutes. What is left of that
//! shows in how far the rounds are apart.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::Value;

use super::frontend::say;
use super::server::Server;
use crate::repository;

const HOMING: &str = "target/release/homing";
const MODEL: [&str; 4] = ["--model", "smollm2", "--context", "4096"];
const MODES: [&str; 2] = ["round-robin", "kv"];
const LOAD: [&str; 4] = ["--workload", "small-model", "--levels", "6"];
/// A router begins with an accelerator's speeds in mind and learns those of a processor.
const WARMUP: &str = "80s";
/// Virtual runs that a prediction is made of.
const REPEATS: &str = "20";

#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// How often everything is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of a real run that count
    #[arg(long, default_value_t = 100)]
    seconds: u64,
    /// Rounds of a calibration
    #[arg(long, default_value_t = 3)]
    repeats: u32,
}

/// What is foreseen: name, pointer into a cell of a sweep's summary, decimals.
const FIGURES: [(&str, &str, usize); 4] = [
    ("TTFT p50, ms", "/ttft_ms/p50", 0),
    ("TPOT p50, ms", "/tpot_ms/p50", 1),
    ("tokens/s", "/tops", 1),
    ("tokens out of the cache, %", "/kv_hit_pct", 1),
];

const LATER_TURNS: &str = "TTFT p50 of later turns, ms";

/// A real run and what was foreseen of it, by [`FIGURES`].
#[derive(Debug)]
struct Pair {
    real: [f64; FIGURES.len()],
    foreseen: [f64; FIGURES.len()],
    /// Median time to the first token of turns after the first, in ms.
    later_turns: f64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let folder = repository::target_directory()?.join("prediction");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let mut pairs = MODES.map(|_| Vec::new());
    for round in 1..=arguments.rounds {
        for (mode, pairs) in MODES.into_iter().zip(&mut pairs) {
            let folder = folder.join(format!("{round}-{mode}"));
            fs::create_dir_all(&folder)?;
            let pair = measure(arguments, mode, &folder)?;
            say(&format!("round {round}, {mode}: {}", pair.in_words()));
            pairs.push(pair);
        }
    }
    for (mode, pairs) in MODES.into_iter().zip(&pairs) {
        let middle = |of: &dyn Fn(&Pair) -> f64| median(pairs.iter().map(of).collect());
        say(&format!("\n{mode}, medians of {} round(s)", pairs.len()));
        for (index, (name, _, decimals)) in FIGURES.into_iter().enumerate() {
            say(&format!(
                "  {name:<28} {:>8.decimals$}, foreseen (SIMULATED) {:>8.decimals$}, off by {:+.0} %",
                middle(&|pair| pair.real[index]),
                middle(&|pair| pair.foreseen[index]),
                middle(&|pair| pair.off(index)),
            ));
        }
        let later = middle(&|pair| pair.later_turns);
        say(&format!("  {LATER_TURNS:<28} {later:>8.0}"));
    }
    say(&format!("\nall of it is under {}", folder.display()));
    Ok(())
}

fn measure(arguments: &Arguments, mode: &str, folder: &Path) -> anyhow::Result<Pair> {
    let profile = folder.join("profile.toml");
    let mut calibrate = Command::new(HOMING);
    calibrate
        .args(["calibrate", "--workers", "3"])
        .args(["--repeats", &arguments.repeats.to_string()])
        .args(MODEL)
        .arg("--output")
        .arg(&profile);
    fs::write(folder.join("calibration.txt"), finish(&mut calibrate)?)?;

    let window = format!("{}s", arguments.seconds);
    let sweep = |output: &str, how: &[&str]| {
        let output = folder.join(output);
        let mut sweep = Command::new(HOMING);
        sweep
            .args(["sweep", "--modes", mode, "--warmup", WARMUP])
            .args(["--window", &window])
            .args(LOAD)
            .args(how)
            .arg("--output")
            .arg(&output);
        finish(&mut sweep)?;
        anyhow::Ok(output)
    };
    let server = Server::start(&[&["--engine", "llama"], &MODEL[..]].concat())?;
    let real = sweep("real", &["--target", &format!("http://{}", server.address)])?;
    drop(server);
    let profile = profile.to_str().context("the path is not UTF-8")?;
    let foreseen = sweep(
        "foreseen",
        &["--virtual", "--profile", profile, "--repeats", REPEATS],
    )?;
    Ok(Pair {
        real: figures(&real)?,
        foreseen: figures(&foreseen)?,
        later_turns: later_turns(&real, mode)?,
    })
}

/// What a program printed.
fn finish(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let done = command.output()?;
    let errors = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{command:?} failed: {errors}");
    Ok(done.stdout)
}

fn read(file: &Path) -> anyhow::Result<Value> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

/// The figures of a sweep of one cell.
fn figures(sweep: &Path) -> anyhow::Result<[f64; FIGURES.len()]> {
    let summary = read(&sweep.join("summary.json"))?;
    let cell = &summary["cells"][0];
    ensure!(cell["errors"] == 0, "requests failed: {}", sweep.display());
    let mut figures = [0.0; FIGURES.len()];
    for (figure, (name, pointer, _)) in figures.iter_mut().zip(FIGURES) {
        *figure = cell
            .pointer(pointer)
            .and_then(Value::as_f64)
            .with_context(|| format!("a sweep without {name}"))?;
    }
    Ok(figures)
}

/// Median of the time to the first token of turns after the first that were sent in the window.
fn later_turns(sweep: &Path, mode: &str) -> anyhow::Result<f64> {
    let cell = sweep.join("cells").join(format!("0006-{mode}-r1.json"));
    let window = read(&cell)?;
    let bound = |name: &str| window[name].as_f64().context("a cell without a window");
    let window = bound("window_begin_s")?..bound("window_end_s")?;
    let mut times = Vec::new();
    for line in fs::read_to_string(cell.with_extension("jsonl"))?.lines() {
        let request: Value = serde_json::from_str(line)?;
        let sent = request["sent_s"].as_f64().context("never sent")?;
        if request["turn"] != 0 && window.contains(&sent) {
            times.push(request["ttft_ms"].as_f64().context("no first token")?);
        }
    }
    Ok(median(times))
}

impl Pair {
    /// By how many percent a figure was foreseen too high.
    fn off(&self, figure: usize) -> f64 {
        100.0 * (self.foreseen[figure] / self.real[figure] - 1.0)
    }

    fn in_words(&self) -> String {
        let figures = FIGURES.into_iter().enumerate();
        let figures = figures.map(|(index, (name, _, decimals))| {
            format!(
                "{name} {:.decimals$}, foreseen {:.decimals$} ({:+.0} %)",
                self.real[index],
                self.foreseen[index],
                self.off(index)
            )
        });
        let mut words: Vec<String> = figures.collect();
        words.push(format!("{LATER_TURNS} {:.0}", self.later_turns));
        words.join("; ")
    }
}

/// The middle one, or the upper of two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
