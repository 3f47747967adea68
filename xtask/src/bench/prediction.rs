//! Three workers with a small real model on this machine: what routing by cache changes, and how
//! well a virtual run with a calibrated profile predicts it.
//!
//! Every real run gets a fresh server, as every virtual one does, and a profile calibrated right
//! before it. A profile is of a machine that has its processors for itself. Where others take
//! some of them during a real run, the prediction is of a machine that is as much slower, and the
//! one of the whole machine stands beside it.
//!
//! With round robin some turns find their prompt in a cache and others do not, and the median is
//! between the two kinds. A few hundred requests are needed before it says anything. How much a
//! real figure is worth shows in what differs between rounds, so the lowest and the highest are
//! printed too; one round says nothing about it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use clap::Args;
use contract::Processors;
use serde_json::Value;

use super::HOMING;
use super::figures::say;
use super::server::Server;
use crate::repository;

const MODEL: [&str; 4] = ["--model", "smollm2", "--context", "4096"];
const MODES: [&str; 2] = ["round-robin", "kv"];
const LOAD: [&str; 4] = ["--workload", "small-model", "--levels", "6"];
/// A router begins without knowing its workers' speed.
const WARMUP: &str = "80s";
/// Virtual runs that a prediction is made of.
const REPEATS: &str = "20";

#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// How often everything is measured
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Seconds of a real run that count
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Rounds of a calibration
    #[arg(long, default_value_t = 3)]
    repeats: u32,
}

/// The predicted figures, and where a cell of a sweep's summary has them.
struct Figure {
    name: &'static str,
    decimals: usize,
    value: &'static str,
}

const FIGURES: [Figure; 4] = [
    Figure {
        name: "TTFT p50, ms",
        decimals: 0,
        value: "/ttft_ms/p50",
    },
    Figure {
        name: "TPOT p50, ms",
        decimals: 1,
        value: "/tpot_ms/p50",
    },
    Figure {
        name: "tokens/s",
        decimals: 1,
        value: "/tops",
    },
    Figure {
        name: "tokens out of the cache, %",
        decimals: 1,
        value: "/kv_hit_pct",
    },
];

/// What is said of the time to the first token of turns after the first. With round robin the
/// median is now of one kind and now of the other; mean and p95 know both.
const LATER_TURNS: [&str; 3] = [
    "TTFT p50 of later turns, ms",
    "TTFT mean of later turns, ms",
    "TTFT p95 of later turns, ms",
];

/// One for each of [`FIGURES`].
type Figures = [f64; FIGURES.len()];

/// A real run and its prediction.
#[derive(Debug)]
struct Pair {
    real: Figures,
    /// With the share of the processors that the real run had.
    foreseen: Figures,
    /// With all of them.
    in_full: Figures,
    /// What others had of the processors while it counted.
    taken: f64,
    /// One for each of [`LATER_TURNS`].
    later_turns: [f64; LATER_TURNS.len()],
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
        for (index, Figure { name, decimals, .. }) in FIGURES.iter().enumerate() {
            let real = || pairs.iter().map(|pair| pair.real[index]);
            say(&format!(
                "  {name:<28} {:>8.decimals$} ({:.decimals$} to {:.decimals$}), predicted (SIMULATED) {:>8.decimals$}, off by {:+.0} %",
                middle(&|pair| pair.real[index]),
                real().fold(f64::INFINITY, f64::min),
                real().fold(f64::NEG_INFINITY, f64::max),
                middle(&|pair| pair.foreseen[index]),
                middle(&|pair| pair.off(&pair.foreseen, index)),
            ));
        }
        for (index, name) in LATER_TURNS.iter().enumerate() {
            let later = middle(&|pair| pair.later_turns[index]);
            say(&format!("  {name:<28} {later:>8.0}"));
        }
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
    let sweep = |output: &Path, how: &[&str]| {
        let mut sweep = Command::new(HOMING);
        sweep
            .args(["sweep", "--modes", mode, "--warmup", WARMUP])
            .args(["--window", &window])
            .args(LOAD)
            .args(how)
            .arg("--output")
            .arg(output);
        sweep
    };
    let real = folder.join("real");
    let server = Server::start(&[&["--engine", "llama"], &MODEL[..]].concat())?;
    let target = format!("http://{}", server.address);
    let history = watched(&mut sweep(&real, &["--target", &target]))?;
    drop(server);
    let cell = real.join("cells").join(format!("0006-{mode}-r1.json"));
    let taken = taken(&history, &read(&cell)?)?;

    let foresee = |profile: &Path, output: &str| {
        let output = folder.join(output);
        let profile = profile.to_str().context("the path is not UTF-8")?;
        let how = ["--virtual", "--profile", profile, "--repeats", REPEATS];
        finish(&mut sweep(&output, &how))?;
        figures(&output)
    };
    let as_run = folder.join("profile-as-run.toml");
    fs::write(&as_run, slower(&fs::read_to_string(&profile)?, taken)?)?;
    Ok(Pair {
        real: figures(&real)?,
        foreseen: foresee(&as_run, "foreseen")?,
        in_full: foresee(&profile, "foreseen-in-full")?,
        taken,
        later_turns: later_turns(&cell)?,
    })
}

/// The processors' time, by milliseconds since 1970.
type History = Vec<(f64, Processors)>;

/// Runs a program to its end and looks at the processors meanwhile.
fn watched(command: &mut Command) -> anyhow::Result<History> {
    let mut child = command.stdout(Stdio::null()).spawn()?;
    let mut history = History::new();
    loop {
        let stat = fs::read_to_string(Processors::FILE)?;
        let processors = Processors::parse(&stat).context("no figures of processors")?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        history.push((now.as_secs_f64() * 1e3, processors));
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "{command:?} failed");
            return Ok(history);
        }
        thread::sleep(Duration::from_secs(1));
    }
}

/// What others had of the processors while a cell was measured.
fn taken(history: &History, cell: &Value) -> anyhow::Result<f64> {
    let number = |name: &str| cell[name].as_f64().context("a cell without a window");
    let begin = number("measured_from_ms")?;
    let end = begin + 1e3 * (number("window_end_s")? - number("window_begin_s")?);
    let at = |when: f64| {
        let later = history.iter().find(|(time, _)| *time >= when);
        later.or(history.last()).context("nobody looked")
    };
    Ok(at(end)?.1.share_taken_since(at(begin)?.1))
}

/// A profile of the same machine, of whose processors others have a share.
fn slower(profile: &str, taken: f64) -> anyhow::Result<String> {
    let mut profile: toml::Table = profile.parse()?;
    let timing = profile
        .get_mut("timing")
        .and_then(toml::Value::as_table_mut);
    for (_, constant) in timing.context("a profile without times")? {
        // Parts of the same time have no unit.
        if constant.get("unit").is_some()
            && let Some(value) = constant.get_mut("value")
        {
            let whole = value.as_float().context("a time that is no number")?;
            *value = toml::Value::Float(whole / (1.0 - taken));
        }
    }
    Ok(profile.to_string())
}

/// What a program printed. How far it is goes to the terminal.
fn finish(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let done = command.stderr(Stdio::inherit()).output()?;
    ensure!(done.status.success(), "{command:?} failed");
    Ok(done.stdout)
}

fn read(file: &Path) -> anyhow::Result<Value> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

/// The figures of a sweep of one cell.
fn figures(sweep: &Path) -> anyhow::Result<Figures> {
    let summary = read(&sweep.join("summary.json"))?;
    let cell = &summary["cells"][0];
    ensure!(cell["errors"] == 0, "requests failed: {}", sweep.display());
    let mut figures = [0.0; FIGURES.len()];
    for (found, figure) in figures.iter_mut().zip(&FIGURES) {
        *found = cell
            .pointer(figure.value)
            .and_then(Value::as_f64)
            .with_context(|| format!("a sweep without {}", figure.value))?;
    }
    Ok(figures)
}

/// Times to the first token of turns after the first that were sent in the window.
fn later_turns(cell: &Path) -> anyhow::Result<[f64; LATER_TURNS.len()]> {
    let window = read(cell)?;
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
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    times.sort_unstable_by(f64::total_cmp);
    let p95 = times.get(times.len() * 95 / 100).copied();
    Ok([median(times), mean, p95.context("no later turn")?])
}

impl Pair {
    /// By how many percent the predicted figure is too high.
    fn off(&self, foreseen: &Figures, figure: usize) -> f64 {
        100.0 * (foreseen[figure] / self.real[figure] - 1.0)
    }

    fn in_words(&self) -> String {
        let figures = FIGURES.iter().enumerate();
        let figures = figures.map(|(index, Figure { name, decimals, .. })| {
            format!(
                "{name} {:.decimals$}, predicted {:.decimals$} ({:+.0} %; of the whole machine {:+.0} %)",
                self.real[index],
                self.foreseen[index],
                self.off(&self.foreseen, index),
                self.off(&self.in_full, index),
            )
        });
        let mut words = vec![format!("others had {:.1} %", 100.0 * self.taken)];
        words.extend(figures);
        let later = LATER_TURNS.iter().zip(self.later_turns);
        words.extend(later.map(|(name, found)| format!("{name} {found:.0}")));
        words.join("; ")
    }
}

/// The middle one, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    let half = values.len() / 2;
    match values.len() % 2 {
        0 => f64::midpoint(at(half.wrapping_sub(1)), at(half)),
        _ => at(half),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_machine_that_is_half_taken_takes_twice_as_long() {
        let profile = r#"
            workers = 3
            [timing]
            base = { value = 20.5, unit = "us" }
            overlaps = false
            shared_machine = { values = [0.5, 1.0] }
        "#;
        let slower: toml::Table = slower(profile, 0.5).unwrap().parse().unwrap();
        let timing = &slower["timing"];
        assert_eq!(timing["base"]["value"].as_float(), Some(41.0));
        assert_eq!(timing["shared_machine"]["values"][0].as_float(), Some(0.5));
        assert_eq!(slower["workers"].as_integer(), Some(3));
    }

    #[test]
    fn only_what_was_taken_while_it_counted_counts() {
        let at = |worked, taken| Processors { worked, taken };
        let history = vec![
            (0.0, at(0, 0)),
            (1000.0, at(100, 100)),
            (2000.0, at(290, 110)),
            (3000.0, at(290, 400)),
        ];
        let cell = json!({
            "measured_from_ms": 900, "window_begin_s": 5.0, "window_end_s": 6.05
        });
        let share = taken(&history, &cell).unwrap();
        assert!((share - 0.05).abs() < 1e-12, "{share}");
    }
}
