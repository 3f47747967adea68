//! From a distribution to a token.
//!
//! A draw depends on the logits, the request's options and (seed, position) alone. Neither
//! the batch nor speculation can therefore change what is said: a draft is accepted if and
//! only if it is what would have been drawn anyway. That is rejection sampling for a draft
//! that is certain of itself: it is accepted with the target's probability, and what comes
//! instead has the target's distribution without it. Penalties count what was said before the
//! token, drafts that were accepted included, so they change nothing of that.

#[cfg(test)]
mod tests;

use contract::random::{mix, unit};
use contract::{Penalties, Sampling, TokenId, TokenLogprob};
use grammar::Mask;

/// Separates these draws from others with the same seed.
const DRAWS: u64 = 0x5a3e;
/// How many of the likeliest are sorted first; more only if they are needed.
const FIRST_SORTED: usize = 256;

/// A distribution with a number that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the model computed a number that is not finite")]
pub struct NotFinite;

/// What a draw is about.
#[derive(Clone, Copy, Debug)]
pub struct Draw<'a> {
    pub sampling: &'a Sampling,
    pub seed: u64,
    /// Of the token in the answer.
    pub position: usize,
    /// Tokens that must not come.
    pub forbidden: &'a [TokenId],
    /// The only tokens that may come, where the answer has a grammar.
    pub allowed: Option<&'a Mask>,
    pub before: Before<'a>,
}

/// The numbers by which one token is drawn from logits: all that a draw depends on where nothing changes
/// its logits but tokens that are forbidden.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pick {
    /// The share of all weights that lies before the token's place.
    pub share: f64,
    /// What differences of logits are multiplied by; 0 takes the likeliest token.
    pub scale: f64,
    pub min_p: f64,
    pub top_p: f64,
    /// 0 for any number.
    pub top_k: u32,
}

impl Pick {
    fn is_likeliest(&self) -> bool {
        self.scale == 0.0
    }
}

/// What precedes a draw, in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Before<'a> {
    pub prompt: &'a [TokenId],
    /// Tokens of the answer before this step.
    pub said: &'a [TokenId],
    /// Drafts of this step that were accepted.
    pub accepted: &'a [TokenId],
}

impl Draw<'_> {
    /// Its numbers.
    pub fn pick(&self) -> Pick {
        let sampling = self.sampling;
        Pick {
            share: unit(mix(self.seed, DRAWS, self.position as u64)),
            scale: match sampling.temperature <= 0.0 {
                true => 0.0,
                false => 1.0 / f64::from(sampling.temperature),
            },
            min_p: f64::from(sampling.min_p),
            top_p: f64::from(sampling.top_p),
            top_k: sampling.top_k.unwrap_or(0),
        }
    }

    /// Whether it depends on the logits, [`Pick`] and forbidden tokens alone, and all numbers are such
    /// that the likeliest token has a weight.
    pub fn is_plain(&self) -> bool {
        let sampling = self.sampling;
        self.allowed.is_none()
            && sampling.penalties.are_none()
            && sampling.logit_bias.is_empty()
            && sampling.temperature.is_finite()
            && sampling.top_p.is_finite()
            && (0.0..=1.0).contains(&sampling.min_p)
    }
}

impl<'a> Before<'a> {
    fn answer(self) -> impl Iterator<Item = TokenId> + Clone + 'a {
        self.said.iter().chain(self.accepted).copied()
    }
}

/// Draws tokens; keeps its memory between draws.
#[derive(Debug, Default)]
pub struct Sampler {
    /// Scaled logits, likeliest first as far as sorted.
    candidates: Vec<(f32, TokenId)>,
    scratch: Vec<f32>,
    /// How often the answer has each token that came before; all `None` between draws.
    counts: Vec<Option<u32>>,
}

impl Sampler {
    pub fn draw(&mut self, logits: &[f32], draw: Draw<'_>) -> Result<TokenId, NotFinite> {
        let as_they_are = draw.forbidden.is_empty()
            && draw.allowed.is_none()
            && draw.sampling.logit_bias.is_empty()
            && draw.sampling.penalties.are_none();
        if !as_they_are {
            self.scratch.clear();
            self.scratch.extend_from_slice(logits);
            self.penalise(&draw.sampling.penalties, draw.before);
            for (token, bias) in &*draw.sampling.logit_bias {
                if let Some(logit) = self.scratch.get_mut(*token as usize) {
                    *logit += bias;
                }
            }
            if let Some(allowed) = draw.allowed {
                allowed.apply(&mut self.scratch);
            }
            forbid(&mut self.scratch, draw.forbidden);
            let scratch = std::mem::take(&mut self.scratch);
            let drawn = self.pick(&scratch, draw.pick());
            self.scratch = scratch;
            return drawn;
        }
        self.pick(logits, draw.pick())
    }

    /// Draws from logits as they are.
    pub fn pick(&mut self, logits: &[f32], by: Pick) -> Result<TokenId, NotFinite> {
        let largest = largest(logits)?;
        if by.is_likeliest() {
            let best = logits.iter().position(|logit| *logit == largest);
            return best.map(|best| best as TokenId).ok_or(NotFinite);
        }
        let weight = |logit: f32| {
            let weight = ((f64::from(logit) - f64::from(largest)) * by.scale).exp();
            // The likeliest weighs 1.
            if weight < by.min_p { 0.0 } else { weight }
        };
        let cut = by.top_p < 1.0 || by.top_k > 0;
        if !cut {
            let total: f64 = logits.iter().map(|logit| weight(*logit)).sum();
            let all = logits
                .iter()
                .zip(0..)
                .map(|(logit, id)| (weight(*logit), id));
            return at_place(all, by.share * total).ok_or(NotFinite);
        }
        self.candidates.clear();
        self.candidates.extend(logits.iter().copied().zip(0..));
        let kept = keep(&mut self.candidates, by, weight);
        let kept = &self.candidates[..kept];
        let total: f64 = kept.iter().map(|(logit, _)| weight(*logit)).sum();
        let kept = kept.iter().map(|(logit, id)| (weight(*logit), *id));
        at_place(kept, by.share * total).ok_or(NotFinite)
    }

    /// Makes what has come before less likely.
    fn penalise(&mut self, penalties: &Penalties, before: Before<'_>) {
        if penalties.are_none() {
            return;
        }
        let vocabulary = self.scratch.len();
        self.counts.resize(vocabulary, None);
        let known = |token: &TokenId| (*token as usize) < vocabulary;
        let prompt = before.prompt.iter().copied().filter(known);
        let answer = before.answer().filter(known);
        for token in prompt.clone() {
            self.counts[token as usize] = Some(0);
        }
        for token in answer.clone() {
            *self.counts[token as usize].get_or_insert(0) += 1;
        }
        for token in prompt.chain(answer) {
            // Gone with the first time that it is met.
            let Some(count) = self.counts[token as usize].take() else {
                continue;
            };
            let logit = &mut self.scratch[token as usize];
            *logit = match *logit > 0.0 {
                true => *logit / penalties.repetition,
                false => *logit * penalties.repetition,
            };
            if count > 0 {
                *logit -= penalties.presence + penalties.frequency * count as f32;
            }
        }
    }
}

/// Makes tokens impossible.
pub fn forbid(logits: &mut [f32], tokens: &[TokenId]) {
    for token in tokens {
        if let Some(logit) = logits.get_mut(*token as usize) {
            *logit = f32::NEG_INFINITY;
        }
    }
}

/// The largest logit, if all are numbers.
fn largest(logits: &[f32]) -> Result<f32, NotFinite> {
    // A number that is none makes the sum one too, and so does an infinite one.
    let mut largest = f32::NEG_INFINITY;
    let mut nan = false;
    for logit in logits {
        largest = largest.max(*logit);
        nan |= logit.is_nan();
    }
    if nan || !largest.is_finite() {
        return Err(NotFinite);
    }
    Ok(largest)
}

/// Sorts the likeliest to the front and says how many of them stay.
fn keep(candidates: &mut [(f32, TokenId)], by: Pick, weight: impl Fn(f32) -> f64) -> usize {
    let likelier = |one: &(f32, TokenId), other: &(f32, TokenId)| {
        other.0.total_cmp(&one.0).then(one.1.cmp(&other.1))
    };
    let most = match by.top_k {
        0 => candidates.len(),
        top_k => candidates.len().min(top_k as usize),
    };
    let mut sorted = FIRST_SORTED.min(most);
    loop {
        if sorted < candidates.len() {
            candidates.select_nth_unstable_by(sorted - 1, likelier);
        }
        candidates[..sorted].sort_unstable_by(likelier);
        // The share is one of what the first cut leaves.
        let total: f64 = if most == candidates.len() {
            candidates.iter().map(|(logit, _)| weight(*logit)).sum()
        } else if sorted == most {
            candidates[..most]
                .iter()
                .map(|(logit, _)| weight(*logit))
                .sum()
        } else {
            f64::INFINITY
        };
        let enough = by.top_p * total;
        let mut sum = 0.0;
        let reached = candidates[..sorted].iter().position(|(logit, _)| {
            sum += weight(*logit);
            sum >= enough
        });
        match reached {
            Some(last) => return last + 1,
            None if sorted == most => return most,
            None => sorted = (sorted * 8).min(most),
        }
    }
}

/// The token at `place` on a line of the weights.
fn at_place(weights: impl Iterator<Item = (f64, TokenId)>, place: f64) -> Option<TokenId> {
    let mut sum = 0.0;
    let mut last = None;
    for (weight, id) in weights {
        sum += weight;
        if weight > 0.0 {
            last = Some(id);
        }
        if place < sum {
            return Some(id);
        }
    }
    // Rounding can leave the place just behind the end.
    last
}

/// The logarithm of `token`'s probability and of the `top` likeliest, by the model itself:
/// before temperature and cuts.
pub fn log_probabilities(logits: &[f32], token: TokenId, top: usize) -> TokenLogprob {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits
        .iter()
        .map(|logit| f64::from(logit - largest).exp())
        .sum();
    let log = |logit: f32| (f64::from(logit - largest) - sum.ln()) as f32;
    let mut likeliest: Vec<(TokenId, f32)> = Vec::with_capacity(top + 1);
    for (id, logit) in (0..).zip(logits) {
        let place = likeliest.partition_point(|(_, other)| other >= logit);
        if place < top {
            likeliest.insert(place, (id, *logit));
            likeliest.truncate(top);
        }
    }
    TokenLogprob {
        logprob: log(logits[token as usize]),
        top: likeliest
            .into_iter()
            .map(|(id, logit)| (id, log(logit)))
            .collect(),
    }
}
