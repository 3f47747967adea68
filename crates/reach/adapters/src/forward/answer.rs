//! Reads an answer that an engine's server wrote, and passes it on as it is.
//!
//! Events are read only as far as the books need it: how many tokens, how many of the prompt were
//! cached, whether the answer is complete. Nothing is handed on before the first of them says
//! something, so that a request whose engine fails before that can still go to another.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use contract::{FinishReason, ForwardRequest, Started, TokenChunk, Written};
use openai::event_reader::TooLong;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::completion::{AnswerSummary, Failure, StreamError};

/// The longest event, the longest answer in one piece, and the most that may come before anything
/// is said: images and embeddings are long.
const MOST_BYTES: usize = 64 << 20;

/// An answer, or an event of one, in any of the APIs. What does not fit is passed on unread.
#[derive(Default, Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    /// Where the Responses API has its usage.
    response: Option<Holder>,
    /// Where the Messages API has its first usage; a text where some engines report an error.
    message: Option<HolderOrText>,
    error: Option<Failure>,
    #[serde(borrow)]
    object: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Delta>,
    text: Option<String>,
    finish_reason: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    #[serde(alias = "reasoning")]
    reasoning_content: Option<String>,
    tool_calls: Option<Vec<IgnoredAny>>,
}

#[derive(Deserialize)]
struct Holder {
    usage: Option<Usage>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum HolderOrText {
    Text(String),
    Holder(Holder),
}

/// Under the names of all APIs.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Usage {
    #[serde(alias = "input_tokens")]
    prompt_tokens: Option<u32>,
    #[serde(alias = "output_tokens")]
    completion_tokens: Option<u32>,
    #[serde(alias = "input_tokens_details")]
    prompt_tokens_details: Option<Details>,
    /// In the Messages API these are not among the input tokens.
    cache_read_input_tokens: Option<u32>,
    cache_creation_input_tokens: Option<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Details {
    cached_tokens: Option<u32>,
}

impl Usage {
    /// Later figures replace earlier ones.
    fn update(&mut self, later: Self) {
        self.prompt_tokens = later.prompt_tokens.or(self.prompt_tokens);
        self.completion_tokens = later.completion_tokens.or(self.completion_tokens);
        self.prompt_tokens_details = later.prompt_tokens_details.or(self.prompt_tokens_details);
        self.cache_read_input_tokens = later
            .cache_read_input_tokens
            .or(self.cache_read_input_tokens);
        self.cache_creation_input_tokens = later
            .cache_creation_input_tokens
            .or(self.cache_creation_input_tokens);
    }

    fn prompt_tokens(&self) -> Option<u32> {
        let outside = [
            self.cache_read_input_tokens,
            self.cache_creation_input_tokens,
        ];
        let add = |sum: u32, tokens: &u32| sum.saturating_add(*tokens);
        Some(outside.iter().flatten().fold(self.prompt_tokens?, add))
    }

    fn cached_tokens(&self) -> Option<u32> {
        let detail = self.prompt_tokens_details.and_then(|one| one.cached_tokens);
        detail.or(self.cache_read_input_tokens)
    }
}

impl Choice {
    fn says_something(&self) -> bool {
        let said = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        said(&self.text)
            || self.delta.as_ref().is_some_and(|delta| {
                let calls = delta.tool_calls.as_ref();
                said(&delta.content)
                    || said(&delta.reasoning_content)
                    || calls.is_some_and(|calls| !calls.is_empty())
            })
    }
}

impl Event<'_> {
    fn says_something(&self) -> bool {
        let delta = |kind: &str| kind.ends_with(".delta") || kind == "content_block_delta";
        self.choices.iter().any(Choice::says_something) || self.kind.as_deref().is_some_and(delta)
    }

    /// Whether it is only there to report the usage.
    fn is_usage_alone(&self) -> bool {
        self.kind.is_none() && self.choices.is_empty() && self.usage.is_some()
    }

    fn usage(&self) -> Option<Usage> {
        let message = match &self.message {
            Some(HolderOrText::Holder(holder)) => holder.usage,
            Some(HolderOrText::Text(_)) | None => None,
        };
        let response = self.response.as_ref().and_then(|holder| holder.usage);
        self.usage.or(response).or(message)
    }

    /// An error in the form of any engine.
    fn failure(&mut self) -> Option<StreamError> {
        if let Some(failure) = self.error.take() {
            return Some(failure.into());
        }
        match (self.object.as_deref(), &self.message) {
            (Some("error"), Some(HolderOrText::Text(text))) => {
                Some(StreamError::Engine(text.clone()))
            }
            _ => None,
        }
    }

    /// Whether nothing follows.
    fn ends(&self) -> bool {
        let last = [
            "response.completed",
            "response.incomplete",
            "response.failed",
            "message_stop",
        ];
        self.kind
            .as_deref()
            .is_some_and(|kind| last.contains(&kind))
    }
}

/// One answer.
#[derive(Debug)]
pub struct ForwardedAnswer {
    stream: bool,
    include_usage: bool,
    /// Bytes of an event that is not complete, or of the whole answer.
    partial: BytesMut,
    /// Read and not handed on.
    ready: Vec<u8>,
    /// The model's name as the engine writes it, and as the client knows it, where they differ.
    rename: Option<[String; 2]>,
    /// Tokens in `ready`.
    ready_tokens: u32,
    /// Tokens handed on, or in `ready`.
    tokens: u32,
    usage: Usage,
    expected_cached: u32,
    /// The number of cached tokens that the first chunk reported.
    reported: Option<u32>,
    /// An event has said something.
    said: bool,
    /// An answer of the stream has said why it ended.
    finished: bool,
    over: bool,
    chunks: VecDeque<TokenChunk>,
}

impl ForwardedAnswer {
    /// `model` is its name at the engine; `expected_cached` is what the first chunk reports, unless
    /// the engine says otherwise before.
    pub fn new(request: &ForwardRequest, model: &str, expected_cached: u32) -> Self {
        let member = |name: &str| format!(r#""model":{}"#, json!(name));
        let renamed = request.adapter.is_none() && model != request.model;
        Self {
            rename: renamed.then(|| [member(model), member(&request.model)]),
            stream: request.stream,
            include_usage: request.include_usage,
            partial: BytesMut::new(),
            ready: Vec::new(),
            ready_tokens: 0,
            tokens: 0,
            usage: Usage::default(),
            expected_cached,
            reported: None,
            said: false,
            finished: false,
            over: false,
            chunks: VecDeque::new(),
        }
    }

    pub fn is_stream(&self) -> bool {
        self.stream
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

    pub fn summary(&self) -> AnswerSummary {
        AnswerSummary {
            cached_tokens: self.usage.cached_tokens(),
            prompt_tokens: self.usage.prompt_tokens(),
            output_tokens: self.tokens,
            tokens: Vec::new(),
        }
    }

    /// Takes the next bytes of the answer. `after` is the time since the request was sent.
    pub fn push(&mut self, bytes: &[u8], after: Duration) -> Result<(), StreamError> {
        if self.over {
            return Ok(());
        }
        if self.partial.len() + self.ready.len() + bytes.len() > MOST_BYTES {
            return Err(TooLong.into());
        }
        // An event's end may lie across two reads.
        let mut searched = self.partial.len().saturating_sub(3);
        self.partial.extend_from_slice(bytes);
        if !self.stream {
            return Ok(());
        }
        while let Some(end) = event_end(&self.partial, searched) {
            let event = self.partial.split_to(end).freeze();
            searched = 0;
            self.event(&event)?;
            if self.over {
                break;
            }
        }
        match self.over {
            true => self.finish(after),
            false if self.said => self.flush(after, None),
            false => {}
        }
        Ok(())
    }

    /// The connection has ended.
    pub fn done(&mut self, after: Duration) -> Result<(), StreamError> {
        if self.over {
            return Ok(());
        }
        if self.stream {
            if !self.finished {
                return Err(StreamError::Incomplete);
            }
        } else {
            let whole = self.partial.split().freeze();
            let mut event: Event<'_> = serde_json::from_slice(&whole).unwrap_or_default();
            if let Some(failure) = event.failure() {
                return Err(failure);
            }
            self.usage.update(event.usage().unwrap_or_default());
            self.take(&whole);
        }
        self.finish(after);
        Ok(())
    }

    fn event(&mut self, bytes: &Bytes) -> Result<(), StreamError> {
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let data: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .map(str::trim)
            .collect();
        let data = match data[..] {
            [one] => Cow::Borrowed(one),
            _ => Cow::Owned(data.join("\n")),
        };
        if data == "[DONE]" {
            self.over = true;
            self.take(bytes);
            return Ok(());
        }
        let mut event: Event<'_> = serde_json::from_str(&data).unwrap_or_default();
        if let Some(failure) = event.failure() {
            return Err(failure);
        }
        self.usage.update(event.usage().unwrap_or_default());
        if event.is_usage_alone() && !self.include_usage {
            return Ok(());
        }
        if event.says_something() {
            self.said = true;
            self.ready_tokens += 1;
            self.tokens += 1;
        }
        let finishes = |choice: &Choice| choice.finish_reason.is_some();
        self.finished |= event.choices.iter().any(finishes);
        self.over = event.ends();
        self.take(bytes);
        Ok(())
    }

    /// Adds to what is ready. A quotation mark inside a text is escaped, so that the member's name
    /// cannot be mistaken.
    fn take(&mut self, bytes: &[u8]) {
        match (&self.rename, std::str::from_utf8(bytes)) {
            (Some([engine, client]), Ok(text)) if text.contains(engine.as_str()) => {
                let renamed = text.replace(engine.as_str(), client);
                self.ready.extend_from_slice(renamed.as_bytes());
            }
            _ => self.ready.extend_from_slice(bytes),
        }
    }

    fn finish(&mut self, after: Duration) {
        self.over = true;
        // The engine's own count is the right one.
        let missed = self.usage.completion_tokens.unwrap_or(0);
        let missed = missed.saturating_sub(self.tokens);
        self.tokens += missed;
        self.ready_tokens += missed;
        self.flush(after, Some(FinishReason::Stop));
    }

    /// Hands on what is ready.
    fn flush(&mut self, after: Duration, finish: Option<FinishReason>) {
        if self.ready.is_empty() && finish.is_none() {
            return;
        }
        let cached = self.usage.cached_tokens();
        let news = match (self.reported, cached) {
            (None, cached) => Some(cached.unwrap_or(self.expected_cached)),
            (Some(reported), Some(cached)) if finish.is_some() && cached != reported => {
                Some(cached)
            }
            (Some(_), _) => None,
        };
        self.reported = self.reported.or(news);
        self.chunks.push_back(TokenChunk {
            started: news.map(|cached_tokens| {
                Box::new(Started {
                    cached_tokens,
                    // Engines do not report how long a request waited before its prefill.
                    intake: Duration::ZERO,
                    queue_wait: Duration::ZERO,
                    prefill: after,
                })
            }),
            finish,
            written: Some(Box::new(Written {
                bytes: std::mem::take(&mut self.ready),
                tokens: std::mem::take(&mut self.ready_tokens),
            })),
            ..TokenChunk::default()
        });
    }
}

/// Where the first event ends, behind the empty line that ends it.
fn event_end(bytes: &[u8], searched: usize) -> Option<usize> {
    let from = searched.min(bytes.len());
    (from..bytes.len()).find_map(|at| match &bytes[at..] {
        [b'\n', b'\n', ..] => Some(at + 2),
        [b'\n', b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}
