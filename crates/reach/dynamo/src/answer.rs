//! From a worker's output to chunks. The request's limits are enforced here.
//!
//! A worker may send tokens after the one that ends an answer, include that one, or send more
//! than it was asked for. The reader sees none of them.

use std::time::Duration;

use contract::{
    FinishReason, LinkError, OutputLimits, Started, TokenChunk, TokenLogprob, WorkerId,
};
use smallvec::SmallVec;

use crate::wire::engine::{self, Finish, Output};

/// The state of one request's answer.
#[derive(Debug)]
pub(crate) struct Answer {
    worker: WorkerId,
    limits: OutputLimits,
    /// Tokens returned so far, by this worker and by those before it.
    given: u32,
    wants_logprobs: bool,
    /// What to report about the cache if the worker does not; `None` after the first chunk.
    unstarted: Option<Beginning>,
}

/// What is known before the first chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beginning {
    pub prompt_tokens: u32,
    /// Leading tokens of the prompt that the worker holds, according to its events.
    pub held_tokens: u32,
}

/// What follows from a frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Progress {
    Chunk(TokenChunk),
    /// It contains nothing for the reader.
    Wait,
    Fail(LinkError),
}

impl Answer {
    pub(crate) fn new(
        request: &contract::GenerateRequest,
        worker: WorkerId,
        held_tokens: u32,
    ) -> Self {
        Self {
            worker,
            limits: request.limits.clone(),
            given: u32::try_from(request.answered.len()).unwrap_or(u32::MAX),
            wants_logprobs: request.logprobs.is_some(),
            unstarted: Some(Beginning {
                prompt_tokens: u32::try_from(request.prompt.len()).unwrap_or(u32::MAX),
                held_tokens,
            }),
        }
    }

    /// Applies one frame of the answer, `waited` after the request was sent.
    pub(crate) fn take(&mut self, frame: engine::Answer<Output>, waited: Duration) -> Progress {
        match frame {
            engine::Answer::Data(output) => self.output(output, waited),
            engine::Answer::Nothing => Progress::Wait,
            engine::Answer::End => Progress::Fail(self.broken("the answer ended without a reason")),
            engine::Answer::Error { kind, message } => {
                Progress::Fail(fault(self.worker, &kind, &message))
            }
        }
    }

    pub(crate) fn broken(&self, detail: impl ToString) -> LinkError {
        LinkError::Interrupted {
            worker: self.worker,
            detail: detail.to_string(),
        }
    }

    fn output(&mut self, output: Output, waited: Duration) -> Progress {
        let cached_tokens = output.cached_tokens();
        let finish = match output.finish_reason {
            None => None,
            Some(Finish::Length) => Some(FinishReason::Length),
            Some(Finish::Eos | Finish::Stop | Finish::ContentFilter) => Some(FinishReason::Stop),
            Some(Finish::Cancelled) => {
                return Progress::Fail(self.broken("the worker cancelled the request"));
            }
            Some(Finish::Error(message)) => {
                return Progress::Fail(fault(self.worker, "", &message));
            }
        };
        let mut logprobs = self.logprobs(&output.log_probs, output.top_logprobs.as_deref());
        let (count, own_finish) = self.accept(&output.token_ids);
        logprobs.truncate(count);
        let tokens: SmallVec<_> = output.token_ids[..count].into();
        let finish = own_finish.or(finish);
        if tokens.is_empty() && finish.is_none() {
            return Progress::Wait;
        }
        Progress::Chunk(TokenChunk {
            logprobs: if logprobs.len() == tokens.len() {
                logprobs
            } else {
                Vec::new()
            },
            tokens,
            started: self.started(cached_tokens, waited).map(Box::new),
            finish,
            // Dynamo's workers do not report it.
            speculation: None,
            written: None,
        })
    }

    /// How many of these tokens belong to the answer, and whether it ends with them.
    fn accept(&mut self, tokens: &[u32]) -> (usize, Option<FinishReason>) {
        for (position, token) in tokens.iter().enumerate() {
            let may_end = !self.limits.ignore_eos && self.given >= self.limits.min_tokens;
            if may_end && self.limits.eos_tokens.contains(token) {
                return (position, Some(FinishReason::Stop));
            }
            // A worker ends an answer with the last token or after it. This is for one that
            // goes on.
            if self.given >= self.limits.max_tokens {
                return (position, Some(FinishReason::Length));
            }
            self.given = self.given.saturating_add(1);
        }
        (tokens.len(), None)
    }

    fn started(&mut self, cached_tokens: Option<u32>, waited: Duration) -> Option<Started> {
        let Beginning {
            prompt_tokens,
            held_tokens,
        } = self.unstarted.take()?;
        Some(Started {
            cached_tokens: cached_tokens.unwrap_or(held_tokens).min(prompt_tokens),
            // The worker does not report how much of the wait was a queue.
            intake: Duration::ZERO,
            queue_wait: Duration::ZERO,
            prefill: waited,
        })
    }

    fn logprobs(
        &self,
        chosen: &Option<Vec<f64>>,
        alternatives: Option<&[Vec<engine::Alternative>]>,
    ) -> Vec<TokenLogprob> {
        let chosen = chosen.as_deref().filter(|_| self.wants_logprobs);
        let chosen = chosen.unwrap_or_default().iter().enumerate();
        let logprobs = chosen.map(|(position, &logprob)| {
            let top = alternatives.and_then(|all| all.get(position));
            let top = top.into_iter().flatten();
            TokenLogprob {
                logprob: logprob as f32,
                top: top.map(|one| (one.token_id, one.logprob as f32)).collect(),
            }
        });
        logprobs.collect()
    }
}

/// What an error of a worker means for the request. Some versions send a kind of error, others
/// only a message.
pub(crate) fn fault(worker: WorkerId, kind: &str, message: &str) -> LinkError {
    let words = message.to_lowercase();
    let says = |any: &[&str]| any.iter().any(|word| words.contains(word));
    let detail = if kind.is_empty() {
        message.to_owned()
    } else {
        format!("{kind}: {message}")
    };
    match kind {
        "WorkerOverloaded" | "ResourceExhausted" => LinkError::Overloaded { worker, detail },
        "Unavailable" | "BackendEngineShutdown" => LinkError::Draining { worker },
        _ if says(&["overload", "at capacity", "queue is full"]) => {
            LinkError::Overloaded { worker, detail }
        }
        _ if says(&["exceed", "too long", "maximum context"]) => {
            LinkError::TooLarge { worker, detail }
        }
        "InvalidArgument" | "BackendInvalidArgument" => LinkError::Refused { worker, detail },
        _ => LinkError::Interrupted { worker, detail },
    }
}

#[cfg(test)]
mod tests;
