//! One mode at one concurrency: the figures of its runs, and how certain they are.

use std::collections::BTreeMap;

use loadgen::by_mode::TurnNumberFigures;
use serde::Serialize;

use crate::figures::Figures;
use crate::intervals::{Intervals, Verdict};
use crate::traffic::{Spread, Traffic};

/// The testbed's name where there is no server.
pub const VIRTUAL: &str = "virtual";

/// How a sweep came about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct About {
    /// Whether the servers are simulated. Says nothing about the clock: a simulated server may
    /// be asked in real time.
    pub simulated: bool,
    /// `virtual`, or the server's address.
    pub testbed: String,
    /// The workload's or the trace's name.
    pub workload: String,
    /// The simulated hardware and model, or the model that was asked for.
    pub profile: String,
    pub workers: Option<u32>,
    pub seed: u64,
    pub repeats: u32,
    pub warmup_s: f64,
    pub window_s: f64,
    pub order: String,
    /// What to type to get it again.
    pub command: String,
}

/// One mode at one level: the medians of its runs' figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CellSummary {
    /// The contestant's name.
    pub mode: String,
    /// Conversations at once; `null` for a replay, where the trace decides.
    pub concurrency: Option<u32>,
    pub runs: u32,
    /// Sent within the window.
    pub requests: u64,
    /// Of those, failed or unfinished.
    pub errors: u64,
    pub ttft_ms: Figures,
    pub tpot_ms: Figures,
    pub itl_ms: Figures,
    pub e2e_s: Figures,
    /// With failed requests as infinitely slow.
    pub adjusted_ttft_ms: Figures,
    pub adjusted_e2e_s: Figures,
    /// Output tokens per second.
    pub tops: f64,
    /// Completed requests per second.
    pub rps: f64,
    /// Requests a second that meet the objectives by themselves, and in hundredths of all.
    pub goodput_rps: Option<f64>,
    pub goodput_pct: Option<f64>,
    /// By the answers' usage.
    pub kv_hit_pct: Option<f64>,
    /// The same over whole runs, warm-up included, and what the server counted meanwhile: two
    /// ways to count one thing.
    pub run_hit_pct: Option<f64>,
    pub server_hit_pct: Option<f64>,
    /// Also in `traffic`; here for readers of earlier versions.
    pub inflight_spread: Spread,
    pub traffic: Traffic,
    /// Sequences that one worker runs at once.
    pub slots: Option<u32>,
    /// Requests placed on a full worker while another had room; only simulations know.
    pub dispatched_past_slots: Option<u64>,
    /// How late the load generator was, 95th percentile.
    pub lag_ms_p95: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speculation: Option<SpeculationSummary>,
    /// By turn number; a trace has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<TurnNumberFigures>,
    /// 95 % intervals by the figure's name, such as `ttft_ms_p95`; none if there are not enough
    /// runs.
    #[serde(skip_serializing_if = "Intervals::is_empty")]
    pub intervals: Intervals,
    /// Against the first mode at this level, by the figure's name; none if there are not enough
    /// runs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub verdicts: BTreeMap<String, Verdict>,
    /// From the first window's begin to the last one's end, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_ms: Option<(u64, u64)>,
    /// What makes the cell doubtful.
    pub guards: Vec<Guard>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpeculationSummary {
    /// Accepted in a hundred drafted tokens.
    pub acceptance_pct: Option<f64>,
    /// Tokens that a sequence gains in a step that carries a draft: the accepted and one more.
    pub tokens_per_step: Option<f64>,
}

/// One doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Guard {
    pub kind: GuardKind,
    /// An explanation, to be displayed.
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardKind {
    Errors,
    ClientLag,
    ModeUnconfirmed,
    OtherMode,
    FewSamples,
    NotSteady,
    HitRatesDisagree,
}

impl GuardKind {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Errors => "errors",
            Self::ClientLag => "client-lag",
            Self::ModeUnconfirmed => "mode-unconfirmed",
            Self::OtherMode => "other-mode",
            Self::FewSamples => "few-samples",
            Self::NotSteady => "not-steady",
            Self::HitRatesDisagree => "hit-rates-disagree",
        }
    }
}

impl AsRef<Self> for CellSummary {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl CellSummary {
    /// In the same units.
    pub fn value(&self, figure: &str) -> Option<f64> {
        // Rates first: `kv_hit_pct` is no percentile, though it looks like one.
        match figure {
            "tops" => return Some(self.tops),
            "rps" => return Some(self.rps),
            "kv_hit_pct" => return self.kv_hit_pct,
            _ => {}
        }
        let (family, share) = figure.rsplit_once("_p")?;
        let figures = match family {
            "ttft_ms" => &self.ttft_ms,
            "tpot_ms" => &self.tpot_ms,
            "itl_ms" => &self.itl_ms,
            "e2e_s" => &self.e2e_s,
            _ => return None,
        };
        match share {
            "50" => figures.p50,
            "90" => figures.p90,
            "95" => figures.p95,
            "99" => figures.p99,
            _ => None,
        }
    }
}
