//! Guesses never change what is said, and are made where they pay.

use contract::random::{mix, unit};
use contract::{Sampling, TokenId};
use proptest::prelude::*;

use super::pace::{Acceptance, Pace};
use super::{accept, ngram};
use crate::sampler::{Before, Draw, Sampler};

const TOKENS: usize = 6;

/// What follows a token: a distribution of its own.
fn logits(after: TokenId) -> Vec<f32> {
    let draw = |id: usize| unit(mix(99, u64::from(after), id as u64)) as f32;
    (0..TOKENS).map(|id| draw(id) * 3.0).collect()
}

fn chance(after: TokenId, token: TokenId) -> f64 {
    let logits = logits(after);
    let sum: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
    f64::from(logits[token as usize]).exp() / sum
}

/// Says three tokens after token 0 in speculative steps. `cheat` may change a draw.
fn speak(
    sampler: &mut Sampler,
    seed: u64,
    cheat: impl Fn(TokenId, Option<TokenId>) -> TokenId,
) -> [TokenId; 3] {
    let warm = Sampling::default();
    let mut said = vec![0];
    while said.len() < 4 {
        let last = *said.last().unwrap();
        // Drafts that are often right: the likeliest, twice.
        let likeliest = |after: TokenId| {
            let logits = logits(after);
            (0..TOKENS as u32)
                .max_by(|a, b| logits[*a as usize].total_cmp(&logits[*b as usize]))
                .unwrap()
        };
        let drafts = [likeliest(last), likeliest(likeliest(last))];
        let start = said.len();
        let step = accept(&drafts, |index| {
            let before = if index == 0 { last } else { drafts[index - 1] };
            let draw = Draw {
                sampling: &warm,
                seed,
                position: start + index,
                forbidden: &[],
                before: Before::default(),
            };
            let drawn = sampler.draw(&logits(before), draw)?;
            Ok::<_, crate::sampler::NotFinite>(cheat(drawn, drafts.get(index).copied()))
        });
        said.extend(step.unwrap());
    }
    [said[1], said[2], said[3]]
}

/// Pearson's statistic of a million sentences of three tokens.
fn statistic(cheat: impl Fn(TokenId, Option<TokenId>) -> TokenId) -> f64 {
    let mut sampler = Sampler::default();
    let mut counts = [0u64; TOKENS * TOKENS * TOKENS];
    let sentences = 1_000_000;
    for seed in 0..sentences {
        let [a, b, c] = speak(&mut sampler, seed, &cheat).map(|token| token as usize);
        counts[(a * TOKENS + b) * TOKENS + c] += 1;
    }
    let mut statistic = 0.0;
    for (cell, count) in counts.into_iter().enumerate() {
        let [a, b, c] = [
            cell / TOKENS / TOKENS,
            cell / TOKENS % TOKENS,
            cell % TOKENS,
        ]
        .map(|token| token as u32);
        let mean = chance(0, a) * chance(a, b) * chance(b, c) * sentences as f64;
        statistic += (count as f64 - mean).powi(2) / mean;
    }
    statistic
}

/// The 99.99th percentile with 215 degrees of freedom.
const LIMIT: f64 = 301.0;

#[test]
fn a_million_sentences_have_the_models_distribution() {
    let found = statistic(|drawn, _| drawn);
    assert!(found < LIMIT, "{found}");
}

/// Taking a draft now and then although something else was drawn.
#[test]
fn a_wrong_rule_of_acceptance_is_found_out() {
    let found = statistic(|drawn, draft| match draft {
        Some(draft) if drawn == (draft + 1) % TOKENS as u32 => draft,
        Some(_) | None => drawn,
    });
    assert!(found > 3.0 * LIMIT, "{found}");
}

proptest! {
    #[test]
    fn speculation_says_what_would_have_been_said(
        answer in prop::collection::vec(0u32..4, 1..8),
        drafts in prop::collection::vec(0u32..4, 0..6),
    ) {
        prop_assume!(answer.len() > drafts.len());
        let said = accept(&drafts, |index| Ok::<_, ()>(answer[index])).unwrap();
        prop_assert_eq!(&said[..], &answer[..said.len()]);
        let right = answer.iter().zip(&drafts).take_while(|(one, other)| one == other).count();
        prop_assert_eq!(said.len(), right + 1);
    }
}

#[test]
fn what_followed_once_is_drafted_again() {
    let mut drafts = Vec::new();
    ngram::draft(&[1, 2, 3, 4, 5, 9, 2, 3], 3, &mut drafts);
    assert_eq!(drafts, [4, 5, 9]);
    // The last time counts, and the longer match before the shorter.
    ngram::draft(&[7, 1, 2, 3, 8, 1, 2, 4, 7, 1, 2], 2, &mut drafts);
    assert_eq!(drafts, [3, 8]);
    ngram::draft(&[1, 2, 3], 4, &mut drafts);
    assert!(drafts.is_empty());
    ngram::draft(&[5, 5, 5, 5], 8, &mut drafts);
    assert_eq!(drafts, [5]);
    ngram::draft(&[], 4, &mut drafts);
    assert!(drafts.is_empty());
}

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
    let mut pace = Pace::new(most, true);
    for tokens in (1..40).cycle().take(400) {
        pace.observe(tokens, fixed + each * tokens as f64, 1, 0.0);
        pace.judge(1, 1);
    }
    pace
}

#[test]
fn many_guesses_where_they_are_right_and_cheap_none_where_they_are_not() {
    let cheap = paced(5, 10.0, 0.1);
    let dear = paced(5, 0.0, 1.0);
    assert_eq!(cheap.choose([&learned(0.95)].into_iter()), 5);
    assert_eq!(cheap.choose([&learned(0.0)].into_iter()), 0);
    assert_eq!(dear.choose([&learned(0.95)].into_iter()), 0);
    let between = cheap.choose([&learned(0.5)].into_iter());
    assert!((1..5).contains(&between), "{between}");
}

#[test]
fn guesses_are_tried_in_several_lengths_before_they_must_pay() {
    let mut pace = Pace::new(2, true);
    let mut chosen = Vec::new();
    for _ in 0..24 {
        // A token more doubles the time, and no guess is right: this never pays.
        let drafts = pace.choose([&pace.newcomer()].into_iter());
        chosen.push(drafts);
        pace.observe(1 + drafts, (1 + drafts) as f64, drafts, 0.5);
        pace.judge(drafts, 0);
    }
    assert!(chosen.contains(&1) && chosen.contains(&2) && !chosen.contains(&0));
    assert_eq!(pace.choose([&pace.newcomer()].into_iter()), 0);
    assert!(
        pace.newcomer().rate() < 0.1,
        "newcomers are like the others"
    );
}

#[test]
fn a_sequence_that_got_no_guesses_is_tried_again() {
    let pace = paced(3, 0.0, 1.0);
    let mut acceptance = learned(0.3);
    for _ in 0..40 {
        acceptance.observe(0, 0);
    }
    assert_eq!(pace.choose([&acceptance].into_iter()), 1);
}
