//! The scheduler with a scripted model in place of an executor.

mod crowd;
mod memory;
mod speculation;
mod world;

use std::time::Duration;

use contract::{FinishReason, HashSeed, OutputLimits, TokenId};
use smallvec::SmallVec;

use self::world::{
    EOS, World, alone, answer, first_chunk, limits, natural_length, received, request, spoken,
};
use super::*;
use crate::executor::RowOutput;

#[test]
fn a_long_prompt_is_computed_in_chunks_while_others_decode() {
    let mut world = World::new(limits());
    let _short = world.submit(request(&[1, 2, 3], 100));
    world.step();
    assert_eq!(world.last, [(0, 0, 3, 0)]);
    let long: Vec<TokenId> = (0..70).collect();
    let mut stream = world.submit(request(&long, 5));
    world.step();
    assert_eq!(world.last, [(0, 3, 1, 0), (1, 0, 31, 0)]);
    world.step();
    assert_eq!(world.last, [(0, 4, 1, 0), (1, 31, 31, 0)]);
    assert!(
        stream.try_next().is_none(),
        "no token before the prompt is done"
    );
    world.step();
    assert_eq!(world.last, [(0, 5, 1, 0), (1, 62, 8, 0)]);
    let started = first_chunk(&mut stream);
    assert_eq!(started.prefill, Duration::from_millis(30));
    assert_eq!(started.queue_wait, Duration::ZERO);
    world.step();
    assert_eq!(world.last[1], (1, 70, 1, 0));
}

#[test]
fn a_busy_engine_lets_a_request_join_after_its_intake_steps() {
    let mut world = World::new(Limits {
        intake_steps: 2,
        ..limits()
    });
    let _first = world.submit(request(&[1, 2, 3], 100));
    world.step();
    assert_eq!(world.last, [(0, 0, 3, 0)], "an idle engine starts at once");
    let mut second = world.submit(request(&[4, 5], 100));
    world.step();
    let _third = world.submit(request(&[6], 100));
    world.step();
    assert_eq!(world.last, [(0, 4, 1, 0)]);
    world.step();
    assert_eq!(world.last, [(0, 5, 1, 0), (1, 0, 2, 0)]);
    let started = first_chunk(&mut second);
    assert_eq!(started.intake, Duration::from_millis(20));
    assert_eq!(started.queue_wait, Duration::ZERO);
    world.step();
    assert_eq!(world.last.last(), Some(&(2, 0, 1, 0)));
}

#[test]
fn waiting_for_a_slot_begins_when_a_request_has_been_taken_in() {
    let mut world = World::new(Limits {
        intake_steps: 2,
        slots: 1,
        ..limits()
    });
    let _first = world.submit(request(&[1, 2, 3], 6));
    world.step();
    let mut second = world.submit(request(&[4, 5], 1));
    world.run();
    let started = first_chunk(&mut second);
    assert_eq!(started.intake, Duration::from_millis(20));
    assert_eq!(started.queue_wait, Duration::from_millis(30));
    assert_eq!(started.wait(), Duration::from_millis(50));
}

#[test]
fn the_second_turn_finds_the_first_turns_full_blocks() {
    let mut world = World::new(limits());
    let prompt: Vec<TokenId> = (0..10).collect();
    let mut first = request(&prompt, 11);
    first.limits.ignore_eos = true;
    let mut stream = world.submit(first);
    world.run();
    let (answer, ..) = received(&mut stream);
    assert_eq!(answer.len(), 11);
    let mut second = prompt.clone();
    second.extend(&answer);
    second.extend([77, 78, 79, 80, 81]);
    // 10 prompt tokens and 11 generated, of which the last was never computed: 20 tokens.
    let mut stream = world.submit(request(&second, 3));
    world.step();
    assert_eq!(world.last, [(1, 20, second.len() - 20, 0)]);
    assert_eq!(first_chunk(&mut stream).cached_tokens, 20);
    let status = world.scheduler.status();
    assert_eq!((status.prompt_tokens, status.cached_tokens), (10 + 26, 20));
}

#[test]
fn a_fully_cached_prompt_still_computes_its_last_token() {
    let mut world = World::new(limits());
    let prompt: Vec<TokenId> = (0..16).collect();
    let _first = world.submit(request(&prompt, 2));
    world.run();
    let mut stream = world.submit(request(&prompt, 2));
    world.step();
    assert_eq!(world.last, [(1, 12, 4, 0)]);
    assert_eq!(first_chunk(&mut stream).cached_tokens, 12);
}

#[test]
fn caches_of_different_seeds_are_separate() {
    let mut world = World::new(limits());
    let prompt: Vec<TokenId> = (0..16).collect();
    let _first = world.submit(request(&prompt, 2));
    world.run();
    let salted = HashSeed::new("", "someone else");
    let _second = world.submit(GenerateRequest {
        hash_seed: salted,
        ..request(&prompt, 2)
    });
    world.step();
    assert_eq!(world.last, [(1, 0, 16, 0)]);
}

#[test]
fn a_block_is_reusable_only_once_its_last_token_is_computed() {
    let mut world = World::new(limits());
    let _stream = world.submit(request(&[1, 2, 3], 50));
    world.step();
    assert_eq!(
        world.scheduler.pool().reusable().len(),
        0,
        "the fourth token is only sampled"
    );
    world.step();
    assert_eq!(world.scheduler.pool().reusable().len(), 1);
}

#[test]
fn how_answers_end() {
    // The natural answer to [1] has four tokens.
    assert_eq!(natural_length(&[1]), 4);
    let check = |edit: &dyn Fn(&mut OutputLimits), length, sizes: &[usize], reason| {
        let mut world = World::new(limits());
        let mut asked = request(&[1], 100);
        edit(&mut asked.limits);
        let mut stream = world.submit(asked);
        world.run();
        let (tokens, chunks, finish) = received(&mut stream);
        assert_eq!((tokens.len(), finish), (length, Some(reason)));
        assert_eq!(chunks, sizes);
        assert!(!tokens.contains(&EOS));
    };
    check(&|_| {}, 4, &[1, 1, 1, 1, 0], FinishReason::Stop);
    check(
        &|limits| limits.max_tokens = 2,
        2,
        &[1, 1],
        FinishReason::Length,
    );
    check(
        &|limits| limits.max_tokens = 4,
        4,
        &[1; 4],
        FinishReason::Length,
    );
    check(
        &|limits| limits.min_tokens = 6,
        6,
        &[1, 1, 1, 1, 1, 1, 0],
        FinishReason::Stop,
    );
    check(
        &|limits| (limits.ignore_eos, limits.max_tokens) = (true, 9),
        9,
        &[1; 9],
        FinishReason::Length,
    );
}

#[test]
fn end_of_text_in_a_draft_finishes_with_the_last_token() {
    let mut world = World::new(Limits {
        draft_tokens: 5,
        ..limits()
    });
    // Seven tokens stay, and the eighth that was computed must not fill their block.
    let asked = request(&[1, 1, 1], 100);
    let mut stream = world.submit(asked.clone());
    world.step();
    // Speak for the model: three accepted drafts, then the end, then a draft too many.
    let batch = world.scheduler.plan(world.now).unwrap();
    assert_eq!((batch.rows[0].count, batch.rows[0].drafts), (1, 5));
    let tokens = SmallVec::from_slice(&[11, 12, 13, EOS, 14]);
    world.scheduler.commit(
        StepOutput {
            rows: vec![RowOutput {
                tokens,
                logprobs: Vec::new(),
                drafted: 5,
            }],
            ..StepOutput::default()
        },
        world.now,
    );
    world.hear();
    world.scheduler.deliver();
    let (tokens, sizes, finish) = received(&mut stream);
    assert_eq!(tokens, [spoken(&asked, 0), 11, 12, 13]);
    assert_eq!((sizes, finish), (vec![1, 3], Some(FinishReason::Stop)));
    assert_eq!(world.scheduler.status().speculation.accepted_tokens, 3);
    assert_eq!(world.scheduler.pool().reusable().len(), 1);
    assert!(world.scheduler.is_idle());
}

#[test]
fn drafts_never_run_past_the_length_limit() {
    let mut world = World::new(Limits {
        draft_tokens: 5,
        ..limits()
    });
    let _stream = world.submit(request(&[1], 3));
    world.step();
    world
        .scheduler
        .plan(world.now)
        .expect("two tokens are left");
    assert_eq!(world.scheduler.planned[0].drafts, 1);
}

#[test]
fn a_reader_that_leaves_frees_slot_and_blocks_in_the_next_step() {
    let mut world = World::new(Limits {
        slots: 2,
        ..limits()
    });
    let running = world.submit(request(&[1, 2, 3], 100));
    let _other = world.submit(request(&[4, 5, 6], 100));
    let waiting = world.submit(request(&[7, 8, 9], 100));
    let _last = world.submit(request(&[10, 11, 12], 100));
    world.step();
    assert_eq!(
        (
            world.scheduler.status().running,
            world.scheduler.status().waiting
        ),
        (2, 2)
    );
    drop(running);
    drop(waiting);
    world.step();
    assert_eq!(
        (
            world.scheduler.status().running,
            world.scheduler.status().waiting
        ),
        (2, 0)
    );
    let sequences: Vec<u64> = world.last.iter().map(|row| row.0).collect();
    assert_eq!(
        sequences,
        [1, 3],
        "the freed slot is taken in the same step"
    );
    let left = world.scheduler.drain_milestones();
    let cancelled = left.filter(|m| matches!(m, Milestone::Left { finish: None, .. }));
    assert_eq!(cancelled.count(), 2);
}

#[test]
fn the_latest_is_preempted_and_goes_on_where_it_was() {
    // Two sequences of up to seven blocks in a pool of eight, and one that waits for a slot.
    let mut world = World::new(Limits {
        total_blocks: 8,
        slots: 2,
        ..limits()
    });
    let ask = |seed: TokenId| {
        let mut asked = request(&[seed; 8], 20);
        asked.limits.ignore_eos = true;
        asked
    };
    let mut streams = [1, 2, 3].map(|seed| world.submit(ask(seed)));
    while world.scheduler.status().preemptions == 0 {
        assert!(world.step());
    }
    let waiting: Vec<u64> = world
        .scheduler
        .waiting
        .iter()
        .map(|waiting| waiting.id.0)
        .collect();
    assert_eq!(waiting, [1, 2], "back at the head of the queue");
    world.run();
    for (stream, seed) in streams.iter_mut().zip([1, 2, 3]) {
        let (tokens, _, finish) = received(stream);
        assert_eq!(
            tokens,
            alone(&ask(seed)).0,
            "no token is lost or sent twice"
        );
        assert_eq!(finish, Some(FinishReason::Length));
    }
    assert_eq!(world.scheduler.pool().occupancy().active, 0);
    let status = world.scheduler.status();
    assert_eq!(
        (status.prompt_tokens, status.cached_tokens),
        (24, 0),
        "counted once"
    );
}

#[test]
fn nobody_is_admitted_into_a_pool_without_room_to_grow() {
    let mut world = World::new(Limits {
        total_blocks: 8,
        ..limits()
    });
    let _small = world.submit(request(&[1; 8], 5));
    let _large = world.submit(request(&[2; 24], 4));
    world.step();
    assert_eq!(
        world.last,
        [(0, 0, 8, 0)],
        "six blocks are free, but the first will want one"
    );
    world.run();
    assert_eq!(world.scheduler.status().preemptions, 0);
    assert_eq!(world.scheduler.status().prompt_tokens, 32);
}

#[test]
fn what_could_never_fit_is_refused() {
    let tight = Limits {
        total_blocks: 4,
        max_context_tokens: 1_000,
        ..limits()
    };
    let short = Limits {
        max_context_tokens: 12,
        ..limits()
    };
    for (limits, prompt, max_tokens, admitted) in [
        (&tight, 10, 6, true),
        (&tight, 10, 7, false),
        (&short, 10, 2, true),
        (&short, 10, 3, false),
        (&tight, 0, 1, false),
    ] {
        let mut world = World::new(limits.clone());
        let mut stream = world.submit(request(&vec![1; prompt], max_tokens));
        assert_eq!(world.scheduler.is_idle(), !admitted);
        if !admitted {
            let error = stream.try_next().unwrap().unwrap_err();
            assert!(matches!(
                error,
                LinkError::TooLarge {
                    worker: WorkerId(1),
                    ..
                }
            ));
        }
        world.run();
    }
}

#[test]
fn a_token_that_the_model_does_not_have_is_refused_by_name() {
    let small = Limits {
        vocabulary: 100,
        ..limits()
    };
    let mut known = request(&[1, 99], 5);
    assert_eq!(small.check(WorkerId(1), &known), Ok(()));
    known.answered = [3, 100].into();
    for refused in [known, request(&[1, 100], 5)] {
        let error = small.check(WorkerId(1), &refused).unwrap_err().to_string();
        assert!(
            error.contains("token 100 is not in the vocabulary of 100"),
            "{error}"
        );
    }
}

#[test]
fn a_reset_forgets_the_cache_but_disturbs_nobody() {
    let mut world = World::new(limits());
    let prompt: Vec<TokenId> = (0..12).collect();
    let asked = request(&prompt, 30);
    let mut stream = world.submit(asked.clone());
    world.step();
    world.scheduler.reset_cache();
    world.hear();
    assert_eq!(world.scheduler.pool().reusable(), []);
    world.run();
    assert_eq!(received(&mut stream).0, alone(&asked).0);
    assert_eq!(
        world.scheduler.pool().reusable(),
        [],
        "its prefix was forgotten"
    );
    let mut again = world.submit(asked);
    world.step();
    assert_eq!(first_chunk(&mut again).cached_tokens, 0);
}

#[test]
fn the_status_adds_up_memory() {
    let mut world = World::new(limits());
    let _stream = world.submit(request(&[1; 9], 1));
    assert_eq!(world.scheduler.status().gpu_memory_used_bytes, 1_000);
    world.run();
    let status = world.scheduler.status();
    assert_eq!(
        (
            status.active_blocks,
            status.cached_blocks,
            status.free_blocks
        ),
        (0, 2, 62)
    );
    assert_eq!(status.gpu_memory_used_bytes, 1_020);
}

#[test]
fn a_sequence_that_cannot_be_computed_ends_alone_and_leaves_nothing_to_find() {
    let mut world = World::new(limits());
    let mut sound = world.submit(request(&[1; 8], 5));
    let mut poisoned = world.submit(request(&[2; 9], 5));
    world.step();
    let before = world.reusable.len();
    let batch = world.scheduler.plan(world.now).unwrap();
    let mut output = StepOutput {
        rows: batch.rows.iter().map(answer).collect(),
        ..StepOutput::default()
    };
    output.rows[1] = RowOutput::default();
    let missing = output.clone().check(&batch);
    assert!(missing.is_err(), "a row without a token has failed");
    let detail = "not a number".to_owned();
    output.failed.push(FailedRow { row: 1, detail });
    let output = output.check(&batch).unwrap();
    world.scheduler.commit(output, world.now);
    world.hear();
    world.scheduler.deliver();
    assert_eq!((before, world.reusable.len()), (4, 2));
    assert!(poisoned.try_next().unwrap().is_ok(), "its first token");
    let error = poisoned.try_next().unwrap().unwrap_err();
    assert!(matches!(error, LinkError::Failed { .. }), "{error}");
    assert_eq!(world.scheduler.status().running, 1);
    let failures = world.scheduler.drain_milestones();
    let failures = failures.filter(|one| matches!(one, Milestone::Failed { .. }));
    assert_eq!(failures.count(), 1);
    world.run();
    assert_eq!(received(&mut sound).0, alone(&request(&[1; 8], 5)).0);
    assert_eq!(world.scheduler.pool().occupancy().active, 0);
    // The same prompt is computed again.
    let mut again = world.submit(request(&[2; 9], 1));
    world.run();
    assert_eq!(first_chunk(&mut again).cached_tokens, 0);
}
