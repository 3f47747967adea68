//! From distributions to the tokens of an answer, whatever computed the distributions.
//!
//! | module | what it does |
//! |---|---|
//! | [`sampler`] | draws one token from one distribution |
//! | [`context`] | what all draws of one request have in common |
//! | [`ngram`] | drafts what followed the same tokens earlier |
//!
//! [`accept`] is the only place that decides which drafts become part of an answer. Draws depend on
//! (seed, position) alone, so neither the batch nor speculation changes an answer, and an answer that
//! moves to another worker goes on with the same draws.

pub mod context;
pub mod ngram;
pub mod sampler;
#[cfg(test)]
mod tests;

use contract::TokenId;
use grammar::GrammarError;
use smallvec::SmallVec;

pub use context::RequestContext;
pub use sampler::{Draw, NotFinite, Pick, Sampler, forbid, log_probabilities};

/// Why no token could be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrawError {
    #[error(transparent)]
    NotFinite(#[from] NotFinite),
    #[error("the answer cannot follow its grammar: {0}")]
    Grammar(#[from] GrammarError),
}

/// The tokens of one step of one request.
pub type StepTokens = SmallVec<[TokenId; 4]>;

/// The tokens that a step adds: `draw` returns the token after the first `index` drafts, drawn
/// as without speculation. A draft is accepted if it is what was drawn. The first that is not
/// ends the step, with what was drawn in its place.
pub fn accept<E>(
    drafts: &[TokenId],
    mut draw: impl FnMut(usize) -> Result<TokenId, E>,
) -> Result<StepTokens, E> {
    let mut tokens = StepTokens::new();
    for index in 0..=drafts.len() {
        let token = draw(index)?;
        tokens.push(token);
        if drafts.get(index) != Some(&token) {
            break;
        }
    }
    Ok(tokens)
}

/// The index of the largest logit, the first of equals: what a drafter guesses.
pub fn likeliest(logits: &[f32]) -> usize {
    let mut best = 0;
    for (place, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = place;
        }
    }
    best
}
