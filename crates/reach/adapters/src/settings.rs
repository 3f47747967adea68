//! Settings that all engines of a frontend share, and how long to wait for them.

use std::time::Duration;

use contract::{Clock, Hashing, ModelName};

use crate::retokenize::Tokenize;

/// Settings that all engines of a frontend share.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// The name under which the frontend serves the model.
    pub model: ModelName,
    /// Those of the router; an engine has to have the same.
    pub block_size: u32,
    pub hashing: Hashing,
    /// Used if the engine does not report its own.
    pub max_context_tokens: u32,
    pub clock: Clock,
    /// The model's tokenizer, for engines that return only text.
    pub tokenize: Tokenize,
    /// Sent to every engine as a bearer token.
    pub api_key: Option<String>,
    pub pace: Pace,
}

/// How often engines are checked, and how long they may be silent.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between two checks of an engine that has joined.
    pub beat: Duration,
    /// The longest wait for one response.
    pub patience: Duration,
    /// An engine whose checks fail for so long is gone.
    pub silence: Duration,
    /// Before the next attempt to join an engine.
    pub retry: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            beat: Duration::from_secs(1),
            patience: Duration::from_secs(3),
            silence: Duration::from_secs(6),
            retry: Duration::from_secs(1),
        }
    }
}
