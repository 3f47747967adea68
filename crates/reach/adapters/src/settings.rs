//! Settings that all engines of a frontend share, and how long to wait for them.

use std::time::Duration;

use contract::{BlockFormat, Clock, ModelName, TokenId};

use crate::retokenize::Tokenize;
use crate::shared_estimates::SharedEstimates;

/// Settings that all engines of a frontend share.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// The name under which the frontend serves the model.
    pub model: ModelName,
    /// The router's; an engine has to have the same.
    pub blocks: BlockFormat,
    /// Used if the engine does not report its own.
    pub max_context_tokens: u32,
    pub clock: Clock,
    /// The model's tokenizer, for engines that return only text.
    pub tokenize: Tokenize,
    /// The tokens of [`SAMPLE_MESSAGES`](crate::SAMPLE_MESSAGES) in the frontend's template, if it
    /// could be rendered.
    pub sample_prompt: Option<Vec<TokenId>>,
    /// Sent to every engine as a bearer token.
    pub api_key: Option<String>,
    pub timing: Timing,
    /// Told among frontends that use the same engines; none where this one is alone.
    pub shared: Option<SharedEstimates>,
}

/// The default of [`Timing::silent_after`].
pub const SILENT_AFTER: Duration = Duration::from_secs(120);

/// How often engines are checked, and how long they may be silent.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Between two checks of an engine that has joined.
    pub check_interval: Duration,
    /// The longest wait for one response.
    pub response_timeout: Duration,
    /// An engine that refuses connections or reports failure for so long is gone.
    pub lost_after: Duration,
    /// One that takes connections and neither answers checks nor sends anything of an answer for so
    /// long is gone too. Until then it may be busy: compiling takes some engines a minute.
    pub silent_after: Duration,
    /// Before the next attempt to join an engine.
    pub retry_interval: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            check_interval: Duration::from_secs(1),
            response_timeout: Duration::from_secs(3),
            lost_after: Duration::from_secs(6),
            silent_after: SILENT_AFTER,
            retry_interval: Duration::from_secs(1),
        }
    }
}
