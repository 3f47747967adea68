//! Options of the web console, which several commands can serve.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use ::console::{Part, Slos};
use anyhow::bail;
use clap::Args;
use stats::Objectives;

#[derive(Clone, Debug, Args)]
pub(crate) struct ConsoleArgs {
    /// Heading of the console
    #[arg(
        long,
        default_value = "Serve More Users on the Same GPUs with KV-Aware Routing",
        help_heading = "Console"
    )]
    pub(crate) title: String,
    /// Line under the heading; by default the hardware and model
    #[arg(long, help_heading = "Console")]
    pub(crate) subtitle: Option<String>,
    /// Compare with this baseline: a file that `homing sweep` wrote, or `published`
    ///
    /// published is the sweep of three simulated H200 that is built in (docs/results/published).
    /// `demo` computes one at its start, unless this is given.
    #[arg(long, value_name = "FILE", help_heading = "Console")]
    pub(crate) baseline: Option<BaselineChoice>,
    /// Prometheus that answers the dashboards' queries and has the DCGM exporter's GPU metrics
    #[arg(long, value_name = "URL", help_heading = "Console")]
    pub(crate) prometheus_url: Option<String>,
    /// Grafana that the console refers to
    #[arg(long, value_name = "URL", help_heading = "Console")]
    pub(crate) grafana_url: Option<String>,
    /// A part of the deployment that the console's architecture page draws; may be given repeatedly
    ///
    /// What the process is not connected to itself: platform, gateway, nodes, storage, user-model,
    /// corpus, metrics, dashboards and others, such as gateway=Envoy or nodes=GPU pool,3 x H200.
    #[arg(
        long = "part",
        value_name = "KIND=NAME[,DETAIL]",
        help_heading = "Console"
    )]
    pub(crate) parts: Vec<Part>,
}

/// The latencies that the console judges by.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct SloArgs {
    /// Latency objectives; the console marks those that are missed
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
}

/// Where a baseline is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BaselineChoice {
    /// The one that is built in.
    Published,
    File(PathBuf),
}

impl FromStr for BaselineChoice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "published" => Self::Published,
            path => Self::File(path.into()),
        })
    }
}

/// Objectives that a console shows.
fn slos(text: &str) -> anyhow::Result<Slos> {
    let objectives: Objectives = text.parse()?;
    let mut slos = Slos::default();
    for (name, at_most_ms) in objectives.limits_ms() {
        match name.as_str() {
            "ttft_p95" => slos.ttft_p95_ms = at_most_ms,
            "tpot_p95" => slos.tpot_p95_ms = at_most_ms,
            _ => bail!("the console shows ttft_p95 and tpot_p95, not {name}"),
        }
    }
    Ok(slos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_of_the_console_are_two() {
        let slos_of = |text: &str| slos(text).map(|slos| (slos.ttft_p95_ms, slos.tpot_p95_ms));
        let both = slos_of("ttft_p95=600ms,tpot_p95=60ms");
        assert_eq!(both.unwrap(), (600.0, 60.0));
        assert_eq!(slos_of("tpot_p95=0.05s").unwrap(), (600.0, 50.0));
        for (text, part) in [
            ("e2e_p95=3s", "not e2e_p95"),
            ("ttft_p95=fast", "ttft_p95=600ms"),
            ("", "not an objective"),
        ] {
            let error = slos_of(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
