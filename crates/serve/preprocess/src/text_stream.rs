//! The way out: the tokens of one answer become its text.

use std::sync::Arc;

use contract::TokenId;

use crate::detokenize::Detokenizer;
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
        Self {
            detokenizer: Detokenizer::new(tokenizer),
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

    /// Appends what was held back, when no more tokens come.
    pub fn finish(&mut self, out: &mut String) {
        self.passing.clear();
        self.detokenizer.finish(&mut self.passing);
        if !self.stop.push(&self.passing, out) {
            self.stop.finish(out);
        }
    }
}
