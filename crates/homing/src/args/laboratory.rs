//! Options of `sweep` and `replay`. They describe one experiment and are given on the command
//! line only: an experiment that depends on the environment cannot be repeated.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use router::Mode;
use sweep::Objectives;
use sweep::notation::{Levels, duration, levels, speed};

pub(super) const SWEEP_EXAMPLES: &str = "\
Examples:
  homing sweep --virtual --workload specification --levels 60..180:20 --output out
  homing sweep --virtual --modes round-robin,kv-blocks --repeats 6 --compare published --output out
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
    /// Print how far every cell is off from measurements: `published` (three H200 behind
    /// Dynamo 0.9, modes round-robin and kv-blocks, levels 60 to 180)
    #[arg(long, value_name = "MEASUREMENTS")]
    pub(crate) compare: Option<String>,
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
    /// Simulated hardware and model: a built-in profile's name or the path of a TOML file. By
    /// default the one that the workload names, else h200-llama-70b-fp8-published, which is
    /// fitted to published measurements; h200-llama-70b-fp8 is built from measured floors alone
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
