//! Options of what the demo starts beside itself to be watched with.

use std::path::PathBuf;

use clap::Args;

#[derive(Clone, Debug, Args)]
pub(crate) struct ObservabilityArgs {
    /// Start Prometheus, and Grafana where it is installed, beside the demo
    ///
    /// Both listen on 127.0.0.1, are configured for this demo and its dashboards, and stop with it.
    /// If one is not installed, the demo says what to install and continues without it.
    #[arg(long, help_heading = "Observability")]
    pub(crate) observability: bool,
    /// Keep their files and data in this folder; by default in a temporary one
    #[arg(long, value_name = "DIR", help_heading = "Observability")]
    pub(crate) observability_dir: Option<PathBuf>,
    /// Port of that Prometheus; 0 picks a free one
    #[arg(long, default_value_t = 9090, help_heading = "Observability")]
    pub(crate) prometheus_port: u16,
    /// Port of that Grafana; 0 picks a free one
    #[arg(long, default_value_t = 3001, help_heading = "Observability")]
    pub(crate) grafana_port: u16,
}
