//! How to generate: what the two endpoints have in common.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::RequestError;
use super::extensions::{Extensions, RawExtensions};
use super::list::{TextOr, bound, list};
use super::object::{name, object};
use super::output_format::{OutputConstraint, RawConstraints};
use super::support::{self, UnknownFields};
use super::tables;
use super::value::Stops;

/// Bytes of one stop string. Every stream with it keeps and compares it; nobody waits for a
/// page of text word by word.
const MAX_STOP_BYTES: usize = 1024;
/// One that divides by next to nothing would leave no number of a logit.
const REPETITION_PENALTY: RangeInclusive<f64> = 0.01..=100.0;
/// OpenAI's own limit.
const MAX_ANSWERS: i64 = 128;
/// More than anybody lists by hand; each costs a little in every step.
const MAX_BIASES: usize = 1024;
const MAX_STOP_TOKENS: usize = 128;
const BIAS: RangeInclusive<f64> = -100.0..=100.0;
const CHAT_TOP_LOGPROBS: RangeInclusive<i64> = 0..=20;
const COMPLETION_LOGPROBS: RangeInclusive<i64> = 0..=5;

/// How to generate. Everything is in range.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerationOptions {
    /// `max_completion_tokens`, or else `max_tokens`. At least 1.
    pub max_tokens: Option<u32>,
    /// Never above `max_tokens`.
    pub min_tokens: u32,
    pub ignore_eos: bool,
    /// 0 to 2.
    pub temperature: Option<f32>,
    /// Above 0, at most 1. A request's 0, which leaves only the likeliest token, becomes
    /// temperature 0, which engines support.
    pub top_p: Option<f32>,
    /// At least 1; `None` where the request switched it off.
    pub top_k: Option<u32>,
    pub seed: Option<i64>,
    /// 0 to 1.
    pub min_p: Option<f32>,
    pub presence_penalty: f32,
    pub frequency_penalty: f32,
    /// 0.01 to 100; `None` for none.
    pub repetition_penalty: Option<f32>,
    /// None of them is empty.
    pub stop: Vec<String>,
    pub stream: bool,
    /// End the stream with an event that carries the usage.
    pub include_usage: bool,
    /// Carry the usage so far in every event of the stream.
    pub continuous_usage_stats: bool,
    /// How many alternatives to report for each token; `None` for no log-probabilities.
    pub logprobs: Option<u8>,
    /// Answers to each prompt, at least 1.
    pub n: u32,
    /// What is added to the logits of single tokens, by ascending id.
    pub logit_bias: Vec<(u32, f32)>,
    /// Tokens that end the answer, besides the model's own.
    pub stop_token_ids: Vec<u32>,
    /// The only answers that the model may give.
    pub constraint: Option<OutputConstraint>,
    pub user: Option<String>,
    pub conversation_id: Option<String>,
    pub extensions: Extensions,
}

object! {
    StreamOptions, "an object" {
        include_usage: bool,
        continuous_usage_stats: bool,
    }
}

/// `logit_bias`: token ids, which JSON can only have as texts, and what to add.
#[derive(Debug)]
pub(crate) struct LogitBias(Vec<(String, f64)>);

impl LogitBias {
    fn check(self) -> Result<Vec<(u32, f32)>, RequestError> {
        let mut biases = Vec::with_capacity(self.0.len());
        for (token, bias) in self.0 {
            let Ok(id) = token.parse::<u32>() else {
                let problem = format_args!("`{}` is not a token id", name(&token));
                return Err(RequestError::invalid("logit_bias", problem));
            };
            within(&format!("logit_bias.{id}"), Some(bias), &BIAS)?;
            biases.push((id, bias as f32));
        }
        biases.sort_by_key(|(id, _)| *id);
        biases.dedup_by_key(|(id, _)| *id);
        Ok(biases)
    }
}

impl<'de> Deserialize<'de> for LogitBias {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Biases;

        impl<'de> Visitor<'de> for Biases {
            type Value = LogitBias;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of token ids and numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<LogitBias, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = members.next_entry::<String, f64>()? {
                    bound(all.len(), MAX_BIASES, "biases")?;
                    all.push(entry);
                }
                Ok(LogitBias(all))
            }
        }

        source.deserialize_map(Biases)
    }
}

list! {
    /// `stop_token_ids`.
    TokenIds(u32), MAX_STOP_TOKENS, "token ids"
}

impl Default for GenerationOptions {
    fn default() -> Self {
        Self {
            max_tokens: None,
            min_tokens: 0,
            ignore_eos: false,
            temperature: None,
            top_p: None,
            top_k: None,
            seed: None,
            min_p: None,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            repetition_penalty: None,
            stop: Vec::new(),
            stream: false,
            include_usage: false,
            continuous_usage_stats: false,
            logprobs: None,
            n: 1,
            logit_bias: Vec::new(),
            stop_token_ids: Vec::new(),
            constraint: None,
            user: None,
            conversation_id: None,
            extensions: Extensions::default(),
        }
    }
}

/// The shared fields before their check.
#[derive(Debug, Default)]
pub(crate) struct RawOptions {
    pub(crate) max_tokens: Option<i64>,
    pub(crate) max_completion_tokens: Option<i64>,
    pub(crate) min_tokens: Option<i64>,
    pub(crate) ignore_eos: Option<bool>,
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) top_k: Option<i64>,
    pub(crate) seed: Option<i64>,
    pub(crate) n: Option<i64>,
    pub(crate) presence_penalty: Option<f64>,
    pub(crate) frequency_penalty: Option<f64>,
    pub(crate) min_p: Option<f64>,
    pub(crate) repetition_penalty: Option<f64>,
    pub(crate) stop: Option<TextOr<Stops>>,
    pub(crate) stream: Option<bool>,
    pub(crate) stream_options: Option<StreamOptions>,
    pub(crate) user: Option<String>,
    pub(crate) conversation_id: Option<String>,
    pub(crate) cache_salt: Option<String>,
    pub(crate) logit_bias: Option<LogitBias>,
    pub(crate) stop_token_ids: Option<TokenIds>,
    pub(crate) constraints: RawConstraints,
    pub(crate) nvext: Option<RawExtensions>,
}

impl RawOptions {
    pub(crate) fn check(self, unknown: UnknownFields) -> Result<GenerationOptions, RequestError> {
        if let Some(options) = &self.stream_options {
            let fields = &tables::STREAM_OPTIONS;
            support::check(&options.others, fields, "stream_options.", unknown)?;
        }
        if let Some(nvext) = &self.nvext {
            nvext.check(unknown)?;
        }
        let (max_tokens, min_tokens) = self.lengths()?;
        let n = within("n", self.n, &(1..=MAX_ANSWERS))?.unwrap_or(1);
        let constraint = self.constraints.check(unknown)?;
        if let Some(constraint) = &constraint {
            let contradicts = match (self.ignore_eos, min_tokens) {
                (Some(true), _) => Some("ignore_eos"),
                (_, 1..) => Some("min_tokens"),
                _ => None,
            };
            if let Some(param) = contradicts {
                let problem = format_args!(
                    "cannot be combined with `{}`, which decides where the answer ends",
                    constraint.param
                );
                return Err(RequestError::invalid(param, problem));
            }
        }
        let top_p = within("top_p", self.top_p, &(0.0..=1.0))?.map(|value| value as f32);
        // So small a number that it is none is no other wish.
        let greedy = top_p == Some(0.0);
        let temperature = within("temperature", self.temperature, &(0.0..=2.0))?;
        let penalty = |param, value: Option<f64>| within(param, value, &(-2.0..=2.0));
        let stream = self.stream.unwrap_or(false);
        let streaming = self.stream_options.filter(|_| stream);
        let asks = |ask: fn(&StreamOptions) -> Option<bool>| {
            streaming.as_ref().and_then(ask).unwrap_or(false)
        };
        Ok(GenerationOptions {
            max_tokens,
            min_tokens,
            ignore_eos: self.ignore_eos.unwrap_or(false),
            temperature: match greedy {
                true => Some(0.0),
                false => temperature.map(|value| value as f32),
            },
            top_p: top_p.filter(|_| !greedy),
            top_k: within("top_k", self.top_k, &(-1..=i64::from(u32::MAX)))?
                .map(|value| u32::try_from(value).unwrap_or(0)),
            seed: self.seed,
            presence_penalty: penalty("presence_penalty", self.presence_penalty)?.unwrap_or(0.0)
                as f32,
            frequency_penalty: penalty("frequency_penalty", self.frequency_penalty)?.unwrap_or(0.0)
                as f32,
            min_p: within("min_p", self.min_p, &(0.0..=1.0))?.map(|value| value as f32),
            repetition_penalty: within(
                "repetition_penalty",
                self.repetition_penalty,
                &REPETITION_PENALTY,
            )?
            .map(|value| value as f32),
            stop: stops("stop", self.stop)?,
            stream,
            include_usage: asks(|options| options.include_usage),
            continuous_usage_stats: asks(|options| options.continuous_usage_stats),
            logprobs: None,
            n: n as u32,
            logit_bias: self.logit_bias.map_or(Ok(Vec::new()), LogitBias::check)?,
            stop_token_ids: self.stop_token_ids.map_or_else(Vec::new, |ids| ids.0),
            constraint,
            user: self.user,
            conversation_id: self.conversation_id,
            extensions: salted(self.nvext, self.cache_salt)?,
        })
    }

    /// `max_tokens` and `min_tokens`, which must not contradict each other.
    fn lengths(&self) -> Result<(Option<u32>, u32), RequestError> {
        let positive = 1..=i64::from(u32::MAX);
        let older = within("max_tokens", self.max_tokens, &positive)?;
        let newer = within(
            "max_completion_tokens",
            self.max_completion_tokens,
            &positive,
        )?;
        let max_tokens = newer.or(older);
        let ceiling = max_tokens.unwrap_or(i64::from(u32::MAX));
        let min_tokens = within("min_tokens", self.min_tokens, &(0..=ceiling))?.unwrap_or(0);
        let narrow = |value: i64| u32::try_from(value).expect("checked against the range of u32");
        Ok((max_tokens.map(narrow), narrow(min_tokens)))
    }
}

/// The extensions with the salt of the top level, which counts where both are given.
fn salted(
    nvext: Option<RawExtensions>,
    cache_salt: Option<String>,
) -> Result<Extensions, RequestError> {
    if cache_salt.as_deref() == Some("") {
        let problem = format_args!("must not be empty");
        return Err(RequestError::invalid("cache_salt", problem));
    }
    let extensions = nvext.map_or_else(Extensions::default, |nvext| nvext.extensions);
    Ok(Extensions {
        cache_salt: cache_salt.or(extensions.cache_salt),
        ..extensions
    })
}

impl GenerationOptions {
    pub(crate) fn with_chat_logprobs(
        self,
        wanted: Option<bool>,
        alternatives: Option<i64>,
    ) -> Result<Self, RequestError> {
        let alternatives = within("top_logprobs", alternatives, &CHAT_TOP_LOGPROBS)?;
        if wanted != Some(true) {
            return match alternatives {
                Some(1..) => Err(RequestError::invalid(
                    "top_logprobs",
                    format_args!("needs `logprobs` to be true"),
                )),
                Some(_) | None => Ok(self),
            };
        }
        Ok(Self {
            logprobs: Some(alternatives.unwrap_or(0) as u8),
            ..self
        })
    }

    pub(crate) fn with_completion_logprobs(
        self,
        alternatives: Option<i64>,
    ) -> Result<Self, RequestError> {
        let alternatives = within("logprobs", alternatives, &COMPLETION_LOGPROBS)?;
        Ok(Self {
            logprobs: alternatives.map(|value| value as u8),
            ..self
        })
    }
}

/// Accepts what asks for a single answer only.
pub(crate) fn only_one(param: &str, value: Option<i64>) -> Result<(), RequestError> {
    match value {
        None | Some(1) => Ok(()),
        Some(2..) => Err(RequestError::unsupported(
            param,
            "more than one answer to a prompt".to_owned(),
        )),
        Some(other) => Err(RequestError::invalid(
            param,
            format_args!("{other} is not 1"),
        )),
    }
}

pub(crate) fn within<T: PartialOrd + Display + Copy>(
    param: &str,
    value: Option<T>,
    range: &RangeInclusive<T>,
) -> Result<Option<T>, RequestError> {
    match value {
        Some(value) if !range.contains(&value) => Err(RequestError::invalid(
            param,
            format_args!(
                "{value} is not between {} and {}",
                range.start(),
                range.end()
            ),
        )),
        Some(_) | None => Ok(value),
    }
}

/// Stop strings, checked; `param` is the field that holds them.
pub(crate) fn stops(param: &str, stop: Option<TextOr<Stops>>) -> Result<Vec<String>, RequestError> {
    let (stops, many) = match stop {
        None => return Ok(Vec::new()),
        Some(TextOr::Text(text)) => (vec![text], false),
        Some(TextOr::List(texts)) => (texts.0, true),
    };
    let at = |index| match many {
        true => format!("{param}[{index}]"),
        false => param.to_owned(),
    };
    if let Some(index) = stops.iter().position(|stop| stop.len() > MAX_STOP_BYTES) {
        return Err(RequestError::invalid(
            &at(index),
            format_args!(
                "{} bytes are more than {MAX_STOP_BYTES}",
                stops[index].len()
            ),
        ));
    }
    match stops.iter().position(String::is_empty) {
        None => Ok(stops),
        Some(index) => Err(RequestError::empty(&at(index), "must not be empty")),
    }
}
