//! The way out: the tokens of one answer become its text.

use std::sync::Arc;

use contract::TokenId;

use crate::detokenize::{Detokenizer, Kept};
use crate::stop::StopMatcher;
use crate::tokenizer::Tokenizer;

/// Detokenises one answer and ends it at a stop string.
#[derive(Debug)]
pub struct TextStream {
    detokenizer: Detokenizer,
    stop: StopMatcher,
    /// Text on its way from one to the other; kept for its allocation.
    passing: String,
}

impl TextStream {
    pub fn new(tokenizer: Arc<Tokenizer>, stops: &[String]) -> Self {
        Self::keeping(tokenizer, stops, Arc::default())
    }

    /// With the names of these special tokens in the text.
    pub(crate) fn keeping(tokenizer: Arc<Tokenizer>, stops: &[String], kept: Kept) -> Self {
        Self {
            detokenizer: Detokenizer::keeping(tokenizer, kept),
            stop: StopMatcher::new(stops),
            passing: String::new(),
        }
    }

    /// Appends what the tokens add to the text. Returns whether a stop string has ended it:
    /// then nothing more will come, whatever is pushed.
    pub fn push(&mut self, tokens: &[TokenId], out: &mut String) -> bool {
        if self.stop.is_idle() {
            for &token in tokens {
                self.detokenizer.push(token, out);
            }
            return false;
        }
        self.passing.clear();
        for &token in tokens {
            self.detokenizer.push(token, &mut self.passing);
        }
        self.stop.push(&self.passing, out)
    }

    /// The stop string that ended the text, if one did.
    pub fn stopped_by(&self) -> Option<&str> {
        self.stop.stopped_by()
    }

    /// Appends what was held back, when no more tokens come.
    pub fn finish(&mut self, out: &mut String) {
        self.passing.clear();
        self.detokenizer.finish(&mut self.passing);
        if !self.stop.push(&self.passing, out) {
            self.stop.finish(out);
        }
    }
}
