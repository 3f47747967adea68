//! What the web console shows, resolved.

use ::console::{GpuFeed, Part, Prometheus, Slos};
use anyhow::Context as _;
use http_client::{HttpClient, HttpOptions};
use lab::SweepPlan;
use loadgen::baseline::Baseline;

use crate::args::{BaselineChoice, ConsoleArgs};
use crate::baseline_file;
use crate::dashboards::lines::{Choice, Lines};
use crate::print;

/// What the console shows beside live figures.
pub(crate) struct ConsolePlan {
    pub(crate) title: String,
    /// By default what serves.
    pub(crate) subtitle: Option<String>,
    pub(crate) slos: Slos,
    pub(crate) baseline: BaselinePlan,
    /// Reference lines of the dashboards.
    pub(crate) lines: Option<Lines>,
    /// To be polled for the GPUs of workers.
    pub(crate) gpus: Option<GpuFeed>,
    /// Answers the dashboards' queries.
    pub(crate) prometheus: Option<Prometheus>,
    pub(crate) grafana_url: Option<String>,
    pub(crate) parts: Vec<Part>,
}

/// What live load is compared with.
pub(crate) enum BaselinePlan {
    None,
    Known(Baseline),
    /// Computed after the start.
    Computed(Box<SweepPlan>),
}

/// The published plan, six runs of each cell.
const PUBLISHED: &str = include_str!("../../../../docs/results/published/baseline.json");

/// The baseline that is built in.
pub(super) fn published_baseline() -> anyhow::Result<Baseline> {
    let baseline = Baseline::parse(PUBLISHED).context("the built-in baseline")?;
    Ok(Baseline {
        source: "docs/results/published (homing sweep --preset published --virtual)".to_owned(),
        ..baseline
    })
}

impl ConsoleArgs {
    /// With the baseline that is named, or else `baseline`.
    pub(crate) fn resolve(self, slos: Slos, baseline: BaselinePlan) -> anyhow::Result<ConsolePlan> {
        let url = self.prometheus_url.as_deref();
        let flag = "--prometheus-url";
        let gpus = url.map(GpuFeed::new).transpose().context(flag)?;
        let prometheus = url.map(|url| {
            let transport = HttpClient::network(HttpOptions::default());
            Prometheus::new(url, transport)
        });
        let baseline = match &self.baseline {
            Some(BaselineChoice::File(path)) => BaselinePlan::Known(baseline_file::read(path)?),
            Some(BaselineChoice::Published) => BaselinePlan::Known(published_baseline()?),
            None => baseline,
        };
        Ok(ConsolePlan {
            title: self.title,
            subtitle: self.subtitle,
            slos,
            lines: match &baseline {
                BaselinePlan::Known(baseline) => reference_lines(baseline),
                BaselinePlan::Computed(_) | BaselinePlan::None => None,
            },
            baseline,
            gpus,
            prometheus: prometheus.transpose().context(flag)?,
            grafana_url: self.grafana_url,
            parts: self.parts,
        })
    }
}

fn reference_lines(baseline: &Baseline) -> Option<Lines> {
    match Lines::choose(baseline, &Choice::default()) {
        Ok(lines) => Some(lines),
        Err(error) => {
            print::note(format_args!("no reference lines in Grafana: {error}"));
            None
        }
    }
}
