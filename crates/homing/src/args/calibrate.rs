//! Options of `homing calibrate`.

use std::path::PathBuf;

use clap::Args;

use super::shared::{LlamaArgs, ModelArgs};

/// Options of `calibrate`: what is measured, and where the result is written.
#[derive(Clone, Debug, Args)]
pub(crate) struct CalibrateArgs {
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
    pub(crate) llama: LlamaArgs,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  homing calibrate --model smollm2 --workers 3 --output cpu.toml
  homing sweep --virtual --profile cpu.toml --workload small-model --levels 6 --output out
  homing demo --profile cpu.toml";
