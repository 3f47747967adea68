//! Options of `homing calibrate`.

use std::path::PathBuf;

use adapters::EngineSpec;
use clap::Args;

use super::shared::{EngineArgs, ModelArgs};

/// Options of `calibrate`: what is measured, and where the result is written.
#[derive(Clone, Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// A running server to measure through its API, instead of a model on this machine
    ///
    /// KIND=URL[,OPTION=VALUE], as `homing frontend` takes it. Give it for each server of a machine or
    /// card that they share: they are measured one by one and all at once. The servers should have
    /// nothing else to do.
    #[arg(long = "upstream", value_name = "KIND=URL[,OPTION=VALUE]", requires = "model_path", conflicts_with_all = ["workers", "model", "engine"], help_heading = "Servers")]
    pub(crate) upstreams: Vec<EngineSpec>,
    /// Most tokens per step of a server (vLLM: --max-num-batched-tokens); by default what it reports, or 8192
    #[arg(long, value_name = "TOKENS", requires = "upstreams", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Servers")]
    pub(crate) server_step_tokens: Option<u32>,
    /// Context of a server that does not state its own
    #[arg(long, value_name = "TOKENS", requires = "upstreams", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Servers")]
    pub(crate) server_context: u32,
    /// Tokens per block of the profile
    #[arg(long, value_name = "TOKENS", requires = "upstreams", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Servers")]
    pub(crate) kv_cache_block_size: u32,
    /// Environment variable with the API key that the servers ask for
    #[arg(
        long,
        value_name = "NAME",
        requires = "upstreams",
        help_heading = "Servers"
    )]
    pub(crate) upstream_api_key_env: Option<String>,
    /// Workers that compute at the same time, as they will when they share this machine
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "Measurement")]
    pub(crate) workers: u32,
    /// Rounds over all kinds of steps on each worker; the median counts
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Measurement")]
    pub(crate) repeats: u32,
    /// File for the profile
    #[arg(long, value_name = "FILE", help_heading = "Measurement")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  homing calibrate --model smollm2 --workers 3 --output cpu.toml
  homing sweep --virtual --profile cpu.toml --workload small-model --levels 6 --output out
  homing demo --profile cpu.toml
  homing calibrate --upstream vllm=http://10.0.0.1:8000,slots=256 --model-path DIR --repeats 3 --output vllm.toml";
