//! `/v1/completions` as the engines speak it: what is asked, and why it is refused.
//!
//! The prompt goes in as tokens, so an engine computes exactly what the router has hashed, and
//! token ids are asked for in return. Which fields an engine takes beyond OpenAI's differs;
//! some refuse a request with a field that they do not know, so each kind gets its own.

mod answer;

pub use answer::{Answer, Broken, Ended};

use contract::{GenerateRequest, LinkError, TokenId, WorkerId};
use http::StatusCode;
use serde::Serialize;

use crate::spec::EngineKind;
use crate::wire;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    prompt: &'a [TokenId],
    max_tokens: u32,
    stream: bool,
    stream_options: StreamOptions,
    temperature: f32,
    top_p: f32,
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

/// What is not in OpenAI's API.
#[derive(Default, Serialize)]
struct Extensions<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_p: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repetition_penalty: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ignore_eos: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_token_ids: Option<&'a [TokenId]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    return_token_ids: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    return_tokens_as_token_ids: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detokenize: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_salt: Option<String>,
}

/// Why a request cannot be put to an engine of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CannotAsk(&'static str);

/// The body of a request, and the tokens that the engine is given: the prompt and what has
/// been answered already.
pub fn body(
    kind: EngineKind,
    model: &str,
    request: &GenerateRequest,
) -> Result<(Vec<u8>, Vec<TokenId>), CannotAsk> {
    let prompt = [&request.prompt[..], &request.answered].concat();
    let done = u32::try_from(request.answered.len()).unwrap_or(u32::MAX);
    let salt = wire::salt(request.hash_seed);
    let publishes = matches!(kind, EngineKind::Vllm | EngineKind::Sglang);
    if salt.is_some() && !publishes {
        return Err(CannotAsk(
            "it cannot keep caches apart, as the request demands",
        ));
    }
    let body = Body {
        model,
        prompt: &prompt,
        max_tokens: request.limits.max_tokens.saturating_sub(done).max(1),
        stream: true,
        stream_options: StreamOptions {
            include_usage: true,
        },
        temperature: request.sampling.temperature,
        top_p: request.sampling.top_p,
        presence_penalty: unless(request.sampling.penalties.presence, 0.0),
        frequency_penalty: unless(request.sampling.penalties.frequency, 0.0),
        // Engines read a signed number.
        seed: request
            .sampling
            .seed
            .map(|seed| seed & i64::MAX.cast_unsigned()),
        logprobs: request.logprobs.filter(|_| kind == EngineKind::Vllm),
        extensions: extensions(kind, request, done, salt),
    };
    let bytes = serde_json::to_vec(&body).expect("numbers and text can be written");
    Ok((bytes, prompt))
}

/// What changes nothing is not said: not every engine knows every field.
fn unless(value: f32, nothing: f32) -> Option<f32> {
    (value != nothing).then_some(value)
}

fn extensions(
    kind: EngineKind,
    request: &GenerateRequest,
    done: u32,
    salt: Option<String>,
) -> Extensions<'_> {
    let limits = &request.limits;
    if kind == EngineKind::Openai {
        return Extensions::default();
    }
    let min_tokens = limits.min_tokens.saturating_sub(done);
    let gives_ids = matches!(kind, EngineKind::Vllm | EngineKind::Sglang);
    let by_id = kind == EngineKind::Vllm && request.logprobs.is_some();
    Extensions {
        top_k: request.sampling.top_k,
        min_p: unless(request.sampling.min_p, 0.0),
        repetition_penalty: unless(request.sampling.penalties.repetition, 1.0),
        min_tokens: (min_tokens > 0).then_some(min_tokens),
        ignore_eos: limits.ignore_eos.then_some(true),
        stop_token_ids: (!limits.eos_tokens.is_empty() && !limits.ignore_eos)
            .then_some(&limits.eos_tokens),
        return_token_ids: gives_ids.then_some(true),
        return_tokens_as_token_ids: by_id.then_some(true),
        // TensorRT-LLM gives either text or tokens.
        detokenize: (kind == EngineKind::Trtllm).then_some(false),
        cache_salt: salt,
    }
}

/// Longest part of an engine's error that is passed on.
const LONGEST_DETAIL: usize = 500;

/// What an answer that is not 200 means.
///
/// An engine that has no room is well. A request that the engine calls bad would be bad
/// everywhere, and it must not count against the engine, or one client could take them all
/// down. It is too long only if the engine says so: a client that hears that shortens what it
/// sends. Everything else (not found, not allowed, broken) lies with the engine.
pub fn refusal(worker: WorkerId, status: StatusCode, body: &[u8]) -> LinkError {
    let detail = detail(status, body);
    match status.as_u16() {
        429 | 503 | 529 => LinkError::Overloaded { worker, detail },
        413 => LinkError::TooLarge { worker, detail },
        400 | 422 if calls_it_too_long(body) => LinkError::TooLarge { worker, detail },
        400 | 422 => LinkError::Refused { worker, detail },
        _ => LinkError::Unreachable { worker, detail },
    }
}

/// What engines say of a request that does not fit: OpenAI's code, vLLM and SGLang ("context
/// length"), TensorRT-LLM ("max_seq_len", "max_num_tokens"), and older ones of each.
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

fn calls_it_too_long(body: &[u8]) -> bool {
    let words = String::from_utf8_lossy(body).to_lowercase();
    TOO_LONG.iter().any(|phrase| words.contains(phrase))
}

/// The engine's own words, if it has any.
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
