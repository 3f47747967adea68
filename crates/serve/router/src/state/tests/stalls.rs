//! Silence: whose fault it is, and what follows.

use super::*;
use crate::health::Condition;

const QUIET: Duration = Duration::from_secs(30);

/// One worker with so many requests that have begun at 0.
fn busy(requests: u64) -> (State, Vec<Claim>) {
    let mut state = state("round-robin", [1]);
    let claims: Vec<Claim> = (0..requests)
        .map(|name| place(&mut state, &chain(name, 4)))
        .collect();
    for claim in &claims {
        state.first_token(claim, 0, at(0));
    }
    (state, claims)
}

fn condition(state: &State, seconds: u64) -> Condition {
    state.workers(at(seconds))[0].health
}

#[test]
fn a_worker_that_gives_nobody_anything_is_shunned() {
    let (mut state, claims) = busy(4);
    for claim in &claims[..3] {
        state.stalled(claim, QUIET, at(30));
    }
    assert_eq!(condition(&state, 30), Condition::Shunned);
}

#[test]
fn a_worker_that_serves_others_is_not_held_to_blame_for_one_that_it_preempted() {
    let (mut state, claims) = busy(4);
    state.progress(&claims[3], 32, at(20));
    for claim in &claims[..3] {
        state.stalled(claim, QUIET, at(30));
    }
    assert_eq!(condition(&state, 30), Condition::Sound);
    // Half of the silence is too long.
    for claim in &claims[..3] {
        state.stalled(claim, QUIET, at(35));
    }
    assert_eq!(condition(&state, 35), Condition::Shunned);
}

#[test]
fn tokens_that_others_get_are_known_from_the_workers_own_reports() {
    let (mut state, claims) = busy(3);
    let mut report = |tokens: u64, seconds: u64| {
        let status = WorkerStatus {
            output_tokens: tokens,
            ..WorkerStatus::default()
        };
        state.report(WorkerId(1), status, at(seconds));
        for claim in &claims {
            state.stalled(claim, QUIET, at(seconds + 1));
        }
        condition(&state, seconds + 1)
    };
    assert_eq!(report(100, 29), Condition::Sound);
    assert_eq!(report(120, 59), Condition::Sound);
    assert_eq!(report(120, 89), Condition::Shunned, "it repeats itself");
}

#[test]
fn requests_from_before_do_not_count_for_a_trial() {
    let (mut state, claims) = busy(8);
    for claim in &claims[..3] {
        state.failed(claim, at(0));
        state.release(claim, at(0));
    }
    let ask = |state: &mut State, seconds: u64| {
        let chain = chain(99, 4);
        let query = RouteQuery {
            request: RequestId::new("late"),
            prompt_tokens: 128,
            chain: &chain,
            excluded: &[],
            identity: crate::query::Identity::default(),
            priority: 0,
            deadline: None,
        };
        match state.place(&query, at(seconds)) {
            Ok(Placed::Now(claim)) => Some(claim),
            _ => None,
        }
    };
    assert!(ask(&mut state, 0).is_none(), "left alone");
    let trial = ask(&mut state, 2).expect("five old ones are no trial");
    assert!(ask(&mut state, 2).is_none(), "one at a time");
    for claim in &claims[3..] {
        state.release(claim, at(2));
    }
    assert!(
        ask(&mut state, 2).is_none(),
        "the trial itself still counts"
    );
    state.first_token(&trial, 0, at(3));
    assert!(ask(&mut state, 3).is_some(), "trusted with a few");
}
