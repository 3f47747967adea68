//! Follows one answer through its grammar.

use std::fmt;

use contract::TokenId;
use llguidance::TokenParser;
use llguidance::toktrie::SimpleVob;

use crate::GrammarError;

/// The state of one answer.
pub struct Matcher(llguidance::Matcher);

/// The tokens that a grammar allows at one place.
#[derive(Clone, Debug)]
pub struct Mask(SimpleVob);

impl Matcher {
    pub(crate) fn new(parser: TokenParser) -> Result<Self, GrammarError> {
        let matcher = llguidance::Matcher::new(Ok(parser));
        match matcher.get_error() {
            Some(error) => Err(GrammarError::new(&error)),
            None => Ok(Self(matcher)),
        }
    }

    /// A copy that shares nothing, so that answers on several threads do not wait for each other.
    pub(crate) fn start(&self) -> Self {
        Self(self.0.deep_clone())
    }

    /// The tokens that may come next. Only those that end an answer once it is complete and
    /// nothing may follow.
    pub fn mask(&mut self) -> Result<Mask, GrammarError> {
        let mask = self.0.compute_mask_or_eos();
        mask.map(Mask).map_err(|error| GrammarError::new(&error))
    }

    /// Moves on by a token that the mask allowed.
    pub fn consume(&mut self, token: TokenId) -> Result<(), GrammarError> {
        if self.0.is_stopped() && self.0.get_error().is_none() {
            // What follows the end is not part of the answer.
            return Ok(());
        }
        self.0
            .consume_token(token)
            .map_err(|error| GrammarError::new(&error))
    }
}

impl Mask {
    pub fn allows(&self, token: TokenId) -> bool {
        (token as usize) < self.0.len() && self.0.is_allowed(token)
    }

    /// Makes every token impossible that the grammar does not allow.
    pub fn apply(&self, logits: &mut [f32]) {
        let words = self.0.as_slice();
        for (chunk, word) in logits
            .chunks_mut(32)
            .zip(words.iter().copied().chain(std::iter::repeat(0)))
        {
            if word == u32::MAX {
                continue;
            }
            for (bit, logit) in chunk.iter_mut().enumerate() {
                if word & (1 << bit) == 0 {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
    }

    /// The allowed tokens in ascending order.
    pub fn tokens(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.0.iter()
    }

    pub fn count(&self) -> usize {
        self.0.num_set()
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matcher")
            .field("stopped", &self.0.is_stopped())
            .finish_non_exhaustive()
    }
}
