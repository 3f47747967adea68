//! Mode `kv`: full workers, waiting, and what is learned meanwhile.

use super::*;
use crate::learn::Priors;
use crate::query::Ticket;

/// Workers with two slots each, and room for two waiting requests for each.
fn small(workers: impl IntoIterator<Item = u64>) -> State {
    let mut state = State::new(RouterConfig {
        queue_limit: 2,
        ..RouterConfig::new(BLOCK_SIZE)
    });
    for worker in workers {
        join(&mut state, worker, 2);
    }
    state
}

fn join(state: &mut State, worker: u64, slots: u32) {
    let card = WorkerCard {
        slots,
        ..card(worker)
    };
    state.join(card).unwrap();
}

fn ask(state: &mut State, name: &str, prompt: &[BlockHash], now: Moment) -> Placed {
    try_ask(state, (name, 0, None), prompt, now).unwrap()
}

fn try_ask(
    state: &mut State,
    (name, priority, deadline): (&str, i32, Option<Duration>),
    prompt: &[BlockHash],
    now: Moment,
) -> Result<Placed, RouteError> {
    let query = RouteQuery {
        request: RequestId::new(name),
        prompt_tokens: prompt.len() as u32 * BLOCK_SIZE,
        chain: prompt,
        excluded: &[],
        identity: Identity::default(),
        priority,
        deadline: deadline.map(|patience| now + patience),
    };
    state.place(&query, now)
}

#[track_caller]
fn waits(placed: Placed) -> Ticket {
    match placed {
        Placed::Waiting(ticket) => ticket,
        Placed::Now(claim) => panic!("placed on {}", claim.worker),
    }
}

/// Fills every slot and returns the claims.
fn fill(state: &mut State, slots: usize) -> Vec<Claim> {
    (0..slots)
        .map(|name| placed_now(ask(state, "fill", &chain(900 + name as u64, 1), at(0))))
        .collect()
}

#[test]
fn the_default_is_kv() {
    assert_eq!(RouterConfig::new(BLOCK_SIZE).mode, Mode::Kv);
    assert_eq!("kv".parse(), Ok(Mode::Kv));
}

#[test]
fn a_free_slot_anywhere_beats_a_prefix_on_a_full_worker() {
    let mut state = small([1, 2]);
    let prompt = chain(0, 100);
    state.observe(&stored(1, 0, &prompt));
    let first = placed_now(ask(&mut state, "a", &prompt, at(0)));
    let second = placed_now(ask(&mut state, "b", &prompt, at(0)));
    assert_eq!((first.worker, second.worker), (WorkerId(1), WorkerId(1)));
    assert!(!first.hot_spread);
    let third = placed_now(ask(&mut state, "c", &prompt, at(0)));
    assert_eq!(third.worker, WorkerId(2));
    assert!(third.hot_spread);
    explained(
        &state,
        expect![[r#"
            #3 c (3200 tokens, 100 blocks) kv -> worker 2: hot prefix spread on purpose: worker 1 holds it but is full
            2: cost 460.00, first token 460.0, queue 0.0, decodes 0.0, eviction 0.0, wait 0.0 ms, overlap 0, prefill 100.00, decode 0, 0/2 in flight
            1: full"#]],
    );
}

#[test]
fn waiting_requests_get_freed_slots_by_home_and_then_by_arrival() {
    let mut state = small([1, 2]);
    let claims = fill(&mut state, 4);
    let homes: Vec<WorkerId> = claims.iter().map(|claim| claim.worker).collect();
    let (here, there) = (chain(1, 100), chain(2, 100));
    let other = if homes[0] == WorkerId(1) { 2 } else { 1 };
    state.observe(&stored(homes[0].0, 0, &here));
    state.observe(&stored(other, 0, &there));
    let stranger = waits(ask(&mut state, "stranger", &there, at(1)));
    let native = waits(ask(&mut state, "native", &here, at(2)));
    assert_eq!((state.waiting(), state.total_queued()), (2, 2));
    assert!(state.ready(at(3)).is_none(), "there is no room");
    assert!(state.release(&claims[0], at(3)));
    let (ticket, claim) = state.ready(at(3)).unwrap();
    assert_eq!((ticket, claim.worker), (native, homes[0]));
    assert_eq!(claim.waited, Duration::from_secs(1));
    assert_eq!(claim.predicted_cached_tokens, 99 * BLOCK_SIZE);
    assert!(state.ready(at(3)).is_none());
    assert_eq!(
        state.decisions(1)[0].reason.to_string(),
        "from the queue after 1000.0 ms, overtaken 0 times"
    );
    // Now the other one, although it is a stranger there: nobody else waits.
    state.release(&claim, at(4));
    let (ticket, claim) = state.ready(at(4)).unwrap();
    assert_eq!((ticket, claim.worker), (stranger, homes[0]));
    assert!(claim.hot_spread);
    assert_eq!(
        state.decisions(1)[0].reason.to_string(),
        "from the queue after 3000.0 ms, overtaken 1 times"
    );
    assert_eq!(state.waiting(), 0);
}

#[test]
fn priority_goes_first_and_the_cancelled_are_gone() {
    let mut state = small([1]);
    let claims = fill(&mut state, 2);
    let prompt = chain(0, 1);
    let ordinary = waits(ask(&mut state, "ordinary", &prompt, at(0)));
    let urgent = waits(try_ask(&mut state, ("urgent", 1, None), &prompt, at(0)).unwrap());
    state.release(&claims[0], at(1));
    assert_eq!(state.ready(at(1)).map(|(ticket, _)| ticket), Some(urgent));
    assert!(state.cancel(ordinary));
    assert!(!state.cancel(ordinary) && !state.cancel(urgent));
    state.release(&claims[1], at(1));
    assert!(state.ready(at(1)).is_none());
}

#[test]
fn the_queue_is_bounded_and_deadlines_are_kept_in_mind() {
    let mut state = small([1]);
    let claims = fill(&mut state, 2);
    let prompt = chain(0, 1);
    // Two slots of 30 s each by the priors: one frees every 15 s.
    let hurried = |seconds| ("hurried", 0, Some(Duration::from_secs(seconds)));
    assert_eq!(
        try_ask(&mut state, hurried(10), &prompt, at(0)).unwrap_err(),
        RouteError::Saturated {
            retry_after: Duration::from_secs(5)
        }
    );
    waits(try_ask(&mut state, hurried(16), &prompt, at(0)).unwrap());
    assert_eq!(
        try_ask(&mut state, hurried(16), &prompt, at(0)).unwrap_err(),
        RouteError::Saturated {
            retry_after: Duration::from_secs(14)
        }
    );
    waits(ask(&mut state, "patient", &prompt, at(0)));
    let refused = try_ask(&mut state, ("one too many", 0, None), &prompt, at(0));
    assert!(matches!(refused, Err(RouteError::Saturated { .. })));
    assert_eq!(state.waiting(), 2);
    drop(claims);
}

#[test]
fn a_worker_that_joins_and_a_mode_that_does_not_wait_make_room() {
    let mut state = small([1]);
    fill(&mut state, 2);
    let prompt = chain(0, 1);
    let first = waits(ask(&mut state, "a", &prompt, at(0)));
    let second = waits(ask(&mut state, "b", &prompt, at(0)));
    join(&mut state, 2, 1);
    let (ticket, claim) = state.ready(at(1)).unwrap();
    assert_eq!((ticket, claim.worker), (first, WorkerId(2)));
    assert!(state.ready(at(1)).is_none());
    state.set_mode(Mode::RoundRobin);
    let (ticket, claim) = state.ready(at(2)).unwrap();
    assert_eq!(ticket, second);
    assert_eq!(state.decisions(1)[0].mode, "round-robin");
    assert_eq!(state.total_queued(), 1, "it waits in the engine now");
    assert!(state.release(&claim, at(3)));
}

#[test]
fn requests_that_nobody_is_left_to_serve_are_told() {
    let mut state = small([1, 2]);
    fill(&mut state, 4);
    let prompt = chain(0, 1);
    let ticket = waits(ask(&mut state, "a", &prompt, at(0)));
    state.drain(WorkerId(1));
    assert!(state.ready(at(0)).is_none());
    assert!(state.stranded().is_empty(), "worker 2 will have a slot");
    state.leave(WorkerId(2));
    assert_eq!(state.stranded(), [ticket]);
    assert_eq!((state.waiting(), state.stranded().len()), (0, 0));
    let refused = try_ask(&mut state, ("b", 0, None), &prompt, at(0));
    assert_eq!(refused.unwrap_err(), RouteError::NoWorker);
}

#[test]
fn predictions_are_recorded_and_the_truth_is_learned_from() {
    let mut state = small([1]);
    state.set_priors(Priors {
        prefill_tokens_per_second: 1000.0,
        ..Priors::default()
    });
    join(&mut state, 2, 64);
    state.leave(WorkerId(1));
    let mut predicted = Vec::new();
    let second = Duration::from_secs(1);
    let mut now = at(0);
    for name in 0..60_u64 {
        // A cold prompt of 640 or 3,200 tokens at 10,000 a second, and 50 steps of 20 ms.
        let blocks = if name % 2 == 0 { 20 } else { 100 };
        let prompt = chain(name, blocks);
        let claim = placed_now(ask(&mut state, "r", &prompt, now));
        predicted.push(claim.predicted_first_token.as_secs_f64());
        let prefill = Duration::from_secs_f64(blocks as f64 * f64::from(BLOCK_SIZE) / 10_000.0);
        state.first_token(&claim, 0, now + prefill);
        state.progress(&claim, 50, now + prefill + second);
        state.release(&claim, now + prefill + second);
        now += second * 2;
    }
    assert!(predicted[0] > 0.6, "by the priors: {}", predicted[0]);
    for (found, expected) in predicted[58..].iter().zip([0.064, 0.32]) {
        assert!(
            (found / expected - 1.0).abs() < 0.25,
            "{found} for {expected}"
        );
    }
    let learned = view(&state, 2).learned;
    assert!((learned.step_ms / 20.0 - 1.0).abs() < 0.1, "{learned:?}");
    assert!(
        (learned.output_tokens / 51.0 - 1.0).abs() < 0.1,
        "{learned:?}"
    );
    let decision = &state.decisions(1)[0];
    assert!((decision.predicted_ttft_ms / 1e3 - predicted[59]).abs() < 1e-6);
}

#[test]
fn a_worker_whose_hits_contradict_its_events_is_asked_for_a_snapshot() {
    let mut state = small([1]);
    let prompt = chain(0, 100);
    assert_eq!(
        state.observe(&stored(1, 0, &prompt)).observed,
        Observed::Applied
    );
    let serve = |state: &mut State, cached_tokens| {
        let claim = placed_now(ask(state, "r", &prompt, at(1)));
        assert_eq!(claim.predicted_cached_tokens, 99 * BLOCK_SIZE);
        state.first_token(&claim, cached_tokens, at(2));
        state.release(&claim, at(3));
    };
    for _ in 0..7 {
        serve(&mut state, 0);
    }
    serve(&mut state, 99 * BLOCK_SIZE);
    for _ in 0..7 {
        serve(&mut state, 0);
    }
    let next = stored(1, 1, &chain(1, 1));
    assert_eq!(state.observe(&next).observed, Observed::Applied);
    serve(&mut state, 0);
    let next = stored(1, 2, &chain(2, 1));
    assert_eq!(state.observe(&next).observed, Observed::NeedsSnapshot);
    let snapshot = KvSnapshot {
        epoch: 1,
        next_sequence: 3,
        blocks: Vec::new(),
    };
    state.restore(WorkerId(1), &snapshot);
    assert_eq!(view(&state, 1).indexed_blocks, 0);
    let claim = placed_now(ask(&mut state, "r", &prompt, at(4)));
    assert_eq!(claim.predicted_cached_tokens, 0);
}

#[test]
fn what_an_engine_says_at_the_end_counts_and_not_what_it_said_at_first() {
    let mut state = small([1]);
    let prompt = chain(0, 100);
    state.observe(&stored(1, 0, &prompt));
    for _ in 0..8 {
        let claim = placed_now(ask(&mut state, "r", &prompt, at(1)));
        state.first_token(&claim, 99 * BLOCK_SIZE, at(2));
        state.found_cached(&claim, 0);
        assert_eq!(state.decisions(1)[0].actual_cached_tokens, Some(0));
        state.release(&claim, at(3));
    }
    let next = stored(1, 1, &chain(1, 1));
    assert_eq!(state.observe(&next).observed, Observed::NeedsSnapshot);
}

#[test]
fn slots_that_the_card_does_not_tell_are_learned() {
    let mut state = small([]);
    join(&mut state, 1, 0);
    let first = view(&state, 1).learned.slots;
    let mut claims = Vec::new();
    let mut now = at(0);
    // First tokens on time from a worker that is nearly full raise the belief.
    for name in 0..200 {
        now += Duration::from_millis(200);
        if let Ok(Placed::Now(claim)) = try_ask(&mut state, ("r", 0, None), &chain(name, 1), now) {
            state.first_token(&claim, 0, now + Duration::from_millis(60));
            claims.push(claim);
        }
        while state.ready(now).is_some() {}
    }
    let raised = view(&state, 1).learned.slots;
    assert!(raised > first + 20, "{raised}");
    let waiting = WorkerStatus {
        waiting: 3,
        ..WorkerStatus::default()
    };
    state.report(WorkerId(1), waiting, at(0));
    assert_eq!(
        view(&state, 1).learned.slots,
        (f64::from(raised) * 0.9) as u32
    );
}

#[test]
fn a_request_leaves_the_queue_when_its_time_is_up_and_not_before() {
    let mut state = small([1]);
    let claims = fill(&mut state, 2);
    let prompt = chain(0, 1);
    let patience = Some(Duration::from_secs(16));
    let ticket = waits(try_ask(&mut state, ("hurried", 0, patience), &prompt, at(0)).unwrap());
    let patient = waits(ask(&mut state, "patient", &prompt, at(0)));
    assert_eq!(state.time_out(ticket, at(15)), None);
    assert_eq!(state.time_out(patient, at(1_000)), None);
    let error = state.time_out(ticket, at(16)).unwrap();
    assert!(matches!(error, RouteError::QueueTimeout { .. }), "{error}");
    assert!(!state.is_waiting(ticket) && state.is_waiting(patient));
    assert_eq!((state.time_out(ticket, at(17)), state.waiting()), (None, 1));
    // Asked again with nothing left, it is not let in once more.
    let late = try_ask(
        &mut state,
        ("late", 0, Some(Duration::ZERO)),
        &prompt,
        at(17),
    );
    assert!(matches!(late, Err(RouteError::QueueTimeout { .. })));
    assert_eq!(state.waiting(), 1);
    state.release(&claims[0], at(17));
    assert_eq!(state.ready(at(17)).map(|(ticket, _)| ticket), Some(patient));
}

#[test]
fn a_full_queue_has_a_place_for_whoever_has_less_of_it() {
    let mut state = small([1]);
    fill(&mut state, 2);
    let prompt = chain(0, 1);
    let of = |tenant| RouteQuery {
        request: RequestId::new("r"),
        prompt_tokens: BLOCK_SIZE,
        chain: &prompt,
        excluded: &[],
        identity: Identity {
            tenant,
            ..Identity::default()
        },
        priority: 0,
        deadline: None,
    };
    let first = waits(state.place(&of(1), at(0)).unwrap());
    let second = waits(state.place(&of(1), at(0)).unwrap());
    let third = state.place(&of(1), at(0));
    assert!(matches!(third, Err(RouteError::Saturated { .. })));
    let other = waits(state.place(&of(2), at(0)).unwrap());
    let displaced = state.displaced(at(0));
    assert!(matches!(displaced[..], [(ticket, RouteError::Saturated { .. })] if ticket == second));
    assert!(state.displaced(at(0)).is_empty(), "told once");
    // Now both have one place, and neither can take the other's.
    for tenant in [1, 2] {
        let refused = state.place(&of(tenant), at(0));
        assert!(matches!(refused, Err(RouteError::Saturated { .. })));
    }
    assert!(state.is_waiting(first) && state.is_waiting(other));
}
