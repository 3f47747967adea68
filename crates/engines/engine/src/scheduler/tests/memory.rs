//! A pool too small for its batch: steady progress, and readers who know that they wait.

use contract::random::mix;
use contract::{GenerateRequest, TokenChunk, TokenStream};
use proptest::prelude::*;

use super::world::{World, alone, limits, received, request};
use crate::executor::Limits;
use crate::scheduler::admission::REPAYMENT;
use crate::sequence::KEEP_ALIVE_INTERVAL;

/// What a crowd cost.
#[derive(Debug, Default)]
struct Bill {
    generated: u64,
    recomputed: usize,
    preemptions: u64,
    /// Preemptions before what earlier ones cost had been paid for.
    unpaid: u64,
}

/// A request with a prompt of its own that generates `output` tokens.
fn ask(number: u64, prompt: usize, output: u32) -> GenerateRequest {
    let tokens = (0..prompt as u64).map(|at| (mix(number, at, 1) % 5_000) as u32);
    let mut asked = request(&tokens.collect::<Vec<_>>(), output);
    asked.limits.ignore_eos = true;
    asked
}

/// Lets one in every `every` steps and runs until all have ended. Each must get what it would
/// get alone.
fn crowd(limits: Limits, requests: &[GenerateRequest], every: usize) -> Bill {
    let mut world = World::new(limits);
    let mut bill = Bill::default();
    let mut streams: Vec<TokenStream> = Vec::new();
    let (mut coming, mut owed) = (requests.iter(), 0_u64);
    for step in 0.. {
        assert!(step < 1_000_000, "the scheduler never comes to rest");
        if step % every == 0 {
            streams.extend(coming.next().map(|asked| world.submit(asked.clone())));
        }
        if !world.step() && coming.len() == 0 {
            break;
        }
        let status = world.scheduler.status();
        // The step's plan preempts before it admits.
        if status.preemptions > bill.preemptions && owed > 0 {
            bill.unpaid += status.preemptions - bill.preemptions;
        }
        bill.preemptions = status.preemptions;
        let recomputed = world.scheduler.step_totals().recomputed_tokens;
        let paid = (status.output_tokens - bill.generated) * REPAYMENT as u64;
        owed = (owed + recomputed as u64).saturating_sub(paid);
        bill.generated = status.output_tokens;
        bill.recomputed += recomputed;
    }
    for (asked, stream) in requests.iter().zip(&mut streams) {
        assert_eq!(received(stream).0, alone(asked).0);
    }
    bill
}

#[test]
fn a_crowd_that_outgrows_its_memory_does_not_thrash() {
    // Ten times more than fits once all answers are long.
    let limits = Limits {
        total_blocks: 2_000,
        slots: 64,
        max_step_tokens: 256,
        max_context_tokens: 10_000,
        ..limits()
    };
    let requests: Vec<GenerateRequest> = (0..100)
        .map(|number| ask(number, 30 + mix(number, 7, 7) as usize % 60, 1_000))
        .collect();
    let bill = crowd(limits, &requests, 1);
    assert_eq!(bill.generated, 100_000, "everyone has got an answer");
    assert!(bill.preemptions > 0, "{bill:?}");
    assert_eq!(bill.unpaid, 0, "{bill:?}");
    assert!(bill.recomputed as u64 <= bill.generated * REPAYMENT as u64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn nobody_is_preempted_before_the_last_preemption_is_paid_for(
        total_blocks in 60_u32..200,
        slots in 2_u32..20,
        max_step_tokens in 32_u32..100,
        every in 1_usize..20,
        sizes in prop::collection::vec((1_usize..100, 1_u32..120), 1..40),
    ) {
        let limits = Limits { total_blocks, slots, max_step_tokens, ..limits() };
        let requests: Vec<GenerateRequest> = sizes
            .iter()
            .zip(0..)
            .map(|(&(prompt, output), number)| ask(number, prompt, output))
            .collect();
        let bill = crowd(limits, &requests, every);
        prop_assert_eq!(bill.unpaid, 0, "{:?}", bill);
    }
}

/// How many keep-alives have come, and how many tokens.
fn heard(stream: &mut TokenStream) -> (usize, usize) {
    let (mut signs, mut tokens) = (0, 0);
    while let Some(chunk) = stream.try_next() {
        let chunk = chunk.expect("no request fails here");
        signs += usize::from(chunk.is_keep_alive());
        tokens += chunk.tokens.len();
        assert!(chunk.is_keep_alive() || !chunk.tokens.is_empty());
    }
    (signs, tokens)
}

#[test]
fn who_waits_for_a_slot_or_was_preempted_says_that_it_is_alive() {
    // Two of 500 blocks at their end in a pool of 550, and a third without a slot.
    let limits = Limits {
        total_blocks: 550,
        max_context_tokens: 2_000,
        slots: 2,
        ..limits()
    };
    let mut world = World::new(limits);
    let mut streams = [1, 2, 3].map(|number| world.submit(ask(number, 8, 1_992)));
    let mut signs = [0; 3];
    let mut tokens = [0; 3];
    let mut quiet = [world.now; 3];
    let mut ended = false;
    while !ended {
        ended = !world.step();
        for (index, stream) in streams.iter_mut().enumerate() {
            let (new_signs, new_tokens) = heard(stream);
            if new_signs + new_tokens > 0 {
                quiet[index] = world.now;
            }
            assert!(
                tokens[index] == 1_992
                    || world.now - quiet[index] <= KEEP_ALIVE_INTERVAL + KEEP_ALIVE_INTERVAL / 10,
                "request {index} is silent"
            );
            signs[index] += new_signs;
            tokens[index] += new_tokens;
        }
    }
    assert_eq!(tokens, [1_992; 3]);
    assert!(world.scheduler.status().preemptions > 0);
    assert_eq!(signs[0], 0, "who gets tokens needs no other sign");
    assert!(signs[1] > 0, "preempted");
    assert!(signs[2] > 0, "without a slot");
}

#[test]
fn a_long_prompt_says_that_it_is_alive_while_it_is_computed() {
    let limits = Limits {
        max_step_tokens: 4,
        total_blocks: 2_000,
        max_context_tokens: 8_000,
        ..limits()
    };
    let mut world = World::new(limits);
    // 1,500 steps of 10 ms.
    let mut stream = world.submit(ask(1, 6_000, 1));
    let mut signs = Vec::new();
    while world.step() {
        while let Some(chunk) = stream.try_next() {
            signs.push(chunk.unwrap());
        }
    }
    let last = signs.pop().unwrap();
    assert!(last.started.is_some() && last.finish.is_some());
    assert_eq!(signs, [TokenChunk::keep_alive(), TokenChunk::keep_alive()]);
}
