//! How much context a request needs, at least.

use crate::error::PrepareError;

/// What prompt and answer take together. Of a request that names no `max_tokens` the answer is what
/// still fits, on whichever worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextNeed {
    pub prompt_tokens: u32,
    /// What the request asks for on top; 0 if it leaves that open.
    pub completion_tokens: u32,
    /// The request's field, `messages` or `prompt`.
    pub param: &'static str,
}

impl ContextNeed {
    /// In all.
    pub fn tokens(self) -> u32 {
        self.prompt_tokens
            .saturating_add(self.completion_tokens.max(1))
    }

    /// The longest answer within a limit.
    pub fn fits(self, limit: u32) -> Result<u32, PrepareError> {
        let Self {
            prompt_tokens,
            completion_tokens,
            param,
        } = self;
        match self.tokens() <= limit {
            true => Ok(limit - prompt_tokens),
            false => Err(PrepareError::ContextTooLong {
                prompt_tokens,
                completion_tokens,
                limit,
                param,
            }),
        }
    }
}
