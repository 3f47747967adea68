//! One request to a worker, and the chunks that come back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::block::HashSeed;
use crate::forward::Written;
use crate::grammar::Grammar;
use crate::trace::TraceContext;
use crate::worker::WorkerId;

pub type TokenId = u32;

/// Names one request on its way through the system. Not trusted to be unique.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(Arc<str>);

impl RequestId {
    pub fn new(id: &str) -> Self {
        Self(id.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A checked request in tokens. The frontend guarantees that the prompt is not empty and
/// that prompt plus `limits.max_tokens` fit the model's context.
#[derive(Clone, Debug)]
pub struct GenerateRequest {
    /// The client's name for it, for answers, logs and decisions. Several prompts of one request
    /// share it, and a client may use it twice.
    pub id: RequestId,
    /// Drawn at random for each prompt. Tells requests of one name apart, and without a
    /// [seed](Sampling::seed) it is what tokens are drawn from, so that equal prompts get
    /// independent answers and one that moves to another worker goes on with the same draws.
    pub nonce: u64,
    /// For an engine that traces: whose span its own are under.
    pub trace: Option<TraceContext>,
    pub prompt: Arc<[TokenId]>,
    /// The beginning of the answer, which another worker gave before it failed. The worker
    /// goes on after it and does not repeat it; the limits count it.
    pub answered: Arc<[TokenId]>,
    /// Separates this request's cache from others' (adapter, salt).
    pub hash_seed: HashSeed,
    pub limits: OutputLimits,
    pub sampling: Sampling,
    /// How many alternatives to report per token; `None` for no log-probabilities.
    pub logprobs: Option<u8>,
    /// The only answers allowed; `None` for any.
    pub grammar: Option<Grammar>,
}

/// When to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    /// At least 1.
    pub max_tokens: u32,
    /// End-of-text is not produced before this many tokens.
    pub min_tokens: u32,
    /// Never stop at end-of-text; run to `max_tokens`.
    pub ignore_eos: bool,
    /// Tokens that end the answer. They are not part of it.
    pub eos_tokens: Arc<[TokenId]>,
}

impl OutputLimits {
    /// Whether an end-of-text token ends an answer that has `generated` tokens. Otherwise it is
    /// a token like any other, and executors avoid it.
    pub fn may_stop(&self, generated: usize) -> bool {
        !self.ignore_eos && generated >= self.min_tokens as usize
    }
}

/// How the next token is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    pub temperature: f32,
    pub top_p: f32,
    pub top_k: Option<u32>,
    /// Tokens less likely than this share of the likeliest are left out; 0 for none.
    pub min_p: f32,
    pub penalties: Penalties,
    /// What is added to the logits of single tokens.
    pub logit_bias: Arc<[(TokenId, f32)]>,
    /// Equal seeds give equal prompts equal answers, within one request too. Without one each
    /// prompt is drawn for on its own.
    pub seed: Option<u64>,
    /// Which of the values above the client named. The others are the model's recommendation as far
    /// as we know it; an engine that has its own is not sent them.
    pub named: NamedOptions,
}

/// Options of [`Sampling`] for which a model's files may recommend values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamedOptions {
    pub temperature: bool,
    pub top_p: bool,
    pub top_k: bool,
    pub min_p: bool,
    pub repetition: bool,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_p: 1.0,
            top_k: None,
            min_p: 0.0,
            penalties: Penalties::default(),
            logit_bias: Arc::default(),
            seed: None,
            named: NamedOptions::default(),
        }
    }
}

/// What makes a token less likely because it has come before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Penalties {
    /// Taken from the logit of a token that the answer has.
    pub presence: f32,
    /// Taken from it for each time that the answer has it.
    pub frequency: f32,
    /// Divides the logit of a token that the prompt or the answer has, or multiplies it where
    /// it is below 0; 1 for nothing.
    pub repetition: f32,
}

impl Penalties {
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Penalties {
    fn default() -> Self {
        Self {
            presence: 0.0,
            frequency: 0.0,
            repetition: 1.0,
        }
    }
}

/// What one engine step produced for one request.
///
/// A chunk that holds nothing is a keep-alive: the engine has the request and will go on, but
/// has no token for it yet, because it waits in the engine's queue, was preempted for memory,
/// or has a long prompt. It may come at any time before the last chunk, also before the first
/// token; it says that the worker lives and nothing else.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenChunk {
    /// Several when speculation succeeded; none in a chunk that only ends the stream, and in a
    /// keep-alive.
    pub tokens: SmallVec<[TokenId; 4]>,
    /// Parallel to `tokens`, or empty.
    pub logprobs: Vec<TokenLogprob>,
    /// Present in the first chunk that has tokens, and once more in the last where only then it is known how
    /// many tokens were cached and the first had said otherwise. Boxed like all that few chunks have: a
    /// chunk is moved a dozen times on its way, and there is one for each token.
    pub started: Option<Box<Started>>,
    /// Present in the last chunk only.
    pub finish: Option<FinishReason>,
    /// Of the whole request, in the last chunk only, where anything was drafted.
    pub speculation: Option<RequestSpeculation>,
    /// In place of `tokens` where the engine's own server writes the answer.
    pub written: Option<Box<Written>>,
}

impl TokenChunk {
    /// "Still here": sent while a request makes no progress.
    pub fn keep_alive() -> Self {
        Self::default()
    }

    /// Whether it says only that the worker lives: no token, no beginning and no end.
    pub fn is_keep_alive(&self) -> bool {
        self.tokens.is_empty()
            && self.started.is_none()
            && self.finish.is_none()
            && self.speculation.is_none()
            && self.written.is_none()
    }

    /// Tokens that it holds or stands for.
    pub fn count(&self) -> u32 {
        let written = self.written.as_ref().map_or(0, |written| written.tokens);
        self.tokens.len() as u32 + written
    }

    /// Whether it is an answer that came in one piece, so that nothing is known of when its
    /// tokens were generated.
    pub fn is_whole_answer(&self) -> bool {
        self.written.is_some() && self.started.is_some() && self.finish.is_some()
    }
}

/// What was drafted for one request, and how much of it became part of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestSpeculation {
    /// Steps that carried a draft.
    pub drafts: u32,
    pub drafted_tokens: u32,
    /// At most `drafted_tokens`.
    pub accepted_tokens: u32,
}

impl RequestSpeculation {
    /// Adds what another worker, or another step, did for the same request.
    pub fn add(&mut self, other: Self) {
        let sum = |total: &mut u32, count: u32| *total = total.saturating_add(count);
        sum(&mut self.drafts, other.drafts);
        sum(&mut self.drafted_tokens, other.drafted_tokens);
        sum(&mut self.accepted_tokens, other.accepted_tokens);
    }

    /// Counts one draft, of which the first `accepted` tokens were kept.
    pub fn record(&mut self, drafted: usize, accepted: usize) {
        if drafted == 0 {
            return;
        }
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        self.add(Self {
            drafts: 1,
            drafted_tokens: number(drafted),
            accepted_tokens: number(accepted),
        });
    }
}

/// What the engine knows once a request's prefill is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// Prompt tokens that were not computed because their blocks were there: the truth,
    /// where the router's figure is a prediction.
    pub cached_tokens: u32,
    /// From arrival at the engine until it could join the batch: what an engine needs to take a
    /// request in, however idle it is.
    pub intake: Duration,
    /// From then to admission into the batch.
    pub queue_wait: Duration,
    /// From admission to the first token.
    pub prefill: Duration,
}

impl Started {
    /// From arrival to admission.
    pub fn wait(&self) -> Duration {
        self.intake + self.queue_wait
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    pub logprob: f32,
    /// Most likely first.
    pub top: Vec<(TokenId, f32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended its answer.
    Stop,
    /// `max_tokens` was reached.
    Length,
}

/// Why a worker did not, or not fully, serve a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    #[error("worker {worker} is unreachable: {detail}")]
    Unreachable { worker: WorkerId, detail: String },
    /// It left, or was given up, before it took the request, which therefore is not the cause.
    #[error("worker {worker} was lost before it accepted the request")]
    Lost { worker: WorkerId },
    #[error("worker {worker} is draining")]
    Draining { worker: WorkerId },
    /// It is well, but has no room: another may have.
    #[error("worker {worker} is overloaded: {detail}")]
    Overloaded { worker: WorkerId, detail: String },
    #[error("worker {worker} cannot hold the request: {detail}")]
    TooLarge { worker: WorkerId, detail: String },
    /// The request is not one that it can serve, for another reason than its length. No other
    /// would.
    #[error("worker {worker} rejected the request: {detail}")]
    Refused { worker: WorkerId, detail: String },
    /// The request, or one beside it in the same step, could not be computed. It may be the
    /// cause, so it is tried on one more worker and not on all.
    #[error("worker {worker} failed to compute the request: {detail}")]
    Failed { worker: WorkerId, detail: String },
    /// Nothing came, not even a keep-alive. Others of the worker's requests may go on.
    #[error("worker {worker} sent nothing for {quiet:?}")]
    Stalled { worker: WorkerId, quiet: Duration },
    #[error("worker {worker} broke off the stream: {detail}")]
    Interrupted { worker: WorkerId, detail: String },
}

impl LinkError {
    pub fn worker(&self) -> WorkerId {
        match self {
            Self::Unreachable { worker, .. }
            | Self::Lost { worker }
            | Self::Draining { worker }
            | Self::Overloaded { worker, .. }
            | Self::TooLarge { worker, .. }
            | Self::Refused { worker, .. }
            | Self::Failed { worker, .. }
            | Self::Stalled { worker, .. }
            | Self::Interrupted { worker, .. } => *worker,
        }
    }

    /// Whether it says that the request cannot be served anywhere, which its client learns.
    pub fn is_of_request(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::Refused { .. })
    }

    /// Whether it says that something is wrong with the worker, and not with the request or
    /// with the moment. A stall does if the worker has served nobody else meanwhile, which only
    /// the router knows.
    pub fn blames_worker(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Lost { .. }
            | Self::Interrupted { .. }
            | Self::Stalled { .. } => true,
            Self::Draining { .. }
            | Self::Overloaded { .. }
            | Self::TooLarge { .. }
            | Self::Refused { .. }
            | Self::Failed { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_chunk_that_holds_nothing_is_a_keep_alive() {
        assert!(TokenChunk::keep_alive().is_keep_alive());
        let started = Started {
            cached_tokens: 0,
            intake: Duration::ZERO,
            queue_wait: Duration::ZERO,
            prefill: Duration::ZERO,
        };
        let others = [
            TokenChunk {
                tokens: SmallVec::from_slice(&[7]),
                ..TokenChunk::default()
            },
            TokenChunk {
                started: Some(Box::new(started)),
                ..TokenChunk::default()
            },
            TokenChunk {
                finish: Some(FinishReason::Stop),
                ..TokenChunk::default()
            },
            TokenChunk {
                speculation: Some(RequestSpeculation::default()),
                ..TokenChunk::default()
            },
        ];
        for chunk in others {
            assert!(!chunk.is_keep_alive(), "{chunk:?}");
        }
    }

    #[test]
    fn a_request_adds_up_what_its_workers_told() {
        let mut first = RequestSpeculation::default();
        first.record(4, 3);
        first.record(0, 0);
        first.record(2, 0);
        let mut second = RequestSpeculation::default();
        second.record(5, 5);
        second.add(first);
        let expected = RequestSpeculation {
            drafts: 3,
            drafted_tokens: 11,
            accepted_tokens: 8,
        };
        assert_eq!(second, expected);
        second.add(RequestSpeculation {
            drafts: u32::MAX,
            ..RequestSpeculation::default()
        });
        assert_eq!(second.drafts, u32::MAX, "what a peer says cannot overflow");
    }
}
