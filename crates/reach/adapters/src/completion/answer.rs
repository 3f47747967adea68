//! The events of a streamed answer become chunks of tokens.
//!
//! The first chunk has to say how much of the prompt was cached, and most engines say it only
//! after the last token. So it begins with what the engine's events had said, and where the
//! engine's own figure comes later, the last chunk carries it.

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
    /// Some engines put an error at the top.
    object: Option<String>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Choice {
    text: Option<String>,
    token_ids: Option<Vec<TokenId>>,
    logprobs: Option<Logprobs>,
    finish_reason: Option<String>,
    /// The token or the text that ended the answer: vLLM and TensorRT-LLM.
    stop_reason: Option<serde_json::Value>,
    /// The same: SGLang.
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

#[derive(Deserialize)]
#[serde(untagged)]
enum Failure {
    Text(String),
    Full { message: String },
}

/// The answer cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);

/// What is known of an answer once it is over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// As the engine says; `None` if it does not.
    pub cached_tokens: Option<u32>,
    pub tokens: Vec<TokenId>,
}

/// One answer.
#[derive(Debug)]
pub struct Answer {
    eos_tokens: std::sync::Arc<[TokenId]>,
    ignore_eos: bool,
    top_logprobs: Option<usize>,
    /// Used once the engine has shown that it gives text only.
    tokenize: Tokenize,
    retokenizer: Option<Retokenizer>,
    /// What the first chunk says unless the engine does.
    expected_cached: u32,
    cached_tokens: Option<u32>,
    /// The figure that the first chunk gave.
    told: Option<u32>,
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
            told: None,
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

    /// Whether there is nothing to hand out, and more is to come.
    pub fn waits(&self) -> bool {
        self.chunks.is_empty() && !self.over
    }

    /// Whether the last chunk has been made.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// What is known of it. To be taken once, at the end.
    pub fn ended(&mut self) -> Ended {
        Ended {
            cached_tokens: self.cached_tokens,
            tokens: std::mem::take(&mut self.tokens),
        }
    }

    /// Takes the data of one event in. `after` is how long ago the request went out.
    pub fn event(&mut self, data: &str, after: Duration) -> Result<(), Broken> {
        if self.over {
            return Ok(());
        }
        if data.trim() == "[DONE]" {
            return self.done(after);
        }
        let event: Event = serde_json::from_str(data)
            .map_err(|error| Broken(format!("an event that is not understood: {error}")))?;
        if let Some(failure) = event.error {
            let (Failure::Text(message) | Failure::Full { message }) = failure;
            return Err(Broken(message));
        }
        if event.object.as_deref() == Some("error") {
            return Err(Broken(event.message.unwrap_or_default()));
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

    /// The stream has ended, with or without the word for it.
    pub fn done(&mut self, after: Duration) -> Result<(), Broken> {
        if self.over {
            return Ok(());
        }
        let Some(finish) = self.finish else {
            return Err(Broken("the stream ended before the answer".to_owned()));
        };
        let rest = self.retokenizer.as_mut().map(Retokenizer::finish);
        let mut chunk = self.chunk(rest.unwrap_or_default(), Vec::new(), after);
        if self.told.is_some()
            && self
                .cached_tokens
                .is_some_and(|cached| self.told != Some(cached))
        {
            chunk.started = self.started(after);
        }
        // A stream without a single token still has begun.
        if self.told.is_none() {
            chunk.started = self.started(after);
        }
        chunk.finish = Some(finish);
        self.chunks.push_back(chunk);
        self.over = true;
        Ok(())
    }

    fn choice(&mut self, choice: Choice, after: Duration) -> Result<(), Broken> {
        let finish = match choice.finish_reason.as_deref() {
            None => None,
            Some("stop" | "eos") => Some(FinishReason::Stop),
            Some("length" | "max_tokens") => Some(FinishReason::Length),
            Some(other) => return Err(Broken(format!("the engine ended it: {other}"))),
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

    /// The token that ends an answer is not part of it; engines give it all the same.
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
        let begins = self.told.is_none() && !tokens.is_empty();
        TokenChunk {
            started: if begins { self.started(after) } else { None },
            tokens: SmallVec::from_vec(tokens),
            logprobs,
            finish: None,
            speculation: None,
        }
    }

    fn started(&mut self, after: Duration) -> Option<Started> {
        let cached_tokens = self.cached_tokens.unwrap_or(self.expected_cached);
        self.told = Some(cached_tokens);
        Some(Started {
            cached_tokens,
            // Engines do not say how long a request waited before its prefill.
            queue_wait: Duration::ZERO,
            prefill: after,
        })
    }

    /// Log-probabilities where the engine names tokens by id, and has one for each token.
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
