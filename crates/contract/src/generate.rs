//! One request to a worker, and the chunks that come back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::block::HashSeed;
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
    pub id: RequestId,
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

/// How the next token is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    pub temperature: f32,
    pub top_p: f32,
    pub top_k: Option<u32>,
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_p: 1.0,
            top_k: None,
            seed: None,
        }
    }
}

/// What one engine step produced for one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenChunk {
    /// Several when speculation succeeded; none in a chunk that only ends the stream.
    pub tokens: SmallVec<[TokenId; 4]>,
    /// Parallel to `tokens`, or empty.
    pub logprobs: Vec<TokenLogprob>,
    /// Present in the first chunk, and once more in the last where only then it is known how
    /// many tokens were cached and the first had said otherwise.
    pub started: Option<Started>,
    /// Present in the last chunk only.
    pub finish: Option<FinishReason>,
}

/// What the engine knows once a request's prefill is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// Prompt tokens that were not computed because their blocks were there: the truth,
    /// where the router's figure is a prediction.
    pub cached_tokens: u32,
    /// From arrival at the engine to admission into the batch.
    pub queue_wait: Duration,
    /// From admission to the first token.
    pub prefill: Duration,
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
    #[error("worker {worker} cannot be reached: {detail}")]
    Unreachable { worker: WorkerId, detail: String },
    #[error("worker {worker} is draining")]
    Draining { worker: WorkerId },
    /// It is well, but has no room: another may have.
    #[error("worker {worker} is overloaded: {detail}")]
    Overloaded { worker: WorkerId, detail: String },
    #[error("worker {worker} cannot hold the request: {detail}")]
    TooLarge { worker: WorkerId, detail: String },
    #[error("worker {worker} broke off the stream: {detail}")]
    Interrupted { worker: WorkerId, detail: String },
}

impl LinkError {
    pub fn worker(&self) -> WorkerId {
        match self {
            Self::Unreachable { worker, .. }
            | Self::Draining { worker }
            | Self::Overloaded { worker, .. }
            | Self::TooLarge { worker, .. }
            | Self::Interrupted { worker, .. } => *worker,
        }
    }

    /// Whether it says that something is wrong with the worker, and not with the request or
    /// with the moment.
    pub fn blames_worker(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Interrupted { .. } => true,
            Self::Draining { .. } | Self::Overloaded { .. } | Self::TooLarge { .. } => false,
        }
    }
}
