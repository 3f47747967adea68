//! The runs of one mode at one concurrency become its summary.

use std::collections::BTreeMap;

use crate::cell_summary::{CellSummary, SpeculationSummary};
use crate::figures::{Figures, Pool, RunFigures, figure, percent, usage};
use crate::guards::guards;
use crate::intervals::{intervals, row};
use crate::raw::{RawCell, Speculation};
use crate::slo::Objectives;
use crate::traffic::Traffic;

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
