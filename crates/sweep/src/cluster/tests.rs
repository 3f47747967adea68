//! Small clusters: nothing is lost, everything is given back, figures can be believed.

use std::sync::Arc;

use engine::sim::Profile;

use super::*;
use crate::cell::{CellPlan, Measured, run_cell, run_recorded};
use crate::grid::{Pace, ReplayPlan, replay};
use crate::trace::Trace;
use crate::workload::Workload;

const SMALL: &str = r#"
about = "small"
[conversations]
turns = [2, 3]
starters = { pool = 3 }
starter_tokens = [600, 800]
follow_up_tokens = [5, 20]
max_tokens = 60
"#;

fn profile() -> Profile {
    Profile::named(engine::sim::DEFAULT_PROFILE).unwrap()
}

fn small(more: &str) -> Workload {
    Workload::parse("small", &format!("{SMALL}{more}")).unwrap()
}

fn with_cell<T>(
    workload: &Workload,
    mode: &str,
    level: u32,
    run: impl Fn(&CellPlan<'_>) -> T,
) -> T {
    let profile = profile();
    let mode: Contestant = mode.parse().unwrap();
    run(&CellPlan {
        workload,
        profile: &profile,
        workers: 3,
        mode,
        level,
        seed: 11,
        warmup: Duration::from_secs(5),
        window: Duration::from_secs(20),
    })
}

const MODES: [&str; 6] = [
    "round-robin",
    "random",
    "least-loaded",
    "power-of-two",
    "kv-blocks",
    "kv",
];

#[test]
fn every_request_ends_and_everything_is_given_back() {
    // Few slots and little memory, so that requests wait and are preempted.
    let crowded = small("[[worker]]\nnumber = 0\nslots = 2\n[[worker]]\nnumber = 1\nslots = 3\n");
    let text = format!("cache_blocks = 120\n{SMALL}");
    let cramped = Workload::parse("cramped", &text).unwrap();
    for workload in [crowded, cramped] {
        for mode in MODES {
            // `run_recorded` asserts that nothing is left behind.
            let records = with_cell(&workload, mode, 20, run_recorded);
            assert!(records.len() > 40, "{mode}");
            for record in &records {
                let ended = record.ended.expect("every placement came to its end");
                let first = record.first_token.expect("every answer has a token");
                assert!(record.placed < first && first < ended, "{mode}: {record:?}");
                assert_eq!(record.output_tokens, 60);
            }
        }
    }
}

#[test]
fn conversations_are_the_same_in_every_mode() {
    let workload = small("");
    let told = |mode: &str| {
        let mut records = with_cell(&workload, mode, 10, run_recorded);
        records.sort_by_key(|record| (record.conversation, record.turn));
        records
    };
    let baseline = told("round-robin");
    for mode in MODES {
        let mut compared = 0;
        for (one, other) in baseline.iter().zip(&told(mode)) {
            if (one.conversation, one.turn) != (other.conversation, other.turn) {
                break;
            }
            assert_eq!(one.prompt, other.prompt, "{mode}");
            compared += 1;
        }
        assert!(
            compared > 30,
            "{mode}: only {compared} turns could be compared"
        );
    }
}

#[test]
fn a_dead_workers_requests_are_served_by_the_others() {
    let workload = small(
        "[[changes]]\nat_s = 10\nworker = 1\ndies = true\n\
         [[changes]]\nat_s = 15\nworker = 1\nreturns = true\n",
    );
    for mode in MODES {
        let measured = with_cell(&workload, mode, 30, run_cell);
        let tally = &measured.tally;
        assert!(tally.errors > 0, "{mode}: streams broke off");
        assert!(tally.errors <= 30, "{mode}: {} errors", tally.errors);
        let records = with_cell(&workload, mode, 30, run_recorded);
        let at = |second| Moment::ZERO + Duration::from_secs(second);
        let on_it = records.iter().filter(|record| record.worker == WorkerId(1));
        let (mut dead, mut again) = (0, 0);
        for record in on_it {
            dead += u32::from(record.placed > at(10) && record.placed < at(15));
            again += u32::from(record.placed >= at(15));
        }
        assert_eq!(dead, 0, "{mode}");
        // A policy that knows of warm workers may leave a cold one alone at so little load.
        assert!(again > 0 || mode == "kv", "{mode}: it gets requests again");
    }
}

#[test]
fn a_fleet_that_is_gone_refuses_and_recovers() {
    let mut changes = String::new();
    for worker in 0..3 {
        for (at, what) in [(8, "dies"), (10, "returns")] {
            changes += &format!("[[changes]]\nat_s = {at}\nworker = {worker}\n{what} = true\n");
        }
    }
    for mode in MODES {
        let measured = with_cell(&small(&changes), mode, 12, run_cell);
        assert!(measured.tally.errors >= 12, "{mode}");
        assert!(measured.tally.completed > 50, "{mode}");
    }
}

#[test]
fn a_slower_worker_takes_longer() {
    let run = |more: &str| with_cell(&small(more), "round-robin", 6, run_cell);
    let median = |measured: &Measured| measured.tally.tpot.percentiles().unwrap().p50;
    let (usual, slow) = (
        run(""),
        run(
            "[[worker]]\nnumber = 0\nspeed = 0.5\n[[worker]]\nnumber = 1\nspeed = 0.5\n[[worker]]\nnumber = 2\nspeed = 0.5\n",
        ),
    );
    let ratio = median(&slow) / median(&usual);
    assert!((1.9..2.1).contains(&ratio), "{ratio}");
    let later = run("[[changes]]\nat_s = 5\nworker = 0\nspeed = 0.5\n");
    assert!(later.tally.completed < usual.tally.completed);
}

#[test]
fn reuse_shows_in_the_figures() {
    let text = SMALL.replace("{ pool = 3 }", "{ unique = true }");
    let unique = Workload::parse("unique", &text).unwrap();
    let measured = |mode| with_cell(&unique, mode, 12, run_cell);
    let (spread, kept) = (measured("round-robin"), measured("kv-blocks"));
    assert!(kept.tally.hit_rate() > spread.tally.hit_rate());
    assert!(kept.tally.hit_rate() > 0.5, "{}", kept.tally.hit_rate());
    let tally = &kept.tally;
    assert_eq!(tally.requests, tally.e2e.len() as u64);
    assert_eq!((tally.errors, tally.ttft.len()), (0, tally.e2e.len()));
    // Every answer has 60 tokens, and every token but the first has a gap before it.
    assert_eq!(tally.itl.total(), 59 * tally.requests);
    let per_request = tally.tokens_per_second() / tally.requests_per_second();
    assert!((58.0..62.0).contains(&per_request), "{per_request}");
}

#[test]
fn past_slots_are_counted_only_while_another_worker_has_room() {
    // Round robin does not look; 12 conversations overfill two slots.
    let uneven = small("[[worker]]\nnumber = 0\nslots = 2\n");
    let count = |mode| with_cell(&uneven, mode, 12, run_cell).dispatched_past_slots;
    assert!(count("round-robin") > 0);
    assert_eq!(count("kv"), 0);
    let full = small(
        "[[worker]]\nnumber = 0\nslots = 1\n[[worker]]\nnumber = 1\nslots = 1\n[[worker]]\nnumber = 2\nslots = 1\n",
    );
    // With all slots taken all the time, nobody could have done better.
    let crowd = with_cell(&full, "least-loaded", 30, run_cell);
    assert!(
        crowd.dispatched_past_slots <= 30,
        "{}",
        crowd.dispatched_past_slots
    );
}

#[test]
fn a_trace_is_replayed_to_its_end() {
    let mut lines = String::new();
    for request in 0..40 {
        let (at, shared) = (request * 250, request % 4);
        lines += &format!(
            "{{\"timestamp\": {at}, \"input_length\": 1200, \"output_length\": 20, \
             \"hash_ids\": [{shared}, {}, {}]}}\n",
            10 + shared,
            100 + request
        );
    }
    let plan = |speed| ReplayPlan {
        trace: Arc::new(Trace::parse(&lines).unwrap()),
        profile: profile(),
        workers: 2,
        modes: vec!["round-robin".parse().unwrap(), "kv-blocks".parse().unwrap()],
        speed,
        seed: 3,
    };
    let pace = Pace {
        threads: 2,
        progress: &|_| {},
    };
    let (real, fast) = (replay(&plan(1.0), &pace), replay(&plan(2.0), &pace));
    for (summary, measured) in real.iter().chain(&fast) {
        assert_eq!((summary.requests, summary.errors), (40, 0));
        assert_eq!(measured.tally.output_tokens, 40 * 20);
        assert_eq!(summary.concurrency, None);
    }
    // The last request is sent at 9.75 s, or in half that time.
    assert!((9.75..12.0).contains(&real[0].1.simulated.as_secs_f64()));
    assert!((4.87..7.0).contains(&fast[0].1.simulated.as_secs_f64()));
    assert!(
        real[1].0.kv_hit_pct > Some(70.0),
        "two of three blocks come back"
    );
}
