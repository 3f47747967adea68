//! A sweep as a baseline: the form in which a console draws it beside live figures.

use std::collections::BTreeSet;

use contract::random::mix;
use loadgen::baseline::{Baseline, BaselineCell, BaselineFigures, BaselineLevel, SCHEMA};

use crate::cell_summary::{About, CellSummary, VIRTUAL};
use crate::figures::{Figures, figure};

/// Separates these hashes from others.
const RUN: u64 = 0xba5e;

/// Puts the cells of a sweep in order of level. `source` describes how it was computed.
pub fn baseline(about: &About, cells: &[CellSummary], source: &str, created_ms: u64) -> Baseline {
    let levels: BTreeSet<u32> = cells.iter().filter_map(|cell| cell.concurrency).collect();
    let levels = levels.into_iter().map(|concurrency| BaselineLevel {
        concurrency,
        cells: cells
            .iter()
            .filter(|cell| cell.concurrency == Some(concurrency))
            .map(baseline_cell)
            .collect(),
    });
    let mut baseline = Baseline {
        schema: SCHEMA,
        run_id: String::new(),
        created_ms: 0,
        source: String::new(),
        simulated: about.simulated,
        profile: about.profile.clone(),
        workload: about.workload.clone(),
        workers: about.workers.unwrap_or(0),
        seed: about.seed,
        repeats: about.repeats,
        warmup_s: about.warmup_s,
        window_s: about.window_s,
        levels: levels.collect(),
    };
    let clock = match about.testbed.as_str() {
        VIRTUAL => VIRTUAL,
        _ => "live",
    };
    // Before what differs between equal runs is filled in.
    baseline.run_id = format!("{clock}-{:08x}", hash(&baseline) >> 32);
    baseline.created_ms = created_ms;
    source.clone_into(&mut baseline.source);
    baseline
}

fn hash(baseline: &Baseline) -> u64 {
    let text = serde_json::to_vec(baseline).unwrap_or_default();
    text.iter()
        .fold(RUN, |hash, &byte| mix(hash, u64::from(byte), 0))
}

fn baseline_cell(cell: &CellSummary) -> BaselineCell {
    BaselineCell {
        mode: cell.mode.clone(),
        requests: cell.requests,
        errors: cell.errors,
        ttft_ms: figures(cell.ttft_ms, 1.0),
        tpot_ms: figures(cell.tpot_ms, 1.0),
        itl_ms: figures(cell.itl_ms, 1.0),
        e2e_ms: figures(cell.e2e_s, 1e3),
        rps: cell.rps,
        tops: cell.tops,
        kv_hit_pct: cell.kv_hit_pct,
        turns: cell.turns.clone(),
        verdicts: cell
            .verdicts
            .iter()
            .map(|(figure, verdict)| (figure.clone(), verdict.word().to_owned()))
            .collect(),
    }
}

fn figures(figures: Figures, factor: f64) -> BaselineFigures {
    let scaled = |value: Option<f64>| value.and_then(|value| figure(value * factor));
    BaselineFigures {
        p50: scaled(figures.p50),
        p95: scaled(figures.p95),
        p99: scaled(figures.p99),
    }
}
