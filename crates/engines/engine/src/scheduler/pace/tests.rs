//! Drafts are made where they pay.

use contract::random::{mix, unit};

use super::{Acceptance, Pace, StepTime};

fn learned(rate: f64) -> Acceptance {
    let mut acceptance = Acceptance::default();
    for index in 0..400 {
        let right = unit(mix(5, 0, index)) < rate;
        acceptance.observe(1, usize::from(right));
    }
    acceptance
}

/// Steps that cost `fixed` and `each` a token.
fn paced(most: usize, fixed: f64, each: f64) -> Pace {
    let mut pace = Pace::new(most);
    for tokens in (1..40).cycle().take(400) {
        pace.observe(StepTime {
            tokens,
            forward: fixed + each * tokens as f64,
            drafted: 1,
            drafting: 0.0,
        });
        pace.judge(1, 1);
    }
    pace
}

#[test]
fn many_drafts_where_they_are_right_and_cheap_none_where_they_are_not() {
    let cheap = paced(5, 10.0, 0.1);
    let expensive = paced(5, 0.0, 1.0);
    assert_eq!(cheap.choose([&learned(0.95)].into_iter()), 5);
    assert_eq!(cheap.choose([&learned(0.0)].into_iter()), 0);
    assert_eq!(expensive.choose([&learned(0.95)].into_iter()), 0);
    let between = cheap.choose([&learned(0.5)].into_iter());
    assert!((1..5).contains(&between), "{between}");
}

#[test]
fn drafts_are_tried_in_several_lengths_before_they_must_pay() {
    let mut pace = Pace::new(2);
    let mut chosen = Vec::new();
    for _ in 0..24 {
        // A token more doubles the time, and no guess is right: this never pays.
        let drafts = pace.choose([&pace.newcomer()].into_iter());
        chosen.push(drafts);
        pace.observe(StepTime {
            tokens: 1 + drafts,
            forward: (1 + drafts) as f64,
            drafted: drafts,
            drafting: 0.5,
        });
        pace.judge(drafts, 0);
    }
    assert!(chosen.contains(&1) && chosen.contains(&2) && !chosen.contains(&0));
    assert_eq!(pace.choose([&pace.newcomer()].into_iter()), 0);
    assert!(pace.newcomer().rate < 0.1, "newcomers are like the others");
}

#[test]
fn a_sequence_that_got_no_drafts_is_tried_again() {
    let pace = paced(3, 0.0, 1.0);
    let mut acceptance = learned(0.3);
    for _ in 0..40 {
        acceptance.observe(0, 0);
    }
    assert_eq!(pace.choose([&acceptance].into_iter()), 1);
}
