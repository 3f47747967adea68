//! Bodies: a request in tokens, and the engine's output.

use contract::{GenerateRequest, TokenId};
use serde::{Deserialize, Serialize};

use super::{Codec, DecodeError};

/// The largest body of one step: thousands of tokens with their alternatives.
pub const LARGEST_OUTPUT: usize = 16 << 20;

#[derive(Debug, Serialize)]
struct Request<'a> {
    model: &'a str,
    token_ids: Vec<TokenId>,
    stop_conditions: StopConditions<'a>,
    sampling_options: SamplingOptions,
    output_options: OutputOptions,
    eos_token_ids: &'a [TokenId],
    annotations: [&'a str; 0],
}

#[derive(Debug, Serialize)]
struct StopConditions<'a> {
    max_tokens: u32,
    min_tokens: u32,
    ignore_eos: bool,
    stop_token_ids_hidden: Option<&'a [TokenId]>,
}

#[derive(Debug, Serialize)]
struct SamplingOptions {
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<i32>,
    min_p: Option<f32>,
    presence_penalty: Option<f32>,
    frequency_penalty: Option<f32>,
    repetition_penalty: Option<f32>,
    seed: Option<i64>,
}

#[derive(Debug, Serialize)]
struct OutputOptions {
    logprobs: Option<u32>,
    skip_special_tokens: bool,
}

/// The request's body. An answer that was begun elsewhere is part of the prompt here, and
/// what is left of the limits is asked for.
pub fn request(request: &GenerateRequest, model: &str, codec: Codec) -> Vec<u8> {
    let (limits, sampling) = (&request.limits, &request.sampling);
    let (penalties, named) = (&sampling.penalties, sampling.named);
    let unless = |value: f32, nothing: f32| (value != nothing).then_some(value);
    let answered = u32::try_from(request.answered.len()).unwrap_or(u32::MAX);
    codec.encode(&Request {
        model,
        token_ids: [&request.prompt[..], &request.answered].concat(),
        stop_conditions: StopConditions {
            max_tokens: limits.max_tokens.saturating_sub(answered),
            min_tokens: limits.min_tokens.saturating_sub(answered),
            ignore_eos: limits.ignore_eos,
            stop_token_ids_hidden: (!limits.ignore_eos).then_some(&limits.eos_tokens),
        },
        sampling_options: SamplingOptions {
            temperature: named.temperature.then_some(sampling.temperature),
            top_p: named.top_p.then_some(sampling.top_p),
            top_k: named.top_k.then(|| {
                let top_k = sampling.top_k.map(i32::try_from);
                top_k.map_or(-1, |top_k| top_k.unwrap_or(i32::MAX))
            }),
            min_p: named.min_p.then_some(sampling.min_p),
            presence_penalty: unless(penalties.presence, 0.0),
            frequency_penalty: unless(penalties.frequency, 0.0),
            repetition_penalty: named.repetition.then_some(penalties.repetition),
            seed: sampling.seed.map(u64::cast_signed),
        },
        output_options: OutputOptions {
            logprobs: request.logprobs.map(u32::from),
            skip_special_tokens: false,
        },
        eos_token_ids: &limits.eos_tokens,
        annotations: [],
    })
}

/// A frame of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<T> {
    Data(T),
    /// An annotation, which is neither output nor an error.
    Nothing,
    /// The end of the answer.
    End,
    Error {
        /// Dynamo's name for the kind of error, where the version has one.
        kind: String,
        message: String,
    },
}

/// What the engine produced in one step.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Output {
    #[serde(default)]
    pub token_ids: Vec<TokenId>,
    #[serde(default)]
    pub log_probs: Option<Vec<f64>>,
    #[serde(default)]
    pub top_logprobs: Option<Vec<Vec<Alternative>>>,
    #[serde(default)]
    pub finish_reason: Option<Finish>,
    #[serde(default)]
    pub completion_usage: Option<Usage>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Alternative {
    pub token_id: TokenId,
    pub logprob: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    Eos,
    Stop,
    Length,
    ContentFilter,
    #[serde(alias = "abort")]
    Cancelled,
    Error(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Usage {
    #[serde(default)]
    pub prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PromptDetails {
    #[serde(default)]
    pub cached_tokens: Option<u32>,
}

impl Output {
    /// Prompt tokens that were cached, if the engine reports them.
    pub fn cached_tokens(&self) -> Option<u32> {
        let usage = self.completion_usage.as_ref()?;
        usage.prompt_tokens_details.as_ref()?.cached_tokens
    }
}

/// The envelope of every frame. The end is marked, because a connection can break.
#[derive(Deserialize)]
struct Wrapper<T> {
    data: Option<T>,
    #[serde(default)]
    complete_final: bool,
}

/// The envelope of output, which may carry an error or an annotation instead.
#[derive(Deserialize)]
struct Annotated<T> {
    data: Option<T>,
    #[serde(default)]
    event: Option<String>,
    #[serde(default)]
    comment: Option<Vec<String>>,
    #[serde(default)]
    error: Option<Fault>,
}

#[derive(Deserialize)]
struct Fault {
    #[serde(default)]
    error_type: Option<FaultType>,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum FaultType {
    Name(String),
    Backend {
        #[serde(rename = "Backend")]
        kind: String,
    },
}

/// Reads one frame of an engine's answer.
pub fn output(body: &[u8], codec: Codec) -> Result<Answer<Output>, DecodeError> {
    let wrapper: Wrapper<Annotated<Output>> = codec.decode("engine output", body)?;
    let Some(annotated) = wrapper.data else {
        return Ok(end_or_nothing(wrapper.complete_final));
    };
    if annotated.error.is_some() || annotated.event.as_deref() == Some("error") {
        let remarks = annotated.comment.unwrap_or_default().join(", ");
        let (kind, message) = match annotated.error {
            Some(fault) => (fault.kind(), fault.message),
            None => (String::new(), remarks),
        };
        return Ok(Answer::Error { kind, message });
    }
    Ok(annotated.data.map_or(Answer::Nothing, Answer::Data))
}

/// Reads one frame of an answer that has no annotations.
pub(crate) fn plain<T: serde::de::DeserializeOwned>(
    what: &'static str,
    body: &[u8],
    codec: Codec,
) -> Result<Answer<T>, DecodeError> {
    let wrapper: Wrapper<T> = codec.decode(what, body)?;
    let end = end_or_nothing(wrapper.complete_final);
    Ok(wrapper.data.map_or(end, Answer::Data))
}

fn end_or_nothing<T>(end: bool) -> Answer<T> {
    if end { Answer::End } else { Answer::Nothing }
}

impl Fault {
    fn kind(&self) -> String {
        match &self.error_type {
            Some(FaultType::Name(name)) => name.clone(),
            Some(FaultType::Backend { kind }) => format!("Backend{kind}"),
            None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests;
