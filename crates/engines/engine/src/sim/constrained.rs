//! What a simulated model says under a grammar.
//!
//! The answer's own text where the grammar allows it, so that a JSON string holds words, and what
//! ends things sooner or later: a random walk through a grammar would stay in its first string
//! for as long as it may.

use std::sync::{Arc, OnceLock};

use contract::TokenId;
use contract::random::unit;
use grammar::{GrammarError, Matcher, Vocabulary};

/// What ends objects, lists, strings and values, in order of preference.
const CLOSING: [&[u8]; 6] = [b"}", b"]", b"\"", b")", b",", b"\n"];

/// How likely an answer's first token ends something, and after how many tokens each does.
const FIRST_CHANCE: f64 = 0.15;
const ALWAYS_AFTER: f64 = 120.0;

/// The tokens that end something, looked up once.
#[derive(Debug, Default)]
pub(super) struct ClosingTokens {
    vocabulary: Option<Arc<Vocabulary>>,
    tokens: OnceLock<Vec<TokenId>>,
}

/// What an answer would say without a grammar.
pub(super) struct NextToken<'a> {
    pub(super) wanted: TokenId,
    /// The tokens that end an answer.
    pub(super) ends: &'a [TokenId],
    /// Random.
    pub(super) draw: u64,
    /// In the answer.
    pub(super) position: usize,
}

impl ClosingTokens {
    pub(super) fn new(vocabulary: Arc<Vocabulary>) -> Self {
        Self {
            vocabulary: Some(vocabulary),
            tokens: OnceLock::new(),
        }
    }

    fn tokens(&self) -> &[TokenId] {
        self.tokens.get_or_init(|| {
            let find = |bytes: &&[u8]| self.vocabulary.as_ref()?.token(bytes);
            CLOSING.iter().filter_map(find).collect()
        })
    }

    /// The next token of an answer.
    pub(super) fn choose(
        &self,
        matcher: &mut Matcher,
        next: &NextToken<'_>,
    ) -> Result<TokenId, GrammarError> {
        let NextToken {
            wanted,
            ends,
            draw,
            position,
        } = *next;
        let mask = matcher.mask()?;
        let share = unit(draw);
        let chance = FIRST_CHANCE + position as f64 / ALWAYS_AFTER;
        if share < chance {
            // The end-of-text tokens are allowed only where the grammar is complete.
            let closing = ends.iter().chain(self.tokens());
            if let Some(token) = closing.copied().find(|token| mask.allows(*token)) {
                return Ok(token);
            }
        }
        if mask.allows(wanted) {
            return Ok(wanted);
        }
        let count = mask.count();
        let chosen = (draw % count.max(1) as u64) as usize;
        mask.tokens()
            .nth(chosen)
            .ok_or_else(GrammarError::nothing_allowed)
    }
}
