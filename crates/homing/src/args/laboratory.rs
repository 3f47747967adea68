//! Options of `sweep` and `replay`. They describe one experiment and are given on the command
//! line only: an experiment that depends on the environment cannot be repeated.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use router::Mode;
use sweep::Objectives;

pub(super) const SWEEP_EXAMPLES: &str = "\
Examples:
  homing sweep --virtual --workload specification --levels 60..180:20 --output out
  homing sweep --virtual --workload burst --levels 60 --modes round-robin,kv --repeats 5 --output out
  homing sweep --virtual --workload my.toml --levels 60,180 --window 10m --output out
  homing sweep --virtual --slo ttft_p95=600ms,tpot_p95=60ms --search --levels 10..400:10 --output out";

pub(super) const REPLAY_EXAMPLES: &str = "\
Examples:
  homing replay --virtual --trace mooncake-conversation.jsonl --format mooncake --workers 8 --output out";

pub(super) const LEARNING_EXAMPLES: &str = "\
Examples:
  homing learning --virtual
  homing learning --virtual --workload unique-starters --level 100 --repeats 5";

#[derive(Clone, Debug, Args)]
pub(crate) struct LearningArgs {
    /// Run in virtual time, on simulated workers
    #[arg(long = "virtual")]
    pub(crate) in_virtual_time: bool,
    /// What load: a built-in workload's name or the path of a TOML file
    #[arg(long, default_value = "specification")]
    pub(crate) workload: String,
    /// Conversations at once
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) level: u32,
    /// Runs with different conversations; their samples are pooled
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeats: u32,
    /// Simulated time of one window
    #[arg(long, default_value = "20s", value_parser = duration)]
    pub(crate) window: Duration,
    /// How many windows
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(4..=100))]
    pub(crate) windows: u32,
    /// How many workers; by default as many as the workload or else the profile says
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: Option<u32>,
    /// Simulated hardware and model: a built-in profile's name or the path of a TOML file
    #[arg(long)]
    pub(crate) profile: Option<String>,
    /// Seed of everything random
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SweepArgs {
    /// Run in virtual time, on simulated workers
    #[arg(long = "virtual")]
    pub(crate) in_virtual_time: bool,
    /// What load: a built-in workload's name or the path of a TOML file
    #[arg(long, default_value = "specification")]
    pub(crate) workload: String,
    /// Conversations at once: single levels and ranges, such as 60,80 or 60..180:20
    #[arg(long, value_name = "LEVELS", default_value = "60..180:20", value_parser = levels)]
    pub(crate) levels: Levels,
    /// Runs for each mode and level, with different conversations; their samples are pooled
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: u32,
    /// Simulated time before anything is measured
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub(crate) warmup: Duration,
    /// Simulated time that is measured
    #[arg(long, default_value = "300s", value_parser = duration)]
    pub(crate) window: Duration,
    /// How many workers; by default as many as the workload or else the profile says
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: Option<u32>,
    /// Latency objectives, such as ttft_p95=600ms,tpot_p95=60ms
    ///
    /// Tells for each mode the highest level at which all of them hold and no request failed.
    /// ttft, tpot, itl or e2e, with _p50, _p95 or _p99, in ms or s.
    #[arg(long, value_name = "OBJECTIVES")]
    pub(crate) slo: Option<Objectives>,
    /// Runs the levels upward and drops a mode after three in a row that miss the objectives
    ///
    /// Levels run one after the other, the modes that are left beside each other. Three and
    /// not one, because a higher level may hold where a lower one does not.
    #[arg(long, requires = "slo")]
    pub(crate) search: bool,
    #[command(flatten)]
    pub(crate) common: LaboratoryArgs,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Run in virtual time, on simulated workers
    #[arg(long = "virtual")]
    pub(crate) in_virtual_time: bool,
    /// The recorded requests
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: PathBuf,
    /// How the trace is written
    #[arg(long, value_enum, default_value_t = TraceFormat::Mooncake)]
    pub(crate) format: TraceFormat,
    /// How much faster than recorded
    #[arg(long, default_value = "1.0", value_parser = speed)]
    pub(crate) speed: f64,
    /// How many workers
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: u32,
    #[command(flatten)]
    pub(crate) common: LaboratoryArgs,
}

/// What both take.
#[derive(Clone, Debug, Args)]
pub(crate) struct LaboratoryArgs {
    /// Router modes to compare
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "round-robin,kv-blocks,kv"
    )]
    pub(crate) modes: Vec<Mode>,
    /// Simulated hardware and model: a built-in profile's name or the path of a TOML file
    #[arg(long)]
    pub(crate) profile: Option<String>,
    /// Seed of everything random
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
    /// Threads; by default as many as there are cores
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// Folder for summary.json and cells.csv
    #[arg(long, value_name = "DIR")]
    pub(crate) output: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceFormat {
    /// JSON lines with timestamp, input_length, output_length and hash_ids
    Mooncake,
}

/// Load levels in the order in which they were given. A type of its own, because clap takes
/// a plain vector for an option that may be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Levels(pub(crate) Vec<u32>);

fn levels(text: &str) -> Result<Levels, String> {
    let mut levels = Vec::new();
    for part in text.split(',') {
        let number = |text: &str| match text.trim().parse::<u32>() {
            Ok(number) if number > 0 => Ok(number),
            Ok(_) | Err(_) => Err(format!("`{text}` is not a number of conversations")),
        };
        let Some((first, rest)) = part.split_once("..") else {
            levels.push(number(part)?);
            continue;
        };
        let Some((last, step)) = rest.split_once(':') else {
            return Err(format!("`{part}` has no step, as in 60..180:20"));
        };
        let (first, last, step) = (number(first)?, number(last)?, number(step)?);
        if first > last {
            return Err(format!("`{part}` runs backwards"));
        }
        levels.extend((first..=last).step_by(step as usize));
    }
    Ok(Levels(levels))
}

/// `90`, `90s`, `1.5m`, `250ms`, `2h`.
fn duration(text: &str) -> Result<Duration, String> {
    let end = text
        .find(|character: char| character.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("`{unit}` is not one of ms, s, m, h")),
    };
    let number: f64 = number
        .trim()
        .parse()
        .map_err(|_| format!("`{text}` is not a time such as 90s"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && speed > 0.0 => Ok(speed),
        Ok(_) | Err(_) => Err("not a number above 0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_lists_and_ranges() {
        for (text, expected) in [
            ("60,180", vec![60, 180]),
            ("60..180:20", vec![60, 80, 100, 120, 140, 160, 180]),
            ("10..30:15,99", vec![10, 25, 99]),
        ] {
            assert_eq!(levels(text), Ok(Levels(expected)), "{text}");
        }
        for (text, part) in [
            ("", "not a number"),
            ("0", "not a number"),
            ("60..180", "no step"),
            ("80..60:10", "backwards"),
            ("60..180:0", "not a number"),
        ] {
            assert!(levels(text).unwrap_err().contains(part), "{text}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, millis) in [
            ("60s", 60_000),
            ("90", 90_000),
            ("1.5m", 90_000),
            ("250ms", 250),
            ("2h", 7_200_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "5 days", "-3s", "1e400s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_replay_runs_forward() {
        assert_eq!(speed("2.0"), Ok(2.0));
        for text in ["0", "-1", "inf", "fast"] {
            assert!(speed(text).is_err(), "{text}");
        }
    }
}
