//! The same figures twice, however many threads compute them.

use super::*;

fn plan() -> SweepPlan {
    let text = r#"
about = "small"
[conversations]
turns = [2, 3]
starters = { pool = 3 }
starter_tokens = [600, 800]
follow_up_tokens = [5, 20]
max_tokens = 60
think_time_s = [0.0, 0.5]
starts_per_second = 20
"#;
    SweepPlan {
        workload: Workload::parse("small", text).unwrap(),
        profile: Profile::named(engine::sim::DEFAULT_PROFILE).unwrap(),
        workers: 3,
        modes: vec!["round-robin".parse().unwrap(), "kv".parse().unwrap()],
        levels: vec![6, 12],
        repeats: 2,
        seed: 7,
        warmup: Duration::from_secs(3),
        window: Duration::from_secs(10),
    }
}

fn run(plan: &SweepPlan, threads: usize) -> Vec<Measured> {
    let pace = Pace {
        threads,
        progress: &|_| {},
        stop: &NEVER,
    };
    sweep(plan, &pace)
}

#[test]
fn the_same_seed_gives_the_same_figures_on_any_number_of_threads() {
    let one = run(&plan(), 1);
    assert_eq!(one, run(&plan(), 1));
    assert_eq!(one, run(&plan(), 2));
    let other = SweepPlan { seed: 8, ..plan() };
    assert_ne!(one, run(&other, 2));
}

#[test]
fn cells_come_in_the_order_of_the_plan_with_all_repeats() {
    let cells = run(&plan(), 2);
    let told: Vec<_> = cells
        .iter()
        .map(|cell| (cell.summary.concurrency, cell.summary.mode.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (Some(6), "round-robin"),
            (Some(6), "kv"),
            (Some(12), "round-robin"),
            (Some(12), "kv"),
        ]
    );
    let single = run(
        &SweepPlan {
            repeats: 1,
            ..plan()
        },
        1,
    );
    for (pooled, single) in cells.iter().zip(&single) {
        assert!(pooled.summary.requests > single.summary.requests * 3 / 2);
    }
}

#[test]
fn progress_is_told_after_each_cell_and_ends_at_one() {
    let told = Mutex::new(Vec::new());
    let pace = Pace {
        threads: 2,
        progress: &|progress| {
            told.lock()
                .push((progress.done, progress.total, progress.share));
        },
        stop: &NEVER,
    };
    sweep(&plan(), &pace);
    let told = told.into_inner();
    assert_eq!(told.len(), 4);
    for (before, after) in told.iter().zip(&told[1..]) {
        assert!(after.0 == before.0 + 1 && after.2 > before.2);
    }
    assert_eq!(told[3], (4, 4, 1.0));
}

#[test]
fn what_is_stopped_gives_what_has_begun() {
    let stop = AtomicBool::new(false);
    let pace = Pace {
        threads: 1,
        progress: &|progress| stop.store(progress.done == 3, Ordering::Relaxed),
        stop: &stop,
    };
    assert_eq!(sweep(&plan(), &pace).len(), 3);
}
