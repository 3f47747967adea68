//! Every contestant through the laboratory, on a small load.

use std::time::Duration;

use contract::random::mix;
use lab::{Measured, NEVER, Pace, Setting, SweepPlan, Workload, sweep};
use rivals::{everyone, table};
use stats::Summary;

const SMALL: &str = r#"
about = "small"
[conversations]
turns = [2, 3]
starters = { pool = 4 }
starter_tokens = [600, 800]
follow_up_tokens = [5, 20]
max_tokens = 60
"#;

fn run(level: u32) -> (SweepPlan, Vec<Measured>) {
    let setting = Setting::find("specification", None, None).expect("it is shipped");
    let plan = SweepPlan {
        workload: Workload::parse("small", SMALL).expect("it is valid"),
        profile: setting.profile,
        workers: 3,
        modes: everyone(),
        levels: vec![level],
        repeats: 1,
        seed: mix(1, 2, 3),
        warmup: Duration::from_secs(2),
        window: Duration::from_secs(6),
    };
    let pace = Pace {
        threads: 2,
        progress: &|_| {},
        stop: &NEVER,
    };
    let cells = sweep(&plan, &pace);
    (plan, cells)
}

#[test]
fn everyone_answers_everything_and_gives_the_same_figures_twice() {
    let (plan, cells) = run(12);
    assert!(cells == run(12).1, "another run gave other figures");
    let names: Vec<_> = cells
        .iter()
        .map(|cell| cell.summary.mode.as_str())
        .collect();
    let planned: Vec<_> = plan.modes.iter().map(|mode| mode.name()).collect();
    assert_eq!(names, planned);
    for Measured { summary, .. } in &cells {
        assert_eq!(summary.errors, 0, "{}", summary.mode);
        assert!(summary.requests > 20, "{}", summary.mode);
    }
}

#[test]
fn nobody_is_somebody_else_under_another_name() {
    // Four beginnings on three workers and more requests than slots: affinity and load are
    // at odds.
    let (_, cells) = run(300);
    for (index, one) in cells.iter().enumerate() {
        for other in &cells[..index] {
            let (mode, name) = (&one.summary.mode, &other.summary.mode);
            let renamed = Measured {
                summary: stats::CellSummary {
                    mode: mode.clone(),
                    ..other.summary.clone()
                },
                ..other.clone()
            };
            assert!(*one != renamed, "{mode} and {name}");
        }
    }
    let past = |name| {
        let cell = cells.iter().find(|cell| cell.summary.mode == name);
        cell.and_then(|cell| cell.summary.dispatched_past_slots)
    };
    assert_eq!(past("kv"), Some(0));
    assert!(
        past("llm-d") > Some(0),
        "it sticks, however full its worker is"
    );
}

#[test]
fn the_table_has_a_row_for_each_contestant() {
    let (plan, cells) = run(3);
    let cells = cells.into_iter().map(|cell| cell.summary).collect();
    let summary = Summary::of_cells(plan.about(), cells);
    let table = table::markdown(&summary);
    assert!(table.starts_with("## small\n\nSimulated: 3 workers, "));
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), 2 + plan.modes.len());
    for (row, mode) in rows[2..].iter().zip(&plan.modes) {
        assert_eq!(
            (row.len(), row[1], row[2]),
            (rows[0].len(), "3", mode.name())
        );
        assert!(row[3].parse::<f64>().is_ok_and(|p50| p50 > 0.0), "{row:?}");
    }
}
