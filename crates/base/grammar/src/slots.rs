//! The matchers of a batch.

use std::sync::Arc;

use contract::{GenerateRequest, Grammar, TokenId};

use crate::GrammarError;
use crate::matcher::Matcher;
use crate::vocabulary::Vocabulary;

/// One matcher for each slot of an engine. A sequence that comes to another slot, or was answered
/// in part by another worker, is followed again from the start of its answer.
#[derive(Debug, Default)]
pub struct SlotMatchers {
    vocabulary: Option<Arc<Vocabulary>>,
    slots: Vec<Option<Following>>,
}

#[derive(Debug)]
struct Following {
    /// The engine's name for the sequence.
    sequence: u64,
    /// Tokens of the answer that the matcher has consumed.
    consumed: usize,
    matcher: Matcher,
}

/// The matcher of one sequence, for one step.
#[derive(Debug)]
pub struct Follower<'a>(&'a mut Following);

impl SlotMatchers {
    pub fn new(vocabulary: Option<Arc<Vocabulary>>) -> Self {
        Self {
            vocabulary,
            slots: Vec::new(),
        }
    }

    pub fn vocabulary(&self) -> Option<&Arc<Vocabulary>> {
        self.vocabulary.as_ref()
    }

    /// The matcher of the sequence in this slot, with its answer so far behind it; none without a
    /// grammar.
    pub fn follow(
        &mut self,
        slot: usize,
        sequence: u64,
        request: &GenerateRequest,
        answer: &[TokenId],
    ) -> Result<Option<Follower<'_>>, GrammarError> {
        let Some(grammar) = &request.grammar else {
            return Ok(None);
        };
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        let known = |following: &Following| {
            following.sequence == sequence && following.consumed == answer.len()
        };
        if !self.slots[slot].as_ref().is_some_and(known) {
            // Not left behind if following the answer fails.
            self.slots[slot] = None;
            let matcher = self.start(grammar, answer)?;
            self.slots[slot] = Some(Following {
                sequence,
                consumed: answer.len(),
                matcher,
            });
        }
        Ok(self.slots[slot].as_mut().map(Follower))
    }

    fn start(&self, grammar: &Grammar, answer: &[TokenId]) -> Result<Matcher, GrammarError> {
        let Some(vocabulary) = &self.vocabulary else {
            return Err(GrammarError::new(&"this engine has no constrained output"));
        };
        let mut matcher = vocabulary.matcher(grammar)?;
        for token in answer {
            matcher.consume(*token)?;
        }
        Ok(matcher)
    }
}

impl Follower<'_> {
    pub fn matcher(&mut self) -> &mut Matcher {
        &mut self.0.matcher
    }

    /// Moves on by a token of the answer.
    pub fn consume(&mut self, token: TokenId) -> Result<(), GrammarError> {
        self.0.consumed += 1;
        self.0.matcher.consume(token)
    }
}
