//! Requests to an engine's `/v1/completions`, and what its refusals mean.
//!
//! The prompt is sent as token ids, so that an engine computes exactly what the router has
//! hashed, and token ids are asked for in return. Engines differ in the fields that they take
//! beyond OpenAI's, and some refuse a request with an unknown field, so each engine's
//! [`Dialect`](crate::dialect) has its own [`Extensions`].

mod answer;

pub(crate) use answer::Failure;
pub use answer::{Answer, AnswerSummary, StreamError};

use contract::{GenerateRequest, HashSeed, LinkError, TokenId, WorkerId};
use http::StatusCode;
use serde::Serialize;

use crate::dialect::Dialect;
use crate::extensions::{Extensions, answered, unless};
use crate::wire;

/// The endpoint (POST), the same at every engine.
pub(crate) const PATH: &str = "/v1/completions";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    prompt: &'a [TokenId],
    max_tokens: u32,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<u8>,
    #[serde(flatten)]
    extensions: Extensions<'a>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// Why a request cannot be sent to an engine of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnsupportedRequest {
    #[error("{engine} cannot keep blocks of a salted request apart from others")]
    CacheSalt { engine: &'static str },
}

/// A request as it is sent to an engine.
#[derive(Debug)]
pub(crate) struct CompletionRequest {
    /// In JSON.
    pub(crate) body: Vec<u8>,
    /// What the engine computes: the client's prompt and the part of the answer that the client
    /// already has.
    pub(crate) prompt: Vec<TokenId>,
}

impl CompletionRequest {
    pub(crate) fn new(
        dialect: &Dialect,
        model: &str,
        request: &GenerateRequest,
    ) -> Result<Self, UnsupportedRequest> {
        let prompt = [&request.prompt[..], &request.answered].concat();
        let cache_salt = cache_salt(dialect, request.hash_seed)?;
        let max_tokens = request.limits.max_tokens;
        let sampling = &request.sampling;
        let named = sampling.named;
        let body = Body {
            model,
            prompt: &prompt,
            max_tokens: max_tokens.saturating_sub(answered(request)).max(1),
            stream: true,
            stream_options: StreamOptions {
                include_usage: true,
            },
            temperature: named.temperature.then_some(sampling.temperature),
            top_p: named.top_p.then_some(sampling.top_p),
            presence_penalty: unless(sampling.penalties.presence, 0.0),
            frequency_penalty: unless(sampling.penalties.frequency, 0.0),
            // Engines read a signed number.
            seed: sampling.seed.map(|seed| seed & i64::MAX.cast_unsigned()),
            logprobs: request.logprobs.filter(|_| dialect.logprobs),
            extensions: Extensions {
                cache_salt,
                ..(dialect.extensions)(request)
            },
        };
        let body = serde_json::to_vec(&body).expect("numbers and text can be written");
        Ok(Self { body, prompt })
    }
}

/// What keeps the blocks of a request apart from others', if anything has to.
pub(crate) fn cache_salt(
    dialect: &Dialect,
    seed: HashSeed,
) -> Result<Option<String>, UnsupportedRequest> {
    let salt = wire::salt(seed);
    match salt.is_some() && !dialect.cache_salt {
        true => Err(UnsupportedRequest::CacheSalt {
            engine: dialect.name,
        }),
        false => Ok(salt),
    }
}

/// The longest part of an engine's error message that is passed on, in characters.
const LONGEST_DETAIL: usize = 500;

/// What a status other than 200 means.
///
/// An engine that has no capacity left is healthy. A request that one engine calls invalid is
/// invalid everywhere and must not count against the engine, or one client could take all of
/// them down. It counts as too long only if the engine says so, because clients react by
/// shortening what they send. Everything else (not found, not allowed, internal errors) is the
/// engine's fault.
pub fn refusal(worker: WorkerId, status: StatusCode, body: &[u8]) -> LinkError {
    let detail = detail(status, body);
    match status.as_u16() {
        429 | 503 | 529 => LinkError::Overloaded { worker, detail },
        413 => LinkError::TooLarge { worker, detail },
        400 | 422 if says_too_long(body) => LinkError::TooLarge { worker, detail },
        400 | 422 => LinkError::Refused { worker, detail },
        _ => LinkError::Unreachable { worker, detail },
    }
}

/// What a status other than 200 means for a request in the client's words: an engine that does not
/// have what it names is not to blame either.
pub(crate) fn forwarded_refusal(worker: WorkerId, status: StatusCode, body: &[u8]) -> LinkError {
    match status.as_u16() {
        404 | 405 | 415 | 501 => LinkError::Refused {
            worker,
            detail: detail(status, body),
        },
        _ => refusal(worker, status, body),
    }
}

/// Words in the error for a prompt that is too long: OpenAI's code, vLLM's and SGLang's
/// "context length", TensorRT-LLM's "max_seq_len" and "max_num_tokens", and those of older
/// releases.
const TOO_LONG: [&str; 8] = [
    "context_length_exceeded",
    "context length",
    "context window",
    "max_model_len",
    "max_seq_len",
    "max_num_tokens",
    "prompt is too long",
    "input is too long",
];

fn says_too_long(body: &[u8]) -> bool {
    let words = String::from_utf8_lossy(body).to_lowercase();
    TOO_LONG.iter().any(|phrase| words.contains(phrase))
}

/// The engine's own message, if it has one.
fn detail(status: StatusCode, body: &[u8]) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let message = parsed.as_ref().and_then(|value| {
        let inner = value.get("error").unwrap_or(value);
        inner
            .get("message")
            .or_else(|| inner.get("detail"))?
            .as_str()
    });
    let text = message.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned);
    let text: String = text.trim().chars().take(LONGEST_DETAIL).collect();
    if text.is_empty() {
        return format!("it answered {status}");
    }
    format!("it answered {}: {text}", status.as_u16())
}

#[cfg(test)]
mod tests;
