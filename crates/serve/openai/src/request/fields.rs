//! The bodies as the wire has them: every field optional, nothing checked.
//!
//! The two endpoints share most of their fields. `serde(flatten)` would state that directly,
//! but it copies the whole body, prompts included, into an intermediate tree first. A macro
//! that writes the shared fields into both structures costs nothing at run time.

use serde::Deserialize;

use super::error::RequestError;
use super::extensions::RawExtensions;
use super::options::{GenerationOptions, RawOptions, StreamOptions};
use super::value::{Messages, OneOrMany, RawPrompt};

macro_rules! request_fields {
    ($(#[$about:meta])* $name:ident { $($field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(Debug, Deserialize)]
        #[serde(expecting = "a JSON object")]
        pub(super) struct $name {
            pub(super) model: Option<String>,
            $(pub(super) $field: Option<$kind>,)*
            max_tokens: Option<i64>,
            max_completion_tokens: Option<i64>,
            min_tokens: Option<i64>,
            ignore_eos: Option<bool>,
            temperature: Option<f64>,
            top_p: Option<f64>,
            top_k: Option<i64>,
            seed: Option<i64>,
            n: Option<i64>,
            presence_penalty: Option<f64>,
            frequency_penalty: Option<f64>,
            min_p: Option<f64>,
            repetition_penalty: Option<f64>,
            stop: Option<OneOrMany>,
            stream: Option<bool>,
            stream_options: Option<StreamOptions>,
            user: Option<String>,
            conversation_id: Option<String>,
            cache_salt: Option<String>,
            nvext: Option<RawExtensions>,
        }

        impl $name {
            /// Takes the shared fields out, checked.
            pub(super) fn options(&mut self) -> Result<GenerationOptions, RequestError> {
                RawOptions {
                    max_tokens: self.max_tokens,
                    max_completion_tokens: self.max_completion_tokens,
                    min_tokens: self.min_tokens,
                    ignore_eos: self.ignore_eos,
                    temperature: self.temperature,
                    top_p: self.top_p,
                    top_k: self.top_k,
                    seed: self.seed,
                    n: self.n,
                    presence_penalty: self.presence_penalty,
                    frequency_penalty: self.frequency_penalty,
                    min_p: self.min_p,
                    repetition_penalty: self.repetition_penalty,
                    stop: self.stop.take(),
                    stream: self.stream,
                    stream_options: self.stream_options.take(),
                    user: self.user.take(),
                    conversation_id: self.conversation_id.take(),
                    cache_salt: self.cache_salt.take(),
                    nvext: self.nvext.take(),
                }
                .check()
            }
        }
    };
}

request_fields! {
    /// `POST /v1/chat/completions`.
    ChatFields {
        messages: Messages,
        logprobs: bool,
        top_logprobs: i64,
    }
}

request_fields! {
    /// `POST /v1/completions`.
    CompletionFields {
        prompt: RawPrompt,
        echo: bool,
        suffix: String,
        best_of: i64,
        logprobs: i64,
    }
}
