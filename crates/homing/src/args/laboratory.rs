//! Options of `replay` and `learning`. They describe one experiment and are given on the command
//! line only: an experiment that depends on the environment cannot be repeated.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lab::notation::{duration, speed};
use router::Mode;

pub(super) const REPLAY_EXAMPLES: &str = "\
Examples:
  homing replay --virtual --trace mooncake-conversation.jsonl --format mooncake --workers 8 --output out
  homing replay --virtual --trace dataset.jsonl --format aiperf --workers 8 --output out
  homing replay --virtual --trace request-trace.000000.jsonl.gz --format dynamo --workers 8 --output out
  homing replay --target http://127.0.0.1:8000 --trace requests.jsonl --format dynamo --output out
  homing replay --target http://127.0.0.1:8000 --trace requests.jsonl --format dynamo \\
    --modes round-robin,kv --speed 2 --requests 500 --output out";

pub(super) const LEARNING_EXAMPLES: &str = "\
Examples:
  homing learning --virtual
  homing learning --virtual --workload unique-starters --level 100 --repeats 5";

#[derive(Clone, Debug, Args)]
pub(crate) struct LearningArgs {
    /// Run in virtual time, on simulated workers
    #[arg(long = "virtual")]
    pub(crate) in_virtual_time: bool,
    /// Workload: the name of a built-in one or the path of a TOML file
    #[arg(long, default_value = "specification")]
    pub(crate) workload: String,
    /// Concurrent conversations
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) level: u32,
    /// Runs with different conversations; their samples are pooled
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeats: u32,
    /// Simulated time of one window
    #[arg(long, default_value = "20s", value_parser = duration)]
    pub(crate) window: Duration,
    /// Number of windows
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(4..=100))]
    pub(crate) windows: u32,
    /// Number of workers; by default that of the workload, or else of the profile
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: Option<u32>,
    /// Simulated hardware and model: a built-in profile's name or the path of a TOML file
    #[arg(long)]
    pub(crate) profile: Option<String>,
    /// Random seed
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Run in virtual time, on simulated workers
    #[arg(long = "virtual", conflicts_with = "target")]
    pub(crate) in_virtual_time: bool,
    /// Send the trace to this running server, in real time
    ///
    /// Prompts go to /v1/completions in tokens, so that their lengths and what they have in common are
    /// exactly those of the trace. Turns of a session wait for the answers before them.
    #[arg(long, value_name = "URL")]
    pub(crate) target: Option<String>,
    /// The model to ask for; by default the first that the target lists
    #[arg(long, requires = "target")]
    pub(crate) model: Option<String>,
    /// Environment variable that holds the target's API key
    #[arg(long, value_name = "NAME", requires = "target")]
    pub(crate) api_key_env: Option<String>,
    /// Environment variable that holds the control token of a Homing server beyond loopback
    #[arg(long, value_name = "NAME", requires = "target")]
    pub(crate) control_token_env: Option<String>,
    /// Prompts are made of token ids from 1,000 up to this one: no more than the model has
    #[arg(
        long,
        value_name = "TOKENS",
        default_value_t = 30_000,
        requires = "target"
    )]
    pub(crate) vocabulary: u32,
    /// Send no field beyond OpenAI's own. Answers then end where the model ends them
    #[arg(long, requires = "target")]
    pub(crate) plain: bool,
    /// Replay only the first so many requests
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) requests: Option<u32>,
    /// File with the recorded requests, compressed with gzip or not
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: PathBuf,
    /// Format of the trace
    #[arg(long, value_enum, default_value_t = TraceFormat::Mooncake)]
    pub(crate) format: TraceFormat,
    /// Speed-up over the recorded timing
    #[arg(long, default_value = "1.0", value_parser = speed)]
    pub(crate) speed: f64,
    /// How many simulated workers
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: u32,
    /// Router modes to compare. In virtual time by default round-robin,kv-blocks,kv; a target, which
    /// has to be a Homing server, is replayed to once as it is unless modes are named, and its router is
    /// switched and its caches are emptied for each of them
    #[arg(long, value_delimiter = ',')]
    pub(crate) modes: Vec<Mode>,
    /// Simulated hardware and model: a built-in profile's name or the path of a TOML file. By
    /// default the one that the workload names, else h200-llama-70b-fp8-published, which is
    /// fitted to published measurements; h200-llama-70b-fp8 is built from measured floors alone
    #[arg(long)]
    pub(crate) profile: Option<String>,
    /// Random seed
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
    /// Number of threads; by default the number of cores
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// Folder for summary.json and cells.csv
    #[arg(long, value_name = "DIR")]
    pub(crate) output: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceFormat {
    /// JSON lines with timestamp, input_length, output_length and hash_ids: whole prompts
    Mooncake,
    /// The same, where a row of a session has what its turn adds (`aiperf synthesize agentic-code`)
    Aiperf,
    /// Dynamo's request traces (dynamo.request.trace.v1)
    Dynamo,
}

impl From<TraceFormat> for lab::TraceFormat {
    fn from(format: TraceFormat) -> Self {
        match format {
            TraceFormat::Mooncake => Self::Mooncake,
            TraceFormat::Aiperf => Self::Aiperf,
            TraceFormat::Dynamo => Self::Dynamo,
        }
    }
}
