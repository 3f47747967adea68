//! The fields of a request that engines have beyond OpenAI's API.

use contract::{GenerateRequest, TokenId};
use serde::Serialize;

/// `None` is not sent.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Extensions<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) top_k: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_p: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) repetition_penalty: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ignore_eos: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stop_token_ids: Option<&'a [TokenId]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) return_token_ids: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) return_tokens_as_token_ids: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detokenize: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache_salt: Option<String>,
}

impl<'a> Extensions<'a> {
    /// What the engines that take more than OpenAI's fields have in common.
    pub(crate) fn sampling(request: &'a GenerateRequest) -> Self {
        let limits = &request.limits;
        let (sampling, named) = (&request.sampling, request.sampling.named);
        let min_tokens = limits.min_tokens.saturating_sub(answered(request));
        let stops = !limits.eos_tokens.is_empty() && !limits.ignore_eos;
        Self {
            // Every engine takes -1 for no limit.
            top_k: named.top_k.then(|| sampling.top_k.map_or(-1, i64::from)),
            min_p: named.min_p.then_some(sampling.min_p),
            repetition_penalty: named.repetition.then_some(sampling.penalties.repetition),
            min_tokens: (min_tokens > 0).then_some(min_tokens),
            ignore_eos: limits.ignore_eos.then_some(true),
            stop_token_ids: stops.then_some(&limits.eos_tokens),
            ..Self::default()
        }
    }
}

/// Tokens of the answer that the client already has.
pub(crate) fn answered(request: &GenerateRequest) -> u32 {
    u32::try_from(request.answered.len()).unwrap_or(u32::MAX)
}

/// Leaves out a value that has no effect: not every engine knows every field.
pub(crate) fn unless(value: f32, without_effect: f32) -> Option<f32> {
    (value != without_effect).then_some(value)
}
