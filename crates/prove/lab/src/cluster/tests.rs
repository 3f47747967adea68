//! Small clusters: nothing is lost, everything is given back, figures can be believed.

use std::sync::Arc;
use std::time::Duration;

use engine::sim::{Profile, Sharing};
use router::ModeName;

use super::*;
use crate::cell::{CellPlan, run_cell, run_recorded};
use crate::grid::{NEVER, Pace, ReplayPlan, replay};
use crate::trace::{Trace, TraceFormat};
use crate::workload::Workload;
use stats::cell_summary::CellSummary;
use stats::figures::Pool;
use stats::raw::RawCell;

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
    with_profile(&profile(), (workload, mode, level), run)
}

fn with_profile<T>(
    profile: &Profile,
    (workload, mode, level): (&Workload, &str, u32),
    run: impl Fn(&CellPlan<'_>) -> T,
) -> T {
    let mode: Contestant = mode.parse().unwrap();
    run(&CellPlan {
        workload,
        profile,
        workers: 3,
        mode,
        level,
        repeat: 1,
        seed: 11,
        warmup: Duration::from_secs(5),
        window: Duration::from_secs(20),
    })
}

fn summary(run: &RawCell) -> CellSummary {
    let runs = std::slice::from_ref(run);
    CellSummary::new("", Some(0), Pool { runs }, None)
}

fn run_summary(plan: &CellPlan<'_>) -> CellSummary {
    summary(&run_cell(plan))
}

/// All that there are, in the router's own order.
fn modes() -> [&'static str; 6] {
    ModeName::ALL.map(ModeName::as_str)
}

#[test]
fn every_request_ends_and_everything_is_given_back() {
    // Few slots and little memory, so that requests wait and are preempted.
    let crowded = small("[[worker]]\nnumber = 0\nslots = 2\n[[worker]]\nnumber = 1\nslots = 3\n");
    let text = format!("cache_blocks = 120\n{SMALL}");
    let cramped = Workload::parse("cramped", &text).unwrap();
    for workload in [crowded, cramped] {
        for mode in modes() {
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
    for mode in modes() {
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
    for mode in modes() {
        let errors = with_cell(&workload, mode, 30, run_summary).errors;
        assert!(errors > 0, "{mode}: streams broke off");
        assert!(errors <= 30, "{mode}: {errors} errors");
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
    for mode in modes() {
        let cell = with_cell(&small(&changes), mode, 12, run_summary);
        assert!(cell.errors >= 12, "{mode}");
        assert!(cell.requests - cell.errors > 50, "{mode}");
    }
}

#[test]
fn a_slower_worker_takes_longer() {
    let run = |more: &str| with_cell(&small(more), "round-robin", 6, run_summary);
    let median = |cell: &CellSummary| cell.tpot_ms.p50.unwrap();
    let (usual, slow) = (
        run(""),
        run(
            "[[worker]]\nnumber = 0\nspeed = 0.5\n[[worker]]\nnumber = 1\nspeed = 0.5\n[[worker]]\nnumber = 2\nspeed = 0.5\n",
        ),
    );
    let ratio = median(&slow) / median(&usual);
    assert!((1.9..2.1).contains(&ratio), "{ratio}");
    let later = run("[[changes]]\nat_s = 5\nworker = 0\nspeed = 0.5\n");
    assert!(later.rps < usual.rps);
}

#[test]
fn who_has_the_machine_alone_is_faster() {
    let mut shared = profile();
    shared.sharing = Sharing::new(vec![0.5, 0.75, 1.0]);
    let tpot = |profile: &Profile, level| {
        let cell = with_profile(profile, (&small(""), "round-robin", level), run_summary);
        cell.tpot_ms.p50.unwrap()
    };
    // One conversation is on one worker at a time; twelve keep all three busy.
    let alone = tpot(&shared, 1) / tpot(&profile(), 1);
    assert!((0.49..0.51).contains(&alone), "{alone}");
    let crowded = tpot(&shared, 12) / tpot(&profile(), 12);
    assert!((0.95..=1.0).contains(&crowded), "{crowded}");
}

#[test]
fn a_step_goes_on_faster_once_the_others_are_done() {
    // Two workers on one core: each goes at half the pace while both compute.
    let mut shared = profile();
    shared.sharing = Sharing::new(vec![0.5, 1.0]);
    let line = |input: u32, first: u32| {
        let blocks: Vec<String> = (first..first + input / 512)
            .map(|id| id.to_string())
            .collect();
        format!(
            "{{\"timestamp\": 0, \"input_length\": {input}, \"output_length\": 1, \
             \"hash_ids\": [{}]}}\n",
            blocks.join(", ")
        )
    };
    let pace = Pace {
        threads: 1,
        progress: &|_| {},
        stop: &NEVER,
    };
    let seconds = |profile: &Profile, lines: &str| {
        let plan = ReplayPlan {
            trace: Arc::new(Trace::parse(lines, TraceFormat::Mooncake).unwrap()),
            profile: profile.clone(),
            workers: 2,
            modes: vec!["round-robin".parse().unwrap()],
            speed: 1.0,
            seed: 3,
        };
        replay(&plan, &pace)[0].effort.simulated_s
    };
    let (long, short) = (line(4096, 0), line(1024, 100));
    let crowded = [&long, &short].map(|line| seconds(&profile(), line));
    // The core is never idle, so it takes as long as one after the other. Times are told in
    // microseconds.
    let both = seconds(&shared, &(long + &short));
    let one_by_one = crowded.iter().sum::<f64>() / 2.0;
    assert!((both - one_by_one).abs() < 2e-6, "{both} {one_by_one}");
}

#[test]
fn reuse_shows_in_the_figures() {
    let text = SMALL.replace("{ pool = 3 }", "{ unique = true }");
    let unique = Workload::parse("unique", &text).unwrap();
    let run = |mode| with_cell(&unique, mode, 12, run_cell);
    let (spread, kept) = (summary(&run("round-robin")), run("kv-blocks"));
    let gaps = kept.facts.itl.total();
    let kept = summary(&kept);
    assert!(kept.kv_hit_pct > spread.kv_hit_pct);
    assert!(kept.kv_hit_pct > Some(50.0), "{:?}", kept.kv_hit_pct);
    assert_eq!(kept.errors, 0);
    // Every answer has 60 tokens, and every token but the first has a gap before it.
    assert_eq!(gaps, 59 * kept.requests);
    let per_request = kept.tops / kept.rps;
    assert!((58.0..62.0).contains(&per_request), "{per_request}");
    // What the engines count, admissions, is what the answers say.
    let (told, counted) = (kept.run_hit_pct.unwrap(), kept.server_hit_pct.unwrap());
    assert!((told - counted).abs() < 2.0, "{told} {counted}");
}

#[test]
fn past_slots_are_counted_only_while_another_worker_has_room() {
    // Round robin does not look; 12 conversations overfill two slots.
    let uneven = small("[[worker]]\nnumber = 0\nslots = 2\n");
    let count = |mode| with_cell(&uneven, mode, 12, run_summary).dispatched_past_slots;
    assert!(count("round-robin") > Some(0));
    assert_eq!(count("kv"), Some(0));
    let full = small(
        "[[worker]]\nnumber = 0\nslots = 1\n[[worker]]\nnumber = 1\nslots = 1\n[[worker]]\nnumber = 2\nslots = 1\n",
    );
    // With all slots taken all the time, nobody could have done better.
    let crowd = with_cell(&full, "least-loaded", 30, run_summary);
    let past = crowd.dispatched_past_slots;
    assert!(past <= Some(30), "{past:?}");
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
        trace: Arc::new(Trace::parse(&lines, TraceFormat::Mooncake).unwrap()),
        profile: profile(),
        workers: 2,
        modes: vec!["round-robin".parse().unwrap(), "kv-blocks".parse().unwrap()],
        speed,
        seed: 3,
    };
    let pace = Pace {
        threads: 2,
        progress: &|_| {},
        stop: &NEVER,
    };
    let (real, fast) = (replay(&plan(1.0), &pace), replay(&plan(2.0), &pace));
    for cell in real.iter().chain(&fast) {
        let summary = &cell.summary;
        assert_eq!((summary.requests, summary.errors), (40, 0));
        assert!((summary.tops * cell.effort.simulated_s - 40.0 * 20.0).abs() < 1.0);
        assert_eq!(summary.concurrency, None);
    }
    // The last request is sent at 9.75 s, or in half that time.
    assert!((9.75..12.0).contains(&real[0].effort.simulated_s));
    assert!((4.87..7.0).contains(&fast[0].effort.simulated_s));
    assert!(
        real[1].summary.kv_hit_pct > Some(70.0),
        "two of three blocks come back"
    );
}
