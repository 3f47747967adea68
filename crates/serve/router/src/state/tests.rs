//! The rules one by one, then all of them at random against a naive model.

use crate::decision::Excluded;
use std::time::Duration;

use contract::random::mix;
use contract::{
    Abilities, BlockFormat, GpuSpec, KvEvent, LocalHash, ModelName, RequestId, StoredBlock,
};
use expect_test::{Expect, expect};

use contract::BlockHash;

use super::*;
use crate::decision::WhyNot;
use crate::mode::{BlockWeights, ModeName};
use crate::policy::Candidate;
use crate::query::{Claim, Identity, Placed, RouteError, RouteQuery};

mod late_binding;
mod model;
mod records;
mod stalls;

const BLOCK_SIZE: u32 = 32;

pub(crate) fn card(worker: u64) -> WorkerCard {
    WorkerCard {
        id: WorkerId(worker),
        name: format!("worker-{worker}"),
        model: ModelName::new("test"),
        blocks: BlockFormat {
            size: BLOCK_SIZE,
            hashing: contract::Hashing::default(),
        },
        total_blocks: 1000,
        slots: 64,
        max_step_tokens: 8192,
        max_context_tokens: 8192,
        gpu: GpuSpec {
            kind: "none".to_owned(),
            count: 0,
            memory_bytes: 0,
        },
        engine: "test".to_owned(),
        simulated: true,
        abilities: Abilities::default(),
        speculation: "none".to_owned(),
        forwards: Vec::new(),
        adapters: Vec::new(),
    }
}

/// A chain of its own for each name.
pub(crate) fn chain(name: u64, blocks: usize) -> Vec<BlockHash> {
    (0..blocks as u64)
        .map(|depth| BlockHash(mix(11, name, depth)))
        .collect()
}

pub(crate) fn stored(worker: u64, sequence: u64, chain: &[BlockHash]) -> KvBatch {
    let block = |&hash: &BlockHash| StoredBlock {
        hash,
        local: LocalHash(hash.0),
    };
    let blocks = chain.iter().map(block).collect();
    let events = vec![KvEvent::Stored {
        parent: None,
        blocks,
    }];
    KvBatch {
        worker: WorkerId(worker),
        epoch: 1,
        sequence,
        events,
    }
}

fn at(seconds: u64) -> Moment {
    Moment::ZERO + Duration::from_secs(seconds)
}

fn state(mode: &str, workers: impl IntoIterator<Item = u64>) -> State {
    let mode = mode.parse().unwrap();
    let mut state = State::new(RouterConfig {
        mode,
        ..RouterConfig::new(BLOCK_SIZE)
    });
    for worker in workers {
        state.join(card(worker)).unwrap();
    }
    state
}

/// Places a prompt of whole blocks, anywhere but on the excluded workers.
fn place_but(
    state: &mut State,
    chain: &[BlockHash],
    excluded: &[u64],
) -> Result<Claim, RouteError> {
    let excluded = excluded.iter().map(|&id| Excluded::tried(WorkerId(id)));
    let excluded: Vec<Excluded> = excluded.collect();
    let query = RouteQuery {
        request: RequestId::new("r"),
        prompt_tokens: chain.len() as u32 * BLOCK_SIZE,
        chain,
        excluded: &excluded,
        identity: Identity::default(),
        priority: 0,
        deadline: None,
    };
    state.place(&query, at(0)).map(placed_now)
}

/// The claim of a request that did not have to wait.
#[track_caller]
pub(crate) fn placed_now(placed: Placed) -> Claim {
    match placed {
        Placed::Now(claim) => claim,
        Placed::Waiting(ticket) => panic!("{ticket:?} waits"),
    }
}

fn place(state: &mut State, chain: &[BlockHash]) -> Claim {
    place_but(state, chain, &[]).unwrap()
}

fn view(state: &State, worker: u64) -> WorkerView {
    let mut views = state.workers(Moment::ZERO);
    views.retain(|view| view.card.id == WorkerId(worker));
    views.pop().unwrap()
}

fn explained(state: &State, expected: Expect) {
    // One row a line, to be read here.
    expected.assert_eq(&state.decisions(1)[0].explain().replace(" | ", "\n"));
}

/// The specification's table: cached 20, 75 and 10 of 100 blocks; in use 10, 5 and 9.
fn specified() -> (State, Vec<BlockHash>) {
    let mut state = state("kv-blocks", [1, 2, 3]);
    let prompt = chain(0, 100);
    for (worker, others, cached, used) in
        [(1, [2, 3], 20, 10), (2, [1, 3], 75, 5), (3, [1, 2], 10, 9)]
    {
        state.observe(&stored(worker, 0, &prompt[..cached]));
        let claim = place_but(&mut state, &chain(worker, used), &others).unwrap();
        state.first_token(&claim, 0, at(0));
    }
    (state, prompt)
}

#[test]
fn the_specifications_example_costs_90_30_and_99() {
    let (mut state, prompt) = specified();
    let claim = place(&mut state, &prompt);
    assert_eq!(claim.worker, WorkerId(2));
    assert_eq!(claim.predicted_cached_tokens, 75 * BLOCK_SIZE);
    let decision = &state.decisions(1)[0];
    let costs: Vec<Option<f64>> = decision.candidates.iter().map(|row| row.cost).collect();
    assert_eq!(costs, [Some(90.0), Some(30.0), Some(99.0)]);
    explained(
        &state,
        expect![[r#"
            #4 r (3200 tokens, 100 blocks) kv-blocks -> worker 2: lowest cost 30.00
            1: cost 90.00, overlap 20, prefill 80.00, decode 10, 1/64 in flight
            2: cost 30.00, overlap 75, prefill 25.00, decode 5, 1/64 in flight
            3: cost 99.00, overlap 10, prefill 90.00, decode 9, 1/64 in flight"#]],
    );
}

#[test]
fn a_pick_sees_the_prefill_that_earlier_picks_left_pending() {
    let mut state = state("kv-blocks", [1, 2]);
    let first = place(&mut state, &chain(1, 10));
    let second = place(&mut state, &chain(2, 4));
    assert_ne!(first.worker, second.worker);
    explained(
        &state,
        expect![[r#"
            #2 r (128 tokens, 4 blocks) kv-blocks -> worker 2: lowest cost 4.00
            1: cost 24.00, overlap 0, prefill 14.00, decode 10, 1/64 in flight
            2: cost 4.00, overlap 0, prefill 4.00, decode 0, 0/64 in flight"#]],
    );
    assert_eq!(view(&state, second.worker.0).pending_prefill_tokens, 128);
    state.first_token(&second, 0, at(1));
    assert_eq!(view(&state, second.worker.0).pending_prefill_tokens, 0);
}

#[test]
fn a_prompt_that_is_fully_held_still_computes_its_last_block() {
    let mut state = state("kv-blocks", [1]);
    let prompt = chain(0, 3);
    state.observe(&stored(1, 0, &prompt));
    assert_eq!(
        place(&mut state, &prompt).predicted_cached_tokens,
        2 * BLOCK_SIZE
    );
}

#[test]
fn siblings_follow_a_prefix_before_the_worker_has_confirmed_it() {
    let mut state = state("kv-blocks", [1, 2, 3]);
    // At weight 1 the blocks in use there outweigh the prefix; see the formula.
    state.set_mode(Mode::KvBlocks(BlockWeights::new(2.0, 0.0).unwrap()));
    let prompt = chain(0, 40);
    let first = place(&mut state, &prompt);
    state.first_token(&first, 0, at(1));
    let sibling = place(&mut state, &prompt[..30]);
    assert_eq!(sibling.worker, first.worker);
    assert_eq!(sibling.predicted_cached_tokens, 29 * BLOCK_SIZE);
    assert_eq!(
        view(&state, first.worker.0).active_blocks,
        40,
        "shared blocks count once"
    );
    // The deeper request ends unconfirmed: what only it used is forgotten.
    state.release(&first, at(2));
    let third = place(&mut state, &prompt);
    assert_eq!(third.predicted_cached_tokens, 30 * BLOCK_SIZE);
    state.release(&sibling, at(2));
    state.release(&third, at(2));
    assert_eq!(state.known_blocks(), (0, 0));
    assert_eq!(place(&mut state, &prompt).predicted_cached_tokens, 0);
}

#[test]
fn confirmed_blocks_outlive_the_request_that_brought_them() {
    let mut state = state("kv-blocks", [1, 2]);
    let prompt = chain(0, 40);
    let first = place(&mut state, &prompt);
    state.observe(&stored(first.worker.0, 0, &prompt[..25]));
    state.release(&first, at(2));
    let next = place(&mut state, &prompt);
    assert_eq!(
        (next.worker, next.predicted_cached_tokens),
        (first.worker, 25 * BLOCK_SIZE)
    );
}

#[test]
fn a_burst_on_idle_workers_spreads_evenly() {
    for mode in ["least-loaded", "round-robin"] {
        let mut state = state(mode, [3, 5, 8, 9]);
        for name in 0..256 {
            place(&mut state, &chain(name, 2));
        }
        let counts: Vec<u32> = state
            .workers(Moment::ZERO)
            .iter()
            .map(|view| view.in_flight)
            .collect();
        assert_eq!(counts, [64; 4], "{mode}");
        assert_eq!((state.spread(), state.in_flight()), (0, 256));
    }
}

#[test]
fn full_workers_are_skipped_and_then_the_request_is_refused() {
    let mut state = State::new(RouterConfig {
        mode: "round-robin".parse().unwrap(),
        queue_limit: 1,
        ..RouterConfig::new(BLOCK_SIZE)
    });
    state
        .join(WorkerCard {
            slots: 1,
            ..card(1)
        })
        .unwrap();
    state
        .join(WorkerCard {
            slots: 2,
            ..card(2)
        })
        .unwrap();
    let prompt = chain(0, 1);
    let claims: Vec<Claim> = (0..5).map(|_| place(&mut state, &prompt)).collect();
    let workers: Vec<u64> = claims.iter().map(|claim| claim.worker.0).collect();
    assert_eq!(workers, [1, 2, 1, 2, 2]);
    assert_eq!((state.total_queued(), state.spread()), (2, 1));
    explained(
        &state,
        expect![[r#"
            #5 r (32 tokens, 1 blocks) round-robin -> worker 2: next in the cycle
            2: overlap 1, prefill 3.00, decode 1, 2/2 in flight
            1: full"#]],
    );
    let unknown = place_but(&mut state, &prompt, &[]).unwrap_err();
    assert_eq!(
        unknown,
        RouteError::Saturated {
            retry_after: Duration::from_secs(1)
        }
    );
    // One place frees in ten seconds, so that is how long the next one takes.
    state.release(&claims[0], at(10));
    place(&mut state, &prompt);
    let query = RouteQuery {
        request: RequestId::new("late"),
        prompt_tokens: 32,
        chain: &prompt,
        excluded: &[],
        identity: Identity::default(),
        priority: 0,
        deadline: None,
    };
    let refused = state.place(&query, at(19)).unwrap_err();
    assert_eq!(
        refused,
        RouteError::Saturated {
            retry_after: Duration::from_secs(10)
        }
    );
    expect!["all workers are full; a slot is expected in 10 s"].assert_eq(&refused.to_string());
    assert_eq!(state.decisions(10).len(), 6, "a refusal is not a decision");
}

#[test]
fn draining_and_tried_workers_take_nothing() {
    let mut state = state("round-robin", [1, 2, 3]);
    let prompt = chain(0, 1);
    let under_way = place(&mut state, &prompt);
    assert!(state.drain(WorkerId(1)));
    assert!(!state.drain(WorkerId(7)));
    assert!(view(&state, 1).draining);
    let placed = place_but(&mut state, &prompt, &[2]).unwrap();
    assert_eq!(placed.worker, WorkerId(3));
    explained(
        &state,
        expect![[r#"
            #2 r (32 tokens, 1 blocks) round-robin -> worker 3: next in the cycle
            3: overlap 0, prefill 1.00, decode 0, 0/64 in flight
            1: draining
            2: tried before"#]],
    );
    let nobody = place_but(&mut state, &prompt, &[2, 3]).unwrap_err();
    assert_eq!(nobody, RouteError::NoWorker);
    expect!["no worker is available"].assert_eq(&nobody.to_string());
    assert!(
        state.release(&under_way, at(1)),
        "what was under way goes on"
    );
    assert_eq!(view(&state, 1).in_flight, 0);
}

#[test]
fn a_worker_that_returns_owes_nothing_to_its_former_life() {
    let mut state = state("kv-blocks", [1]);
    let prompt = chain(0, 5);
    let old = place(&mut state, &prompt);
    state.observe(&stored(1, 0, &prompt));
    assert!(state.leave(WorkerId(1)));
    assert!(!state.leave(WorkerId(1)));
    assert_eq!(
        place_but(&mut state, &prompt, &[]).unwrap_err(),
        RouteError::NoWorker
    );
    state.join(card(1)).unwrap();
    assert_eq!(view(&state, 1).indexed_blocks, 0);
    let new = place(&mut state, &prompt);
    assert_eq!(new.predicted_cached_tokens, 0);
    assert!(state.first_token(&old, 0, at(1)));
    assert!(state.release(&old, at(1)));
    let after = view(&state, 1);
    assert_eq!(
        (
            after.in_flight,
            after.pending_prefill_tokens,
            after.active_blocks
        ),
        (1, 160, 5)
    );
    assert!(state.release(&new, at(1)));
    assert!(!state.release(&new, at(1)), "a claim opens once");
    assert!(!state.first_token(&new, 0, at(1)));
    assert_eq!((view(&state, 1).in_flight, state.in_flight()), (0, 0));
}

#[test]
fn joining_again_replaces_and_a_foreign_block_size_is_refused() {
    let mut state = state("kv-blocks", [1]);
    place(&mut state, &chain(0, 5));
    state
        .join(WorkerCard {
            slots: 8,
            ..card(1)
        })
        .unwrap();
    assert_eq!(
        (view(&state, 1).in_flight, view(&state, 1).card.slots),
        (0, 8)
    );
    let error = state
        .join(WorkerCard {
            blocks: BlockFormat::new(16),
            ..card(2)
        })
        .unwrap_err();
    expect!["worker 2 has blocks of 16 tokens, but this router's have 32"]
        .assert_eq(&error.to_string());
    assert_eq!(state.workers(Moment::ZERO).len(), 1);
}

#[test]
fn the_mode_changes_under_way() {
    let mut state = state("round-robin", [1, 2]);
    let prompt = chain(0, 4);
    let first = place(&mut state, &prompt);
    let second = place(&mut state, &prompt);
    assert_ne!(first.worker, second.worker);
    state.first_token(&second, 0, at(0));
    state.set_mode("kv_blocks".parse().unwrap());
    assert_eq!(state.mode().name(), ModeName::KvBlocks);
    assert_eq!(place(&mut state, &prompt).worker, second.worker);
    state.release(&first, at(1));
    state.release(&second, at(1));
    assert_eq!(state.in_flight(), 1);
}

#[test]
fn a_colliding_chain_leaves_nothing_behind_once_the_worker_is_idle() {
    let mut state = state("kv-blocks", [1]);
    let twice = [BlockHash(7), BlockHash(7)];
    let claim = place(&mut state, &twice);
    state.release(&claim, at(1));
    assert_eq!(view(&state, 1).active_blocks, 0);
    assert_eq!(state.known_blocks(), (0, 0));
}

#[test]
fn a_hundred_workers_are_told_apart() {
    let mut state = state("kv-blocks", 0..100);
    let prompt = chain(0, 50);
    for (worker, blocks) in [(3, 10), (70, 40), (99, 30)] {
        state.observe(&stored(worker, 0, &prompt[..blocks]));
    }
    assert_eq!(place(&mut state, &prompt).worker, WorkerId(70));
    assert!(state.leave(WorkerId(70)));
    assert_eq!(place(&mut state, &prompt).worker, WorkerId(99));
}

#[test]
fn events_of_strangers_are_not_taken_in() {
    let mut state = state("kv-blocks", [1]);
    let outcome = state.observe(&stored(2, 0, &chain(0, 3)));
    assert_eq!(outcome.observed, Observed::Unknown);
    let outcome = state.restore(WorkerId(2), &KvSnapshot::default());
    assert_eq!(outcome.observed, Observed::Unknown);
    assert_eq!(state.known_blocks(), (0, 0));
}
