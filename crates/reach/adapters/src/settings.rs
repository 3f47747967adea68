//! Settings that all engines of a frontend share, and how long to wait for them.

use std::time::Duration;

use contract::{BlockFormat, Clock, ModelName};

use crate::retokenize::Tokenize;

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
    /// Sent to every engine as a bearer token.
    pub api_key: Option<String>,
    pub timing: Timing,
}

/// How often engines are checked, and how long they may be silent.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Between two checks of an engine that has joined.
    pub check_interval: Duration,
    /// The longest wait for one response.
    pub response_timeout: Duration,
    /// An engine whose checks fail for so long is gone.
    pub lost_after: Duration,
    /// Before the next attempt to join an engine.
    pub retry_interval: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            check_interval: Duration::from_secs(1),
            response_timeout: Duration::from_secs(3),
            lost_after: Duration::from_secs(6),
            retry_interval: Duration::from_secs(1),
        }
    }
}
