//! Turns the events of a streamed answer into chunks of tokens.
//!
//! The first chunk states how much of the prompt was cached, and most engines report that only
//! after the last token. So the first chunk carries what the engine's cache events led to
//! expect, and if the engine's own number differs, the last chunk carries that.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use contract::{FinishReason, OutputLimits, Started, TokenChunk, TokenId, TokenLogprob};
use serde::Deserialize;
use smallvec::SmallVec;

use crate::retokenize::{Retokenizer, Tokenize};

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    error: Option<Failure>,
    /// Some engines report an error at the top level: `object` is "error".
    object: Option<String>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Choice {
    text: Option<String>,
    token_ids: Option<Vec<TokenId>>,
    logprobs: Option<Logprobs>,
    finish_reason: Option<String>,
    /// The token or the text that ended the answer (vLLM, TensorRT-LLM).
    stop_reason: Option<serde_json::Value>,
    /// The same (SGLang).
    matched_stop: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Logprobs {
    #[serde(default)]
    token_logprobs: Vec<Option<f32>>,
    #[serde(default)]
    top_logprobs: Option<Vec<Option<BTreeMap<String, f32>>>>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u32>,
}

/// An error that an engine reports in the midst of an answer.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Failure {
    Text(String),
    Full {
        message: String,
        code: Option<serde_json::Value>,
    },
}

impl From<Failure> for StreamError {
    /// An engine that calls the request invalid is not to blame, though it says so late.
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Full {
                message,
                code: Some(code),
            } if matches!(code.as_u64(), Some(400 | 413 | 422)) => Self::Refused(message),
            Failure::Text(message) | Failure::Full { message, .. } => Self::Engine(message),
        }
    }
}

/// Why an answer ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error("an event of the answer cannot be read")]
    Event(#[source] serde_json::Error),
    #[error("the answer is not a stream of events")]
    Framing(#[from] openai::event_reader::TooLong),
    #[error("{0}")]
    Engine(String),
    /// The engine calls the request invalid.
    #[error("{0}")]
    Refused(String),
    #[error("the engine ended the answer with the reason `{0}`")]
    FinishReason(String),
    #[error("the stream ended before the answer")]
    Incomplete,
    #[error("the connection broke")]
    Connection(#[from] hyper::Error),
    #[error("the engine is gone")]
    Gone,
}

/// What an answer says about the engine's cache, once it has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerSummary {
    /// Prompt tokens that were cached, as the engine reports it; `None` if it does not.
    pub cached_tokens: Option<u32>,
    /// The prompt's tokens, where the engine has made them of text itself and reports it.
    pub prompt_tokens: Option<u32>,
    pub output_tokens: u32,
    /// Empty where the engine returned text alone.
    pub tokens: Vec<TokenId>,
}

/// One answer.
#[derive(Debug)]
pub struct Answer {
    eos_tokens: std::sync::Arc<[TokenId]>,
    ignore_eos: bool,
    top_logprobs: Option<usize>,
    /// Used once the engine has shown that it returns text only.
    tokenize: Tokenize,
    retokenizer: Option<Retokenizer>,
    /// What the first chunk reports unless the engine has reported a number by then.
    expected_cached: u32,
    cached_tokens: Option<u32>,
    /// The number of cached tokens that the first chunk reported.
    reported: Option<u32>,
    finish: Option<FinishReason>,
    chunks: VecDeque<TokenChunk>,
    tokens: Vec<TokenId>,
    over: bool,
}

impl Answer {
    pub fn new(
        limits: &OutputLimits,
        logprobs: Option<u8>,
        expected_cached: u32,
        tokenize: Tokenize,
    ) -> Self {
        Self {
            eos_tokens: limits.eos_tokens.clone(),
            ignore_eos: limits.ignore_eos,
            top_logprobs: logprobs.map(usize::from),
            tokenize,
            retokenizer: None,
            expected_cached,
            cached_tokens: None,
            reported: None,
            finish: None,
            chunks: VecDeque::new(),
            tokens: Vec::new(),
            over: false,
        }
    }

    /// The next chunk that is ready.
    pub fn pop(&mut self) -> Option<TokenChunk> {
        self.chunks.pop_front()
    }

    /// Whether no chunk is ready and more are to come.
    pub fn waits(&self) -> bool {
        self.chunks.is_empty() && !self.over
    }

    /// Whether the last chunk has been made.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The summary. To be called once, at the end.
    pub fn ended(&mut self) -> AnswerSummary {
        AnswerSummary {
            cached_tokens: self.cached_tokens,
            prompt_tokens: None,
            output_tokens: self.tokens.len() as u32,
            tokens: std::mem::take(&mut self.tokens),
        }
    }

    /// Reads the data of one event. `after` is the time since the request was sent.
    pub fn event(&mut self, data: &str, after: Duration) -> Result<(), StreamError> {
        if self.over {
            return Ok(());
        }
        if data.trim() == "[DONE]" {
            return self.done(after);
        }
        let event: Event = serde_json::from_str(data).map_err(StreamError::Event)?;
        if let Some(failure) = event.error {
            return Err(failure.into());
        }
        if event.object.as_deref() == Some("error") {
            return Err(StreamError::Engine(event.message.unwrap_or_default()));
        }
        let details = event.usage.and_then(|usage| usage.prompt_tokens_details);
        if let Some(cached) = details.and_then(|details| details.cached_tokens) {
            self.cached_tokens = Some(cached);
        }
        if let Some(choice) = event.choices.into_iter().next() {
            self.choice(choice, after)?;
        }
        Ok(())
    }

    /// The stream has ended, with or without `[DONE]`.
    pub fn done(&mut self, after: Duration) -> Result<(), StreamError> {
        if self.over {
            return Ok(());
        }
        let Some(finish) = self.finish else {
            return Err(StreamError::Incomplete);
        };
        let rest = self.retokenizer.as_mut().map(Retokenizer::finish);
        let mut chunk = self.chunk(rest.unwrap_or_default(), Vec::new(), after);
        if self.reported.is_some()
            && self
                .cached_tokens
                .is_some_and(|cached| self.reported != Some(cached))
        {
            chunk.started = self.started(after);
        }
        // A stream without a single token has begun all the same.
        if self.reported.is_none() {
            chunk.started = self.started(after);
        }
        chunk.finish = Some(finish);
        self.chunks.push_back(chunk);
        self.over = true;
        Ok(())
    }

    fn choice(&mut self, choice: Choice, after: Duration) -> Result<(), StreamError> {
        let finish = match choice.finish_reason.as_deref() {
            None => None,
            Some("stop" | "eos") => Some(FinishReason::Stop),
            Some("length" | "max_tokens") => Some(FinishReason::Length),
            Some(other) => return Err(StreamError::FinishReason(other.to_owned())),
        };
        let text = choice.text.unwrap_or_default();
        let mut tokens = match choice.token_ids {
            Some(tokens) if self.retokenizer.is_none() => tokens,
            Some(_) | None => self.tokens_of(&text),
        };
        let mut logprobs = self.logprobs(choice.logprobs, tokens.len());
        if finish == Some(FinishReason::Stop) && !self.ignore_eos {
            let reason = choice.stop_reason.or(choice.matched_stop);
            self.strip_end(&mut tokens, reason.as_ref());
            logprobs.truncate(tokens.len());
        }
        self.finish = self.finish.or(finish);
        if !tokens.is_empty() {
            let chunk = self.chunk(tokens, logprobs, after);
            self.chunks.push_back(chunk);
        }
        Ok(())
    }

    fn tokens_of(&mut self, text: &str) -> Vec<TokenId> {
        if text.is_empty() {
            return Vec::new();
        }
        let tokenize = &self.tokenize;
        let retokenizer = self
            .retokenizer
            .get_or_insert_with(|| Retokenizer::new(tokenize.clone()));
        retokenizer.push(text)
    }

    /// Removes the token that ends an answer: it is not part of it, but engines return it.
    fn strip_end(&self, tokens: &mut Vec<TokenId>, reason: Option<&serde_json::Value>) {
        let Some(last) = tokens.last() else { return };
        let stopped_at = reason.and_then(serde_json::Value::as_u64);
        if self.eos_tokens.contains(last) || stopped_at == Some(u64::from(*last)) {
            tokens.pop();
        }
    }

    fn chunk(
        &mut self,
        tokens: Vec<TokenId>,
        logprobs: Vec<TokenLogprob>,
        after: Duration,
    ) -> TokenChunk {
        self.tokens.extend_from_slice(&tokens);
        let begins = self.reported.is_none() && !tokens.is_empty();
        TokenChunk {
            started: if begins { self.started(after) } else { None },
            tokens: SmallVec::from_vec(tokens),
            logprobs,
            ..TokenChunk::default()
        }
    }

    fn started(&mut self, after: Duration) -> Option<Box<Started>> {
        let cached_tokens = self.cached_tokens.unwrap_or(self.expected_cached);
        self.reported = Some(cached_tokens);
        Some(Box::new(Started {
            cached_tokens,
            // Engines do not report how long a request waited before its prefill.
            intake: Duration::ZERO,
            queue_wait: Duration::ZERO,
            prefill: after,
        }))
    }

    /// Log-probabilities, if the engine has one per token.
    fn logprobs(&self, logprobs: Option<Logprobs>, tokens: usize) -> Vec<TokenLogprob> {
        let (Some(logprobs), Some(most)) = (logprobs, self.top_logprobs) else {
            return Vec::new();
        };
        if logprobs.token_logprobs.len() != tokens {
            return Vec::new();
        }
        let mut tops = logprobs.top_logprobs.unwrap_or_default();
        tops.resize_with(tokens, || None);
        let pairs = logprobs.token_logprobs.into_iter().zip(tops);
        let named = pairs.map(|(logprob, top)| TokenLogprob {
            logprob: logprob.unwrap_or(f32::MIN),
            top: by_likelihood(top.unwrap_or_default(), most),
        });
        named.collect()
    }
}

fn by_likelihood(named: BTreeMap<String, f32>, most: usize) -> Vec<(TokenId, f32)> {
    let named = named.into_iter().filter_map(|(name, logprob)| {
        let id = name.strip_prefix("token_id:")?.parse().ok()?;
        Some((id, logprob))
    });
    let mut top: Vec<(TokenId, f32)> = named.collect();
    top.sort_by(|left, right| right.1.total_cmp(&left.1));
    top.truncate(most);
    top
}
