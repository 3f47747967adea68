//! What all engines of a frontend have in common, and how patient it is with them.

use std::time::Duration;

use contract::{Clock, Hashing, ModelName};

use crate::retokenize::Tokenize;

/// What all engines of a frontend have in common.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// The name under which the frontend serves the model.
    pub model: ModelName,
    /// As the router has them; an engine must agree.
    pub block_size: u32,
    pub hashing: Hashing,
    /// Where the engine does not say.
    pub max_context_tokens: u32,
    pub clock: Clock,
    /// The model's tokenizer, for engines that answer in text only.
    pub tokenize: Tokenize,
    /// Sent to every engine as a bearer token.
    pub api_key: Option<String>,
    pub pace: Pace,
}

/// How often engines are asked, and how long they may be silent.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between two looks at an engine that is there.
    pub beat: Duration,
    /// For one answer.
    pub patience: Duration,
    /// Without an answer for so long it is gone.
    pub silence: Duration,
    /// Before the next try at an engine that is not there.
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
