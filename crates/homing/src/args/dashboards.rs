//! Options of `dashboards`, given on the command line only: it writes files once.

use std::path::PathBuf;

use clap::Args;

pub(super) const EXAMPLES: &str = "\
Examples:
  homing dashboards                                  the dashboards as shipped, into ./grafana
  homing sweep --virtual --levels 60..180:20 --modes round-robin,kv --output out
  homing dashboards --baseline out/baseline.json --output /var/lib/grafana/dashboards
  homing dashboards --baseline out/baseline.json --level 120                      at one level only";

#[derive(Clone, Debug, Args)]
pub(crate) struct DashboardsArgs {
    /// Draw reference lines from this baseline, as `homing sweep` wrote it
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Output folder; created if it does not exist
    #[arg(long, value_name = "DIR", default_value = "grafana")]
    pub(crate) output: PathBuf,
    /// Load level of the lines; by default they follow the load, at the levels that the file has
    #[arg(long, value_name = "CONVERSATIONS", requires = "baseline")]
    pub(crate) level: Option<u32>,
    /// Mode without optimisation; by default round-robin
    #[arg(long, value_name = "MODE", requires = "baseline")]
    pub(crate) baseline_mode: Option<String>,
    /// Mode with one optimisation; by default kv, or else kv-blocks
    #[arg(long, value_name = "MODE", requires = "baseline")]
    pub(crate) single_mode: Option<String>,
    /// Mode with two optimisations; by default kv+draft, or else kv+eagle3
    #[arg(long, value_name = "MODE", requires = "baseline")]
    pub(crate) double_mode: Option<String>,
}
