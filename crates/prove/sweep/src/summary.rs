//! What a sweep comes to: the figures of every cell, how sure they are, and what follows.
//!
//! Computed from raw cells and nothing else, so whoever has those gets the same summary, byte
//! for byte. `summary.json` is an interface: fields are added, never renamed. A figure that
//! does not exist (the percentile of no sample) is `null`, never 0.

use std::collections::{BTreeMap, BTreeSet};

use loadgen::by_mode::TurnNumberFigures;
use serde::Serialize;

use crate::baseline::baseline;
use crate::compare::Comparison;
use crate::figures::{Figures, Pool, RunFigures, figure, percent, usage};
use crate::grid::ReplayPlan;
use crate::guards::{Guard, guards};
use crate::headline::Headline;
use crate::intervals::{Difference, Intervals, Level, NEEDED_RUNS, Verdict, intervals, row};
use crate::raw::{RawCell, Speculation};
use crate::slo::Objectives;
use crate::traffic::{Spread, Timeline, Traffic};

/// The version of `summary.json`.
pub const SCHEMA: u32 = 1;

/// The testbed's name where there is no server.
pub const VIRTUAL: &str = "virtual";

/// A whole sweep or replay.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub schema: u32,
    /// Equal for equal plans and figures.
    pub run_id: String,
    #[serde(flatten)]
    pub about: About,
    /// Modes in the order of the plan; the first is what others are compared with.
    pub modes: Vec<String>,
    /// Ascending; empty for a replay.
    pub levels: Vec<u32>,
    /// Runs that are done, and those that were planned.
    pub done: usize,
    pub planned: usize,
    /// By level, and at each level in the order of the modes.
    pub cells: Vec<CellSummary>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// In the file: `slo` and `crossovers`.
    #[serde(flatten)]
    pub headline: Option<Headline>,
    /// Beside published measurements, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
}

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
    /// Output tokens a second.
    pub tops: f64,
    /// Completed requests a second.
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

impl Summary {
    /// Of experiments that compare contestants without pairing them.
    pub fn of_cells(about: About, cells: Vec<CellSummary>) -> Self {
        let mut modes: Vec<String> = Vec::new();
        for cell in &cells {
            if !modes.contains(&cell.mode) {
                modes.push(cell.mode.clone());
            }
        }
        let levels: BTreeSet<u32> = cells.iter().filter_map(|cell| cell.concurrency).collect();
        let runs: u32 = cells.iter().map(|cell| cell.runs).sum();
        Self {
            schema: SCHEMA,
            run_id: baseline(&about, &cells, "", 0).run_id,
            about,
            modes,
            levels: levels.into_iter().collect(),
            done: runs as usize,
            planned: runs as usize,
            cells,
            differences: Vec::new(),
            headline: None,
            comparison: None,
        }
    }

    /// Of a trace's replay.
    pub fn of_replay(plan: &ReplayPlan, trace: &str, cells: Vec<CellSummary>) -> Self {
        let about = About {
            simulated: true,
            testbed: VIRTUAL.to_owned(),
            workload: trace.to_owned(),
            profile: plan.profile.name.clone(),
            workers: Some(plan.workers),
            seed: plan.seed,
            repeats: 1,
            warmup_s: 0.0,
            window_s: 0.0,
            order: String::new(),
            command: String::new(),
        };
        Self::of_cells(about, cells)
    }
}

impl Summary {
    /// Whether any mode was compared with the first and told better, worse or neither.
    pub(crate) fn has_verdicts(&self) -> bool {
        let mut all = self.differences.iter();
        all.any(|one| one.verdict != Verdict::NotEnoughRuns)
    }

    /// What intervals and verdicts of it are worth, in a sentence or two.
    pub fn certainty(&self) -> String {
        let of_levels = || self.cells.iter().filter(|cell| cell.concurrency.is_some());
        let few = of_levels().filter(|cell| (cell.runs as usize) < NEEDED_RUNS);
        let (few, all) = (few.count(), of_levels().count());
        let mut text = String::new();
        if few > 0 {
            let fewest = of_levels().map(|cell| cell.runs).min().unwrap_or(0);
            let which = match few == all {
                true => String::new(),
                false => format!(" in {few} of {all} cells"),
            };
            text += &format!(
                "Not enough runs{which} to say what is chance: {fewest} where {NEEDED_RUNS} are \
                 needed (--repeats {NEEDED_RUNS}). There is no interval and no verdict."
            );
        }
        if self.has_verdicts() {
            let judged = self.differences.iter().filter(|one| one.p.is_some());
            let told = judged
                .clone()
                .filter(|one| one.verdict != Verdict::NotSignificant);
            let space = if text.is_empty() { "" } else { " " };
            text += &format!(
                "{space}Of {} differences {} are significant, judged together (Holm, 5 %).",
                judged.count(),
                told.count(),
            );
        }
        text
    }
}

/// A summary with what only charts need.
#[derive(Clone, Debug)]
pub struct ReportData {
    pub summary: Summary,
    /// Of the first run of each mode at the highest level.
    pub timelines: Vec<(String, Timeline)>,
}

impl AsRef<Self> for CellSummary {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl CellSummary {
    pub fn new(
        mode: &str,
        concurrency: Option<u32>,
        pool: Pool<'_>,
        objectives: Option<&Objectives>,
    ) -> Self {
        let requests = pool.measured().count() as u64;
        let failed = pool.measured().filter(|(_, record)| record.error.is_some());
        let of_runs: Vec<RunFigures> = pool.runs.iter().map(RunFigures::of).collect();
        let figures = RunFigures::middle(&of_runs);
        let good = objectives.map(|objectives| {
            let requests = pool.measured();
            requests
                .filter(|(_, record)| objectives.met_by(record))
                .count() as f64
        });
        let lags = pool.measured().map(|(_, record)| record.dispatch_lag_ms);
        let traffic = Traffic::of(pool);
        let runs = pool.runs;
        let virtual_runs = runs.iter().filter_map(|run| run.facts.virtual_run);
        let past_slots = virtual_runs.map(|run| run.dispatched_past_slots);
        let mut cell = Self {
            mode: mode.to_owned(),
            concurrency,
            runs: runs.len() as u32,
            requests,
            errors: failed.count() as u64,
            ttft_ms: figures.ttft_ms,
            tpot_ms: figures.tpot_ms,
            itl_ms: figures.itl_ms,
            e2e_s: figures.e2e_s,
            adjusted_ttft_ms: figures.adjusted_ttft_ms,
            adjusted_e2e_s: figures.adjusted_e2e_s,
            tops: figures.tops.unwrap_or(0.0),
            rps: figures.rps.unwrap_or(0.0),
            goodput_rps: good.and_then(|good| figure(good / pool.seconds())),
            goodput_pct: good.and_then(|good| percent(good, requests as f64)),
            kv_hit_pct: figures.kv_hit_pct,
            run_hit_pct: run_hits(runs),
            server_hit_pct: server_hits(runs),
            inflight_spread: traffic.inflight_spread,
            traffic,
            slots: runs.first().and_then(|run| run.facts.slots),
            dispatched_past_slots: past_slots.reduce(|sum, more| sum + more),
            lag_ms_p95: Figures::of(lags.collect()).p95,
            speculation: speculation(runs),
            turns: match concurrency {
                Some(_) => pool.turns(),
                None => Vec::new(),
            },
            intervals: intervals(&of_runs.iter().map(row).collect::<Vec<_>>()),
            verdicts: BTreeMap::new(),
            measured_ms: measured_ms(runs),
            guards: Vec::new(),
        };
        cell.guards = guards(&cell, runs);
        cell
    }

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

/// All modes at one level: their cells with intervals, and each against the first, not judged
/// yet.
pub(crate) fn level(
    concurrency: u32,
    modes: &[(&str, &[RawCell])],
    objectives: &Objectives,
) -> (Vec<CellSummary>, Vec<Difference>) {
    let pools: Vec<Pool<'_>> = modes.iter().map(|&(_, runs)| Pool { runs }).collect();
    let cells = modes.iter().zip(&pools).map(|(&(mode, _), &pool)| {
        CellSummary::new(mode, Some(concurrency), pool, Some(objectives))
    });
    let names: Vec<&str> = modes.iter().map(|&(mode, _)| mode).collect();
    let differences = Level::new(&pools).against_first(concurrency, &names);
    (cells.collect(), differences)
}

fn measured_ms(runs: &[RawCell]) -> Option<(u64, u64)> {
    let windows = runs.iter().filter_map(|run| {
        let from = run.facts.measured_from_ms?;
        let window = run.window();
        Some((from, from + ((window.end - window.start) * 1e3) as u64))
    });
    windows.reduce(|(from, to), (begin, end)| (from.min(begin), to.max(end)))
}

fn run_hits(runs: &[RawCell]) -> Option<f64> {
    let records = runs.iter().flat_map(|run| &run.records);
    let (prompt, cached) = usage(records);
    percent(cached, prompt)
}

fn server_hits(runs: &[RawCell]) -> Option<f64> {
    let (mut prompt, mut cached) = (0, 0);
    for run in runs {
        let counted = run.facts.server?;
        prompt += counted.prompt_tokens;
        cached += counted.cached_tokens;
    }
    percent(cached as f64, prompt as f64)
}

fn speculation(runs: &[RawCell]) -> Option<SpeculationSummary> {
    let counted = runs.iter().filter_map(|run| run.facts.speculation);
    let total = counted.reduce(|sum, more| Speculation {
        drafts: sum.drafts + more.drafts,
        drafted_tokens: sum.drafted_tokens + more.drafted_tokens,
        accepted_tokens: sum.accepted_tokens + more.accepted_tokens,
    })?;
    let accepted = total.accepted_tokens as f64;
    Some(SpeculationSummary {
        acceptance_pct: percent(accepted, total.drafted_tokens as f64),
        tokens_per_step: figure(1.0 + accepted / total.drafts as f64),
    })
}
