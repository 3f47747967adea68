//! Guessing tokens ahead, and what becomes of the guesses.
//!
//! | module | what it does |
//! |---|---|
//! | [`ngram`] | guesses that what followed once follows again |
//! | [`pace`] | how many guesses pay |
//!
//! [`accept`] is the only place that decides what is said.

pub(crate) mod ngram;
pub mod pace;
#[cfg(test)]
mod tests;

use contract::TokenId;
use smallvec::SmallVec;

/// The tokens that a step says: `draw` gives the token after the first `index` drafts, drawn
/// as without speculation. A draft is kept if it is what was drawn, and the first that is not
/// ends the step with what was drawn instead.
pub(crate) fn accept<E>(
    drafts: &[TokenId],
    mut draw: impl FnMut(usize) -> Result<TokenId, E>,
) -> Result<SmallVec<[TokenId; 4]>, E> {
    let mut said = SmallVec::new();
    for index in 0..=drafts.len() {
        let token = draw(index)?;
        said.push(token);
        if drafts.get(index) != Some(&token) {
            break;
        }
    }
    Ok(said)
}

/// The place of the largest, the first of equals: what a drafter guesses.
pub(crate) fn likeliest(logits: &[f32]) -> usize {
    let mut best = 0;
    for (place, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = place;
        }
    }
    best
}
