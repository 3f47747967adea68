//! Drafts never change an answer.

use contract::random::{mix, unit};
use contract::{Sampling, TokenId};
use proptest::prelude::*;

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
                allowed: None,
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
