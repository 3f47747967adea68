//! What all draws of one request have in common.

use contract::{GenerateRequest, TokenId};
use grammar::{Follower, Mask};

use crate::sampler::{Before, Draw};
use crate::{DrawError, Sampler, StepTokens, accept};

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
        Self::with_answer(request, &tokens[request.prompt.len()..])
    }

    /// `answer` is what the answer has so far.
    pub fn with_answer(request: &'a GenerateRequest, answer: &'a [TokenId]) -> Self {
        Self {
            request,
            // Part of the request, so a worker that takes over goes on with the same draws.
            seed: request.sampling.seed.unwrap_or(request.nonce),
            answer,
        }
    }

    /// The draw after `accepted` drafts of this step, among the `allowed` tokens.
    pub fn draw<'b>(&self, accepted: &'b [TokenId], allowed: Option<&'b Mask>) -> Draw<'b>
    where
        'a: 'b,
    {
        Draw {
            allowed,
            before: Before {
                prompt: &self.request.prompt,
                said: self.answer,
                accepted,
            },
            ..self.draw_at(self.answer.len() + accepted.len())
        }
    }

    /// The draw of a token of the answer, without what a grammar allows and what precedes it.
    fn draw_at(&self, position: usize) -> Draw<'a> {
        let limits = &self.request.limits;
        Draw {
            sampling: &self.request.sampling,
            seed: self.seed,
            position,
            forbidden: if limits.may_stop(position) {
                &[]
            } else {
                &limits.eos_tokens
            },
            allowed: None,
            before: Before::default(),
        }
    }

    /// The tokens of this step, which has a distribution after each of its `drafts` and one before
    /// them: `logits` by their index. `follower` is that of the answer's grammar, where it has one.
    pub fn tokens<'l>(
        &self,
        drafts: &[TokenId],
        mut follower: Option<Follower<'_>>,
        sampler: &mut Sampler,
        logits: impl Fn(usize) -> &'l [f32],
    ) -> Result<StepTokens, DrawError> {
        accept(drafts, |index| {
            let mask = match &mut follower {
                Some(follower) => Some(follower.matcher().mask()?),
                None => None,
            };
            let draw = self.draw(&drafts[..index], mask.as_ref());
            let token = sampler.draw(logits(index), draw)?;
            if let Some(follower) = &mut follower {
                follower.consume(token)?;
            }
            Ok(token)
        })
    }

    /// The draw after `accepted` drafts of this step, where it [needs no more](Draw::is_plain) than the
    /// logits, a few numbers and the tokens that are forbidden: what a device draws itself.
    pub fn plain_draw(&self, accepted: usize) -> Option<Draw<'a>> {
        // Of what was accepted, such a draw uses the number alone.
        let draw = self.draw_at(self.answer.len() + accepted);
        (self.request.grammar.is_none() && draw.is_plain()).then_some(draw)
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
