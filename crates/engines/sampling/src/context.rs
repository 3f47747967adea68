//! What all draws of one request have in common.

use contract::{GenerateRequest, TokenId};
use grammar::Mask;

use crate::StepTokens;
use crate::sampler::{Before, Draw};

/// A request and its answer so far.
#[derive(Clone, Copy, Debug)]
pub struct RequestContext<'a> {
    request: &'a GenerateRequest,
    seed: u64,
    /// The answer before this step.
    answer: &'a [TokenId],
}

impl<'a> RequestContext<'a> {
    /// `tokens` are the prompt and the answer so far.
    pub fn new(request: &'a GenerateRequest, tokens: &'a [TokenId]) -> Self {
        Self {
            request,
            // Part of the request, so a worker that takes over goes on with the same draws.
            seed: request.sampling.seed.unwrap_or(request.nonce),
            answer: &tokens[request.prompt.len()..],
        }
    }

    /// The draw after `accepted` drafts of this step, among the `allowed` tokens.
    pub fn draw<'b>(&self, accepted: &'b [TokenId], allowed: Option<&'b Mask>) -> Draw<'b>
    where
        'a: 'b,
    {
        let limits = &self.request.limits;
        let position = self.answer.len() + accepted.len();
        Draw {
            sampling: &self.request.sampling,
            seed: self.seed,
            position,
            forbidden: if limits.may_stop(position) {
                &[]
            } else {
                &limits.eos_tokens
            },
            allowed,
            before: Before {
                prompt: &self.request.prompt,
                said: self.answer,
                accepted,
            },
        }
    }

    /// The answer before this step.
    pub fn answer(&self) -> &'a [TokenId] {
        self.answer
    }

    /// Without what follows the token that ends the answer.
    pub fn cut_at_end(&self, mut tokens: StepTokens) -> StepTokens {
        let limits = &self.request.limits;
        let ends = |(index, token): (usize, &TokenId)| {
            limits.may_stop(self.answer.len() + index) && limits.eos_tokens.contains(token)
        };
        if let Some(end) = tokens.iter().enumerate().position(ends) {
            tokens.truncate(end + 1);
        }
        tokens
    }
}
