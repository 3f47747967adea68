//! A sweep as a baseline: the form in which a console draws it beside live figures.

use std::collections::BTreeSet;

use contract::random::mix;
use loadgen::baseline::{Baseline, BaselineCell, BaselineFigures, BaselineLevel, SCHEMA};

use crate::figures::{Figures, figure};
use crate::summary::{About, CellSummary, VIRTUAL};

/// Separates these hashes from others.
const RUN: u64 = 0xba5e;

/// Puts the cells of a sweep in order of level. `source` says for people how it came about.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use engine::sim::Profile;

    use super::*;
    use crate::grid::{NEVER, SweepPlan};
    use crate::{Pace, Workload, sweep};

    fn plan() -> SweepPlan {
        SweepPlan {
            workload: Workload::named("specification").unwrap(),
            profile: Profile::named(engine::sim::DEFAULT_PROFILE).unwrap(),
            workers: 3,
            modes: vec!["round-robin".parse().unwrap(), "kv".parse().unwrap()],
            levels: vec![4, 8],
            repeats: 1,
            seed: 7,
            warmup: Duration::from_secs(20),
            window: Duration::from_secs(60),
        }
    }

    fn cells(plan: &SweepPlan) -> Vec<CellSummary> {
        let pace = Pace {
            threads: 2,
            progress: &|_| {},
            stop: &NEVER,
        };
        let cells = sweep(plan, &pace).into_iter();
        cells.map(|cell| cell.summary).collect()
    }

    #[test]
    fn a_sweep_becomes_levels_with_a_cell_for_each_mode() {
        let plan = plan();
        let cells = cells(&plan);
        let made = baseline(&plan.about(), &cells, "a test", 5);
        let told: Vec<_> = made
            .levels
            .iter()
            .flat_map(|level| {
                level
                    .cells
                    .iter()
                    .map(|cell| (level.concurrency, &*cell.mode))
            })
            .collect();
        let [rr, kv] = ["round-robin", "kv"];
        assert_eq!(told, [(4, rr), (4, kv), (8, rr), (8, kv)]);
        for level in &made.levels {
            for cell in &level.cells {
                let samples: u64 = cell.turns.iter().map(|turn| turn.samples).sum();
                assert_eq!(samples, cell.requests - cell.errors);
                let numbers: Vec<u32> = cell.turns.iter().map(|turn| turn.turn).collect();
                assert_eq!(numbers, [1, 2, 3, 4, 5]);
            }
            // What the page is to show: later turns come home.
            let cached = |cell: &BaselineCell, turn: usize| cell.turns[turn].cached_pct.unwrap();
            let [round_robin, kv] = [&level.cells[0], &level.cells[1]];
            let [kv, round_robin] = [cached(kv, 2), cached(round_robin, 2)];
            assert!(kv > 80.0 && kv > round_robin, "{kv} {round_robin}");
        }
        let text = serde_json::to_string(&made).unwrap();
        assert_eq!(Baseline::parse(&text).unwrap(), made);
        // As earlier versions wrote it.
        let earlier = text.replace(",\"verdicts\":{}", "");
        assert!(!earlier.contains("verdicts"), "{earlier}");
        assert_eq!(Baseline::parse(&earlier).unwrap(), made);
    }

    #[test]
    fn a_run_is_named_by_its_plan_and_figures() {
        let plan = plan();
        let cells = cells(&plan);
        let id = |plan: &SweepPlan, cells: &[CellSummary], at: u64| {
            baseline(&plan.about(), cells, &at.to_string(), at).run_id
        };
        assert_eq!(id(&plan, &cells, 1), id(&plan, &cells, 2));
        assert!(id(&plan, &cells, 1).starts_with("virtual-"));
        let other = SweepPlan {
            seed: 8,
            ..plan.clone()
        };
        assert_ne!(id(&plan, &cells, 1), id(&other, &cells, 1));
        assert_ne!(id(&plan, &cells, 1), id(&plan, &cells[..2], 1));
    }
}
