//! Options of `sweep`. They describe one experiment and are given on the command line or in a
//! plan file: an experiment that depends on the environment cannot be repeated.

use std::path::PathBuf;

use ::sweep::PartialPlan;
use clap::{Args, Subcommand};

pub(super) const EXAMPLES: &str = "\
Exit status: 0 if all runs are done or the time limit was reached, 1 if some are left or the report cannot be written, 2 if the
plan or the server cannot be used. Ctrl-C ends the current run and writes a report of the others.

Examples:
  homing sweep --preset published --virtual --output out
  homing sweep --preset quick --target http://127.0.0.1:8000 --output out
  homing sweep --virtual --workload burst --levels 60 --modes round-robin,kv --repeats 5 --output out
  homing sweep --virtual --slo ttft_p95=600ms,tpot_p95=60ms --search --levels 10..400:10 --output out
  homing sweep --plan nightly.toml --target http://127.0.0.1:8000 --output out
  homing sweep --preset five-level --target http://dynamo:8000 --modes round_robin,kv \\
    --set-mode-command './set-mode.sh {mode}' --get-mode-command './get-mode.sh' \\
    --ready-url http://dynamo:8000/health --output out
  homing sweep --target http://127.0.0.1:8000 --beside other=http://127.0.0.1:9000 --output out
  homing sweep --story --output out
  homing sweep report out";

#[derive(Clone, Debug, Args)]
pub(crate) struct SweepArgs {
    #[command(subcommand)]
    pub(crate) command: Option<SweepCommand>,
    /// Run in virtual time, on simulated workers
    #[arg(long = "virtual", help_heading = "Testbed")]
    pub(crate) in_virtual_time: bool,
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    /// Plan file (TOML) with these options as keys, such as levels = [60, 120]; options on the
    /// command line override it
    #[arg(long = "plan", value_name = "FILE", help_heading = "Plan")]
    pub(crate) plan_file: Option<PathBuf>,
    /// Run the levels upward and drop a mode after three in a row that miss the objectives
    ///
    /// Levels run one after the other, the remaining modes in parallel. Three and not one, because
    /// a higher level may meet the objectives where a lower one does not.
    #[arg(long, requires = "in_virtual_time", help_heading = "Plan")]
    pub(crate) search: bool,
    /// Print how far every cell differs from measurements: `published` (three H200 behind
    /// Dynamo 0.9, modes round-robin and kv-blocks, levels 60 to 180)
    #[arg(long, value_name = "MEASUREMENTS", help_heading = "Results")]
    pub(crate) compare: Option<String>,
    /// Number of threads; by default the number of cores
    #[arg(long, help_heading = "Results")]
    pub(crate) threads: Option<usize>,
    /// Folder for raw records and reports; an interrupted sweep of the same plan in it resumes
    #[arg(long, value_name = "DIR", required = true, help_heading = "Results")]
    pub(crate) output: Option<PathBuf>,
    /// Begin no run of a live sweep that would not end within this time; the same command resumes
    #[arg(
        long,
        value_name = "TIME",
        conflicts_with = "in_virtual_time",
        help_heading = "Plan"
    )]
    pub(crate) time_limit: Option<String>,
    /// After a live run, cancel the requests that are not measured instead of waiting for them. The
    /// server's own counters are then not compared
    #[arg(long, conflicts_with = "in_virtual_time", help_heading = "Plan")]
    pub(crate) no_drain: bool,
    /// Environment variable that holds the target's API key
    #[arg(long, value_name = "NAME", help_heading = "Testbed")]
    pub(crate) api_key_env: Option<String>,
    /// Environment variable that holds the control token of a Homing server beyond loopback
    #[arg(long, value_name = "NAME", help_heading = "Testbed")]
    pub(crate) control_token_env: Option<String>,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SweepCommand {
    /// Recompute the report of a sweep from the raw records in its folder
    Report {
        /// Folder of the sweep
        dir: PathBuf,
        /// As with a sweep
        #[arg(long, value_name = "MEASUREMENTS")]
        compare: Option<String>,
    },
}

/// The options of a plan that are given on the command line.
#[derive(Clone, Debug, Args)]
pub(crate) struct PlanArgs {
    /// Built-in plan: published (7 levels, 6 repeats, 60 s + 300 s), five-level (all levels
    /// with routing off, then on), quick (2 levels, about eleven minutes of real time)
    #[arg(long, value_name = "NAME", help_heading = "Plan")]
    preset: Option<String>,
    /// Compare four stages instead of modes: round robin, KV routing, KV routing with a draft
    /// model, KV routing with EAGLE-3
    ///
    /// On simulated workers unless there is a --target; there --set-mode-command deploys a stage by
    /// its name: round-robin, kv, kv+draft, kv+eagle3.
    #[arg(long, conflicts_with = "modes", help_heading = "Plan")]
    story: bool,
    /// Concurrent conversations: single levels and ranges, such as 60,80 or 60..180:20 (default:
    /// 60..180:20)
    #[arg(long, help_heading = "Plan")]
    levels: Option<String>,
    /// Router modes; the first is the one that the others are compared with (default:
    /// round-robin,kv-blocks,kv); kv-blocks@120+180 runs a mode at some levels only; with
    /// --set-mode-command any words
    #[arg(long, help_heading = "Plan")]
    modes: Option<String>,
    /// Runs per mode and level, each with its own seed and conversations; results are their
    /// medians (default: 6 with --virtual, else 1)
    ///
    /// Intervals and verdicts come from the differences between runs. With fewer than 6 runs there
    /// are none, and the report says so.
    #[arg(long, help_heading = "Plan")]
    repeats: Option<u32>,
    /// Time before anything is measured (default: 60s); on a running server until load is
    /// steady, if that takes longer
    #[arg(long, value_name = "TIME", help_heading = "Plan")]
    warmup: Option<String>,
    /// Time that is measured (default: 300s)
    #[arg(long, value_name = "TIME", help_heading = "Plan")]
    window: Option<String>,
    /// How much longer the warm-up of a live run may take until load is steady (default: 120s)
    #[arg(long, value_name = "TIME", help_heading = "Plan")]
    settle: Option<String>,
    /// Workload: the name of a built-in one or the path of a TOML file (default: specification)
    #[arg(long, help_heading = "Plan")]
    workload: Option<String>,
    /// Order of the runs: random, abba, or grouped with as few switches of the mode as possible
    /// (default: random)
    #[arg(long, help_heading = "Plan")]
    order: Option<String>,
    /// Random seed (default: 42)
    #[arg(long, help_heading = "Plan")]
    seed: Option<u64>,
    /// Latency objectives (default: ttft_p95=600ms,tpot_p95=60ms)
    ///
    /// The report gives, for each mode, the highest level at which all of them hold and no request
    /// failed. ttft, tpot, itl or e2e, with _p50, _p90, _p95 or _p99, in ms or s.
    #[arg(long, value_name = "OBJECTIVES", help_heading = "Plan")]
    slo: Option<String>,
    /// Simulated hardware and model: a built-in profile's name or the path of a TOML file. By
    /// default the one that the workload names, else h200-llama-70b-fp8-published, which is
    /// fitted to published measurements; h200-llama-70b-fp8 is built from measured floors alone
    #[arg(long, help_heading = "Testbed")]
    profile: Option<String>,
    /// Number of simulated workers; by default that of the workload, or else of the profile
    #[arg(long, help_heading = "Testbed")]
    workers: Option<u32>,
    /// Running server: http://host:port. A Homing server is switched and reset through its API
    #[arg(long, value_name = "URL", help_heading = "Testbed")]
    target: Option<String>,
    /// Model to request there; by default the first that it lists
    #[arg(long, help_heading = "Testbed")]
    model: Option<String>,
    /// Another OpenAI server in front of the same engines, measured like a mode under this name;
    /// caches are reset through the target. Separate several by commas
    #[arg(long, value_name = "NAME=URL", help_heading = "Testbed")]
    beside: Option<String>,
    /// Shell command that sets the mode on any other server; the mode replaces {mode} in it and is
    /// in the environment variable HOMING_MODE
    #[arg(long, value_name = "COMMAND", help_heading = "Testbed")]
    set_mode_command: Option<String>,
    /// Shell command that prints the current mode; without it cells are marked unconfirmed
    #[arg(long, value_name = "COMMAND", help_heading = "Testbed")]
    get_mode_command: Option<String>,
    /// Shell command that empties the caches before each run
    #[arg(long, value_name = "COMMAND", help_heading = "Testbed")]
    reset_command: Option<String>,
    /// Address that answers 200 when the server is ready; three times in a row is stable
    #[arg(long, value_name = "URL", help_heading = "Testbed")]
    ready_url: Option<String>,
}

impl PlanArgs {
    pub(crate) fn partial(&self) -> PartialPlan {
        let this = self.clone();
        PartialPlan {
            preset: this.preset,
            story: this.story,
            levels: this.levels,
            modes: this.modes,
            repeats: this.repeats,
            warmup: this.warmup,
            window: this.window,
            settle: this.settle,
            workload: this.workload,
            seed: this.seed,
            slo: this.slo,
            order: this.order,
            profile: this.profile,
            workers: this.workers,
            target: this.target,
            model: this.model,
            beside: this.beside,
            set_mode_command: this.set_mode_command,
            get_mode_command: this.get_mode_command,
            reset_command: this.reset_command,
            ready_url: this.ready_url,
        }
    }
}
