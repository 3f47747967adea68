//! What a console draws beside live figures, from a sweep in virtual time.

use std::time::Duration;

use engine::sim::Profile;
use lab::{NEVER, Pace, SweepPlan, Workload, sweep};
use loadgen::baseline::{Baseline, BaselineCell};
use stats::{CellSummary, baseline};

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
