//! The bodies as the wire has them: every field optional, nothing checked.
//!
//! The two endpoints share most of their fields. `serde(flatten)` would state that directly,
//! but it copies the whole body, prompts included, into an intermediate tree first. A macro
//! that writes the shared fields into both structures costs nothing at run time.

use super::error::RequestError;
use super::extensions::RawExtensions;
use super::json_text::JsonText;
use super::list::TextOr;
use super::object::object;
use super::options::{GenerationOptions, LogitBias, RawOptions, StreamOptions, TokenIds};
use super::output_format::{
    Choices, RawConstraints, ResponseFormat, SchemaText, StructuredOutputs,
};
use super::support::{self, UnknownFields};
use super::tables;
use super::tools::{RawChoice, RawTools};
use super::value::{Messages, RawPrompt, Stops};

macro_rules! request_fields {
    ($(#[$about:meta])* $name:ident { $($field:ident: $kind:ty,)* }) => {
        object! {
            $(#[$about])*
            $name, "a JSON object" {
                model: String,
                $($field: $kind,)*
                max_tokens: i64,
                max_completion_tokens: i64,
                min_tokens: i64,
                ignore_eos: bool,
                temperature: f64,
                top_p: f64,
                top_k: i64,
                seed: i64,
                n: i64,
                presence_penalty: f64,
                frequency_penalty: f64,
                min_p: f64,
                repetition_penalty: f64,
                stop: TextOr<Stops>,
                stream: bool,
                stream_options: StreamOptions,
                user: String,
                conversation_id: String,
                cache_salt: String,
                logit_bias: LogitBias,
                stop_token_ids: TokenIds,
                response_format: ResponseFormat,
                structured_outputs: StructuredOutputs,
                guided_json: SchemaText,
                guided_regex: String,
                guided_choice: Choices,
                guided_grammar: String,
                nvext: RawExtensions,
            }
        }

        impl $name {
            /// Takes the shared fields out, checked.
            pub(super) fn options(
                &mut self,
                unknown: UnknownFields,
            ) -> Result<GenerationOptions, RequestError> {
                support::check(&self.others, &tables::BODY, "", unknown)?;
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
                    logit_bias: self.logit_bias.take(),
                    stop_token_ids: self.stop_token_ids.take(),
                    constraints: RawConstraints {
                        response_format: self.response_format.take(),
                        structured_outputs: self.structured_outputs.take(),
                        guided_json: self.guided_json.take(),
                        guided_regex: self.guided_regex.take(),
                        guided_choice: self.guided_choice.take(),
                        guided_grammar: self.guided_grammar.take(),
                    },
                    nvext: self.nvext.take(),
                }
                .check(unknown)
            }
        }
    };
}

request_fields! {
    /// `POST /v1/chat/completions`.
    ChatFields {
        messages: Messages,
        tools: RawTools,
        tool_choice: RawChoice,
        parallel_tool_calls: bool,
        reasoning_effort: String,
        chat_template_kwargs: JsonText,
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
