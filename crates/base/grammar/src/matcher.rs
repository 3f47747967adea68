//! Follows one answer through its grammar.

use std::fmt;

use contract::TokenId;
use llguidance::TokenParser;
use llguidance::toktrie::SimpleVob;

use crate::GrammarError;

/// Parser items that an answer may cost per token, on average, and beyond that in all. A schema of
/// three hundred optional properties needs 1,200 between two of them and a few inside each; tools
/// and nested objects fewer. Ambiguous grammars (`e: e e | "a"`) need more with every token, and
/// the time grows faster than the items: 60 ms a token at 2,000, which the whole batch waits for.
const ITEMS_PER_TOKEN: usize = 200;
const SPARE_ITEMS: usize = 20_000;

/// The state of one answer.
pub struct Matcher {
    inner: llguidance::Matcher,
    /// Items that the answer may still spend.
    items_left: usize,
}

/// The tokens that a grammar allows at one place.
#[derive(Clone, Debug)]
pub struct Mask(SimpleVob);

impl Matcher {
    pub(crate) fn new(parser: TokenParser) -> Result<Self, GrammarError> {
        let matcher = llguidance::Matcher::new(Ok(parser));
        match matcher.get_error() {
            Some(error) => Err(GrammarError::new(&error)),
            None => Ok(Self {
                inner: matcher,
                items_left: SPARE_ITEMS,
            }),
        }
    }

    /// A copy that shares nothing, so that answers on several threads do not wait for each other.
    pub(crate) fn start(&self) -> Self {
        Self {
            inner: self.inner.deep_clone(),
            items_left: self.items_left,
        }
    }

    /// The tokens that may come next. Only those that end an answer once it is complete and
    /// nothing may follow.
    pub fn mask(&mut self) -> Result<Mask, GrammarError> {
        let mask = self.inner.compute_mask_or_eos();
        let mask = mask.map_err(|error| GrammarError::new(&error))?;
        self.spend()?;
        Ok(Mask(mask))
    }

    /// Pays for the mask that was just computed.
    fn spend(&mut self) -> Result<(), GrammarError> {
        let stats = self.inner.last_step_stats();
        let items = stats.map_or(0, |stats| stats.all_items);
        match (self.items_left + ITEMS_PER_TOKEN).checked_sub(items) {
            Some(left) => {
                self.items_left = left.min(SPARE_ITEMS);
                Ok(())
            }
            None => Err(GrammarError::too_ambiguous()),
        }
    }

    /// Moves on by a token that the mask allowed.
    pub fn consume(&mut self, token: TokenId) -> Result<(), GrammarError> {
        if self.inner.is_stopped() && self.inner.get_error().is_none() {
            // What follows the end is not part of the answer.
            return Ok(());
        }
        self.inner
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
            .field("stopped", &self.inner.is_stopped())
            .finish_non_exhaustive()
    }
}
