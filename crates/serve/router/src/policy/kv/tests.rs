//! Each term alone, then what they trade against each other.

use super::*;
use crate::learn::Outlook;
use crate::policy::tests::{REQUEST, busy, idle};

fn held(worker: u64, cached_tokens: u32) -> Candidate {
    Candidate {
        cached_tokens,
        ..idle(worker)
    }
}

fn chosen(candidates: &[Candidate]) -> (u64, Reason) {
    let mut rows = candidates.to_vec();
    let choice = Kv.choose(&REQUEST, &mut rows, &mut Draws::new(3));
    (rows[choice.index].worker.0, choice.reason)
}

/// First token, queue, decodes, eviction and wait.
#[track_caller]
fn check(name: &str, candidate: &Candidate, expected: [f32; 5]) {
    let terms = terms(&REQUEST, candidate);
    let found = [
        terms.ttft_ms,
        terms.queue_ms,
        terms.decode_ms,
        terms.eviction_ms,
        terms.wait_ms,
    ];
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 0.5, "{name}: {terms:?}");
    }
    let sum: f32 = expected.iter().sum();
    assert!((terms.total() - f64::from(sum)).abs() < 2.0, "{name}");
}

#[test]
fn each_term_in_milliseconds() {
    // The priors: 8,000 tokens/s, 30 ms and 0.3 ms per request, two steps, 500 tokens.
    let alone = idle(1);
    for (name, candidate, expected) in [
        ("a cold prompt", alone, [460.0, 0.0, 0.0, 0.0, 0.0]),
        ("a warm one", held(1, 2400), [160.0, 0.0, 0.0, 0.0, 0.0]),
        (
            "behind two others: 100 ms of theirs, and 2 × 400 ms for who comes next",
            Candidate {
                pending_prefill_tokens: 800,
                pending_requests: 2,
                ..alone
            },
            [560.0, 900.0, 0.0, 0.0, 0.0],
        ),
        (
            "among ten: two longer steps, and 10 × (0.15 × 400 ms + ½ × 500 × 0.3 ms)",
            Candidate {
                in_flight: 10,
                ..alone
            },
            [466.0, 0.0, 1350.0, 0.0, 0.0],
        ),
        (
            "in a full cache, half of which is asked for",
            Candidate {
                cache_full: true,
                ..alone
            },
            [460.0, 0.0, 0.0, 200.0, 0.0],
        ),
        (
            "behind a full batch of four: one slot every 30 s ÷ 4",
            Candidate {
                slots: 4,
                in_flight: 4,
                cached_tokens: 3200,
                ..alone
            },
            [62.4, 0.0, 300.0, 0.0, 7500.0],
        ),
    ] {
        check(name, &candidate, expected);
    }
}

#[test]
fn a_request_for_which_memory_is_short_is_computed_again() {
    let alone = idle(1);
    for (name, candidate, expected) in [
        (
            "in memory that lacks 800 tokens: computed again, beside ten: 100 ms × (1 + 10 × 0.15)",
            Candidate {
                in_flight: 10,
                decode_blocks: 1000,
                total_blocks: 1075,
                outlook: Outlook {
                    output_tokens: 0.0,
                    ..alone.outlook
                },
                ..alone
            },
            [466.0, 0.0, 600.0, 250.0, 0.0],
        ),
        (
            "in memory that is just enough for it and its answer",
            Candidate {
                decode_blocks: 884,
                total_blocks: 1000,
                ..alone
            },
            [460.0, 0.0, 0.0, 0.0, 0.0],
        ),
    ] {
        check(name, &candidate, expected);
    }
}

#[test]
fn faster_emptier_and_warmer_workers_win() {
    let slow = |mut candidate: Candidate| {
        candidate.outlook.prefill_seconds_per_token *= 2.0;
        candidate.outlook.step_seconds *= 2.0;
        candidate
    };
    for (name, candidates, expected) in [
        ("warm over cold", vec![held(1, 1600), idle(2)], 1),
        ("fast over slow", vec![slow(idle(1)), idle(2)], 2),
        (
            "slow and warm over fast and cold",
            vec![slow(held(1, 3168)), idle(2)],
            1,
        ),
        ("idle over busy", vec![busy(1, 20, 64), idle(2)], 2),
        (
            "busy and warm over idle and cold",
            vec![
                Candidate {
                    in_flight: 2,
                    ..held(1, 3168)
                },
                idle(2),
            ],
            1,
        ),
        (
            "memory for one more over a slot without any",
            vec![
                Candidate {
                    total_blocks: 2000,
                    decode_blocks: 1980,
                    ..busy(1, 20, 64)
                },
                Candidate {
                    total_blocks: 2000,
                    decode_blocks: 1500,
                    ..busy(2, 24, 64)
                },
            ],
            2,
        ),
        (
            "a cache with room over a full one",
            vec![
                Candidate {
                    cache_full: true,
                    ..idle(1)
                },
                busy(2, 1, 64),
            ],
            2,
        ),
    ] {
        assert_eq!(chosen(&candidates).0, expected, "{name}");
    }
}

#[test]
fn company_costs_more_than_a_warm_prefix_is_worth() {
    let warm = |in_flight| Candidate {
        in_flight,
        ..held(1, 3168)
    };
    // Each request more in company costs 75 ms; computing the prompt, 400 ms and 60 ms for
    // each that decodes beside it.
    assert_eq!(chosen(&[warm(40), busy(2, 20, 64)]).0, 1);
    let (worker, reason) = chosen(&[warm(60), busy(2, 20, 64)]);
    assert_eq!(worker, 2);
    assert!(matches!(
        reason,
        Reason::HotSpread {
            holder: contract::WorkerId(1),
            ..
        }
    ));
}

#[test]
fn a_cold_prompt_stays_out_of_a_queue_of_warm_ones() {
    let crowd = Candidate {
        pending_prefill_tokens: 200,
        pending_requests: 10,
        ..idle(1)
    };
    assert_eq!(chosen(&[crowd, busy(2, 20, 64)]).0, 2);
    let warm = Candidate {
        cached_tokens: 3168,
        ..crowd
    };
    assert_eq!(chosen(&[warm, busy(2, 20, 64)]).0, 1);
}

#[test]
fn a_holder_that_is_full_or_dearer_is_named() {
    let mut rows = vec![idle(1), idle(2)];
    let full_holder = Some(Holder {
        worker: contract::WorkerId(3),
        cached_tokens: 3168,
    });
    let asked = RequestView {
        full_holder,
        ..REQUEST
    };
    let choice = Kv.choose(&asked, &mut rows, &mut Draws::new(3));
    assert_eq!(
        choice.reason.to_string(),
        "hot prefix spread on purpose: worker 3 holds it but is full"
    );
    // A worker that has nearly as much is home too, whatever the other holds.
    let mut rows = vec![held(1, 3168 - 255), idle(2)];
    let choice = Kv.choose(&asked, &mut rows, &mut Draws::new(3));
    assert!(matches!(choice.reason, Reason::Cheapest { .. }));
    let (worker, reason) = chosen(&[
        Candidate {
            pending_prefill_tokens: 8000,
            ..held(1, 3168)
        },
        idle(2),
    ]);
    assert_eq!(worker, 2);
    assert_eq!(
        reason.to_string(),
        "hot prefix spread on purpose: worker 1 holds it but takes 1604.0 ms more, mostly queue"
    );
    // A worker that is left although it has nothing to do is not called hot.
    let mut slow = held(1, 3168);
    slow.outlook.step_seconds *= 20.0;
    let (worker, reason) = chosen(&[slow, idle(2)]);
    assert_eq!((worker, reason.name()), (2, "faster_elsewhere"));
    assert_eq!(
        reason.to_string(),
        "faster elsewhere: worker 1 holds 3168 tokens more but takes 744.0 ms more, mostly first token"
    );
    assert!(reason.passes_over());
}

#[test]
fn a_session_stays_where_nothing_else_tells_workers_apart() {
    let after = |worker: u64, candidates: &[Candidate]| {
        let asked = RequestView {
            session_worker: Some(contract::WorkerId(worker)),
            ..REQUEST
        };
        let mut rows = candidates.to_vec();
        let choice = Kv.choose(&asked, &mut rows, &mut Draws::new(3));
        let same = choice.reason == Reason::SameSession;
        (rows[choice.index].worker.0, same)
    };
    let step = |worker, seconds| {
        let mut candidate = idle(worker);
        candidate.outlook.step_seconds = seconds;
        candidate
    };
    // 400 ms of prefill: the hint is worth 40. Two steps of 40 ms are 20 ms dearer than of 30.
    assert_eq!(after(2, &[idle(1), step(2, 0.040)]), (2, true));
    assert_eq!(after(2, &[idle(1), step(2, 0.060)]), (1, false));
    // The index decides where it knows something.
    assert_eq!(after(2, &[held(1, 512), idle(2)]), (1, false));
    assert_eq!(after(2, &[idle(1), held(2, 512)]), (2, false));
    // Nothing to compute, nothing to gain.
    let warm = |candidate| Candidate {
        cached_tokens: 3200,
        ..candidate
    };
    assert_eq!(after(2, &[warm(idle(1)), warm(step(2, 0.031))]), (1, false));
    // Company costs more than the hint is worth, and a worker that left gives none.
    assert_eq!(after(2, &[idle(1), busy(2, 4, 64)]), (1, false));
    assert_eq!(after(9, &[held(1, 512), idle(2)]), (1, false));
}

#[test]
fn ties_go_to_the_emptier_share_and_then_to_chance() {
    let mut wins = [0_u32; 4];
    let mut draws = Draws::new(5);
    // All free of charge, so that only the tie-break is left.
    let free = |mut candidate: Candidate| {
        candidate.outlook = crate::learn::Outlook::default();
        candidate
    };
    let candidates = [
        free(busy(1, 2, 8)),
        free(busy(2, 4, 64)),
        free(busy(3, 4, 64)),
    ];
    for _ in 0..1000 {
        let mut rows = candidates.to_vec();
        let choice = Kv.choose(&REQUEST, &mut rows, &mut draws);
        wins[rows[choice.index].worker.0 as usize] += 1;
    }
    assert_eq!(wins[1], 0);
    assert!(wins[2].abs_diff(wins[3]) < 120, "{wins:?}");
}

#[test]
fn an_only_candidate_is_called_that() {
    let (worker, reason) = chosen(&[idle(4)]);
    assert_eq!((worker, reason), (4, Reason::OnlyOne));
}
