//! What is counted of drafts, for the worker and for each request.

use contract::{PositionCounts, RequestSpeculation, TokenStream};

use super::*;
use crate::executor::Drafting;

const DRAFTS: u32 = 4;

/// What one step of decoding says, and how many tokens were drafted for it.
type Said<'a> = (&'a [TokenId], usize);

/// A world after the prefill of one request, which says token 1.
fn speculating(max_tokens: u32) -> (World, TokenStream) {
    let mut world = World::new(Limits {
        draft_tokens: DRAFTS,
        ..limits()
    });
    let stream = world.submit(request(&[1, 2, 3], max_tokens));
    say(&mut world, (&[1], 0));
    (world, stream)
}

fn say(world: &mut World, (tokens, drafted): Said<'_>) {
    let batch = world.scheduler.plan(world.now).unwrap();
    let output = StepOutput {
        rows: vec![RowOutput {
            tokens: SmallVec::from_slice(tokens),
            logprobs: Vec::new(),
            drafted,
        }],
        failed: Vec::new(),
        draft_time: Duration::from_millis(drafted as u64),
        catch_up_time: Duration::ZERO,
        forward_time: Duration::from_millis(7),
    };
    let output = output.check(&batch).expect("the script keeps the contract");
    world.now += Duration::from_millis(10);
    world.scheduler.commit(output, world.now);
    world.hear();
    world.scheduler.deliver();
}

/// Plays `steps` and compares drafted and accepted tokens by position. The request's own
/// figures must add up to the same.
#[track_caller]
fn check(max_tokens: u32, steps: &[Said<'_>], expected: &[(u64, u64)]) {
    let (mut world, mut stream) = speculating(max_tokens);
    for &said in steps {
        say(&mut world, said);
    }
    let counts = world.scheduler.status().speculation;
    let positions: Vec<_> = counts
        .positions
        .iter()
        .map(|one: &PositionCounts| (one.drafted_tokens, one.accepted_tokens))
        .collect();
    assert_eq!(positions, expected, "{steps:?}");
    let drafts = steps.iter().filter(|(_, drafted)| *drafted > 0).count();
    let drafted: u64 = expected.iter().map(|(drafted, _)| drafted).sum();
    let accepted: u64 = expected.iter().map(|(_, accepted)| accepted).sum();
    assert_eq!(counts.drafts, drafts as u64);
    assert_eq!(
        (counts.drafted_tokens, counts.accepted_tokens),
        (drafted, accepted)
    );

    let mut answer = 0;
    let mut told = None;
    while let Some(chunk) = stream.try_next() {
        let chunk = chunk.expect("no request fails here");
        answer += chunk.tokens.len() as u64;
        assert!(told.is_none() && (chunk.speculation.is_none() || chunk.finish.is_some()));
        told = chunk.speculation;
    }
    let own = RequestSpeculation {
        drafts: drafts as u32,
        drafted_tokens: drafted as u32,
        accepted_tokens: accepted as u32,
    };
    assert!(
        accepted < answer,
        "each step says a token of its own or ends"
    );
    let ended = world.scheduler.is_idle();
    assert_eq!(told, (ended && drafts > 0).then_some(own), "{steps:?}");
}

#[test]
fn tokens_are_counted_by_their_place_in_the_draft() {
    check(9, &[(&[2], 0), (&[3], 0)], &[]);
    check(9, &[(&[2], 1)], &[(1, 0)]);
    check(9, &[(&[2], 3)], &[(1, 0), (1, 0), (1, 0)]);
    check(9, &[(&[2, 3], 3)], &[(1, 1), (1, 0), (1, 0)]);
    check(9, &[(&[2, 3, 4], 2)], &[(1, 1), (1, 1)]);
    check(
        20,
        &[
            (&[2, 3, 4], 3),
            (&[5], 1),
            (&[6], 0),
            (&[7, 8, 9, 10, 11], 4),
        ],
        &[(3, 2), (2, 2), (2, 1), (1, 1)],
    );
}

#[test]
fn a_request_is_told_at_its_end() {
    check(4, &[(&[2, 3], 2), (&[4], 0)], &[(1, 1), (1, 0)]);
    check(2, &[(&[2], 0)], &[]);
}

#[test]
fn nothing_counts_as_kept_that_was_not_said() {
    // The end in place of the second draft, and in place of the first.
    check(9, &[(&[2, EOS], 3)], &[(1, 1), (1, 0), (1, 0)]);
    check(9, &[(&[EOS], 3)], &[(1, 0), (1, 0), (1, 0)]);
    // Drafts behind the end.
    check(9, &[(&[2, EOS, 4, 5], 3)], &[(1, 1), (1, 0), (1, 0)]);
    check(9, &[(&[EOS, 3, 4], 2)], &[(1, 0), (1, 0)]);
    // The length limit leaves room for two of them, and the last is none of the drafts.
    check(3, &[(&[2, 3], 1)], &[(1, 1)]);
}

#[test]
fn the_time_of_drafts_and_the_length_in_use_are_told() {
    let (mut world, _stream) = speculating(20);
    let told = |world: &World| {
        let status = world.scheduler.status();
        let counts = status.speculation;
        let times = [status.step_time, counts.draft_time, counts.verify_time];
        (times.map(|time| time.as_millis()), counts.draft_length)
    };
    assert_eq!(told(&world), ([10, 0, 0], 0));
    say(&mut world, (&[2], 3));
    assert_eq!(told(&world), ([20, 3, 7], 3));
    say(&mut world, (&[3], 1));
    assert_eq!(told(&world), ([30, 4, 14], 1));
    say(&mut world, (&[4], 0));
    assert_eq!(
        told(&world),
        ([40, 4, 14], 1),
        "a pause is no change of mind"
    );
}

#[test]
fn a_preempted_request_keeps_its_figures() {
    let mut world = World::new(Limits {
        draft_tokens: 2,
        total_blocks: 8,
        slots: 2,
        ..limits()
    });
    let mut streams = [1, 2].map(|seed| {
        let mut asked = request(&[seed; 8], 20);
        asked.limits.ignore_eos = true;
        world.submit(asked)
    });
    world.run();
    let status = world.scheduler.status();
    assert!(status.preemptions > 0, "two of up to seven blocks each");
    let mut total = RequestSpeculation::default();
    for stream in &mut streams {
        while let Some(chunk) = stream.try_next() {
            total.add(chunk.unwrap().speculation.unwrap_or_default());
        }
    }
    let counts = status.speculation;
    assert_eq!(
        [total.drafts, total.drafted_tokens, total.accepted_tokens].map(u64::from),
        [counts.drafts, counts.drafted_tokens, counts.accepted_tokens]
    );
}

/// Three sequences that decode, and a prompt that is longer than a step: the tokens that each row
/// of the step after its arrival computes, and its drafts.
fn beside_a_prompt(drafting: Drafting) -> Vec<(usize, usize)> {
    let mut world = World::new(Limits {
        draft_tokens: DRAFTS,
        drafting,
        ..limits()
    });
    let _decoding = [1, 2, 3].map(|seed| {
        let mut asked = request(&[seed; 3], 50);
        asked.limits.ignore_eos = true;
        world.submit(asked)
    });
    world.step();
    world.step();
    let drafts: Vec<usize> = world.last.iter().map(|row| row.3).collect();
    assert_eq!(drafts, [DRAFTS as usize; 3], "nobody else is there");
    let _prompt = world.submit(request(&[7; 100], 5));
    world.step();
    world.last.iter().map(|row| (row.2, row.3)).collect()
}

#[test]
fn a_prompt_gets_the_whole_rest_of_a_step() {
    let rest = limits().max_step_tokens as usize - 3;
    let expected = [(1, 0), (1, 0), (1, 0), (rest, 0)];
    assert_eq!(beside_a_prompt(Drafting::WithoutPrompts), expected);
}

/// As simulated executors do, whose published figures rest on it.
#[test]
fn who_drafts_in_every_step_leaves_a_prompt_the_less() {
    let (drafts, rest) = (DRAFTS as usize, limits().max_step_tokens as usize - 15);
    let expected = [(1, drafts), (1, drafts), (1, drafts), (rest, 0)];
    assert_eq!(beside_a_prompt(Drafting::EveryStep), expected);
}

/// Steps of one sequence in which so many of its drafts are right, each token taking `each`: the
/// drafts of the last twenty.
fn learned(right: usize, each: Duration) -> Vec<usize> {
    let mut world = World::new(Limits {
        draft_tokens: DRAFTS,
        drafting: Drafting::WherePays,
        total_blocks: 300,
        ..limits()
    });
    let mut asked = request(&[1, 2, 3], 900);
    asked.limits.ignore_eos = true;
    let _stream = world.submit(asked);
    world.step();
    let mut drafts = Vec::new();
    for _ in 0..100 {
        let batch = world.scheduler.plan(world.now).unwrap();
        let drafted = batch.rows[0].drafts;
        drafts.push(drafted);
        let output = StepOutput {
            rows: vec![RowOutput {
                tokens: (0..=right.min(drafted) as TokenId).collect(),
                logprobs: Vec::new(),
                drafted,
            }],
            forward_time: Duration::from_millis(1) + each * (1 + drafted as u32),
            ..StepOutput::default()
        };
        world.now += Duration::from_millis(10);
        let output = output.check(&batch).expect("the script keeps the contract");
        world.scheduler.commit(output, world.now);
        world.hear();
        world.scheduler.deliver();
    }
    drafts.split_off(80)
}

#[test]
fn drafts_are_asked_for_where_they_pay() {
    let most = DRAFTS as usize;
    assert_eq!(learned(most, Duration::from_micros(10)), [most; 20]);
    let seldom = learned(0, Duration::from_millis(1));
    assert!(seldom.iter().sum::<usize>() <= 1, "{seldom:?}");
}
