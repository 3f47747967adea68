//! One running answer: turns a worker's chunks into text.
//!
//! Sits between [`crate::reply`], which yields tokens, and the two ways to send text:
//! [`crate::stream`] and [`crate::collect`]. An answer lets go of its worker as soon as it
//! is complete, and a stop string completes it before the worker knows.

use std::fmt::Write as _;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use answer_parser::{AnswerFormat, AnswerParser, Part, ToolFormat};
use contract::{FinishReason, Started, WorkerId};
use openai::{Extensions, Usage};
use preprocess::TextStream;
use serde_json::{Value, json};

use crate::logprobs::{Gathered, Taken};
use crate::metrics::{RequestRecord, TokenTimes};
use crate::reply::{Begun, Reply, ReplyError};

#[derive(Debug)]
pub(crate) struct Answer {
    /// The prompt's place in the request.
    pub(crate) index: u32,
    pub(crate) usage: Usage,
    /// Set once a worker answers.
    begun: Option<Begun>,
    started: Option<Started>,
    times: TokenTimes,
    text: TextStream,
    /// Where there is more to find in the text than content.
    parser: Option<CallParser>,
    logprobs: Gathered,
    /// Gone once the answer is complete.
    reply: Option<Reply>,
}

/// The parser of an answer's text, and what it has found.
#[derive(Debug)]
struct CallParser {
    parser: AnswerParser,
    format: AnswerFormat,
    /// Text on its way to the parser; kept for its allocation.
    passing: String,
    /// Of each call so far.
    ids: Vec<String>,
}

/// What an answer said, in order: either text alone, or parts.
#[derive(Debug, Default)]
pub(crate) struct Spoken {
    pub(crate) text: String,
    pub(crate) parts: Vec<Part>,
}

impl Spoken {
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.parts.clear();
    }
}

/// What one chunk added. What it said is in the caller's buffer.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) finish: Option<openai::FinishReason>,
}

/// Waits until the first of the answers has begun, or one of them will not.
pub(crate) async fn one_begins(answers: &mut [Answer]) -> Result<(), ReplyError> {
    poll_fn(|context| {
        let begun = answers.iter_mut().map(|answer| answer.poll_begun(context));
        // All of them are asked, so that each can wake this task.
        begun.fold(Poll::Pending, |known, one| match (known, one) {
            (failed @ Poll::Ready(Err(_)), _) | (Poll::Pending, failed) => failed,
            (Poll::Ready(Ok(())), failed @ Poll::Ready(Err(_))) => failed,
            (begun @ Poll::Ready(Ok(())), _) => begun,
        })
    })
    .await
}

impl Answer {
    pub(crate) fn new(index: u32, reply: Reply, text: TextStream, logprobs: Gathered) -> Self {
        Self {
            index,
            parser: None,
            usage: usage_of(&reply),
            begun: None,
            started: None,
            times: TokenTimes::default(),
            text,
            logprobs,
            reply: Some(reply),
        }
    }

    /// Looks for reasoning and calls in the text.
    #[must_use]
    pub(crate) fn parsed(mut self, format: AnswerFormat, tool_names: &[String]) -> Self {
        if format.tools.is_some() || format.reasoning.is_some() {
            self.parser = Some(CallParser {
                parser: AnswerParser::new(format, tool_names),
                format,
                passing: String::new(),
                ids: Vec::new(),
            });
        }
        self
    }

    /// The stop string that ended the answer, if one did.
    pub(crate) fn stopped_by(&self) -> Option<&str> {
        self.text.stopped_by()
    }

    /// The id of a call of this answer.
    pub(crate) fn call_id(&self, index: u32) -> &str {
        let ids = self.parser.as_ref().map(|parser| &parser.ids);
        ids.and_then(|ids| ids.get(index as usize))
            .map_or("", String::as_str)
    }

    pub(crate) fn worker(&self) -> Option<WorkerId> {
        self.begun.as_ref().map(|begun| begun.worker)
    }

    fn poll_begun(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ReplyError>> {
        let (None, Some(reply)) = (&self.begun, &mut self.reply) else {
            return Poll::Ready(Ok(()));
        };
        self.begun = Some(ready!(reply.poll_begun(context))?);
        Poll::Ready(Ok(()))
    }

    /// Appends what the next chunk says to `spoken`; `None` after the last.
    pub(crate) fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        spoken: &mut Spoken,
    ) -> Poll<Option<Result<Piece, ReplyError>>> {
        if let Err(error) = ready!(self.poll_begun(context)) {
            self.reply = None;
            return Poll::Ready(Some(Err(error)));
        }
        let Some(reply) = &mut self.reply else {
            return Poll::Ready(None);
        };
        let chunk = match ready!(reply.poll_chunk(context)) {
            Some(Ok(chunk)) => chunk,
            Some(Err(error)) => {
                self.reply = None;
                return Poll::Ready(Some(Err(error)));
            }
            None => {
                self.reply = None;
                return Poll::Ready(None);
            }
        };
        self.usage = usage_of(reply);
        self.started = reply.started;
        self.logprobs.add(&chunk);
        let text = match &mut self.parser {
            Some(parser) => &mut parser.passing,
            None => &mut spoken.text,
        };
        let stopped = self.text.push(&chunk.tokens, text);
        let mut finish = match (stopped, chunk.finish) {
            (true, _) | (_, Some(FinishReason::Stop)) => Some(openai::FinishReason::Stop),
            (_, Some(FinishReason::Length)) => Some(openai::FinishReason::Length),
            (false, None) => None,
        };
        if finish.is_some() && !stopped {
            self.text.finish(text);
        }
        if let Some(parser) = &mut self.parser {
            parser.parse(finish.is_some(), &mut spoken.parts);
            if finish == Some(openai::FinishReason::Stop) && !parser.ids.is_empty() {
                finish = Some(openai::FinishReason::ToolCalls);
            }
        }
        if finish.is_some() {
            self.times = reply.times();
            self.reply = None;
        }
        Poll::Ready(Some(Ok(Piece { finish })))
    }

    /// Log-probabilities of the tokens since the last time.
    pub(crate) fn take_logprobs(&mut self) -> Option<Taken> {
        self.logprobs.take()
    }

    /// The `nvext` object that the request asked for.
    pub(crate) fn extensions(&self, asked: &Extensions, record: &RequestRecord) -> Option<Value> {
        if !asked.worker_id && !asked.timing && !asked.routing {
            return None;
        }
        let mut nvext = json!({});
        if asked.worker_id {
            // One worker does both phases; Dynamo's clients look for either name.
            let worker = self.worker().map(|worker| worker.0);
            nvext["worker_id"] = json!({ "prefill_worker_id": worker, "decode_worker_id": worker });
        }
        if asked.timing {
            nvext["timing"] = self.timing(record);
        }
        if let Some(routing) = self.begun.as_ref().and_then(|begun| begun.routing.as_ref()) {
            nvext["routing"] = json!(routing);
        }
        Some(nvext)
    }

    fn timing(&self, record: &RequestRecord) -> Value {
        let milliseconds = |duration: std::time::Duration| duration.as_secs_f64() * 1e3;
        let cached = self
            .usage
            .prompt_tokens_details
            .unwrap_or_default()
            .cached_tokens;
        json!({
            "prefill_wait_time_ms": self.started.map(|started| milliseconds(started.wait())),
            "prefill_time_ms": self.started.map(|started| milliseconds(started.prefill)),
            "ttft_ms": record.time_to_first_token(&self.times).map(milliseconds),
            "itl_ms": self.times.per_output_token().map(milliseconds),
            "total_time_ms": milliseconds(record.elapsed()),
            "kv_hit_rate": f64::from(cached) / f64::from(self.usage.prompt_tokens.max(1)),
        })
    }
}

impl CallParser {
    /// Passes the text on, and names the calls that begin in it.
    fn parse(&mut self, finished: bool, parts: &mut Vec<Part>) {
        let before = parts.len();
        self.parser.push(&self.passing, parts);
        self.passing.clear();
        if finished {
            self.parser.finish(parts);
        }
        for part in &parts[before..] {
            if matches!(part, Part::Call { .. }) {
                self.ids.push(call_id(self.format.tools));
            }
        }
    }
}

/// An id of a call. Mistral's templates take nine letters and digits only.
fn call_id(format: Option<ToolFormat>) -> String {
    let id = answer_id("call_");
    match format {
        Some(ToolFormat::Mistral) => id[id.len() - 9..].to_owned(),
        _ => id,
    }
}

fn usage_of(reply: &Reply) -> Usage {
    let drafts = reply.speculation;
    Usage::new(
        reply.prompt_tokens,
        reply.output_tokens,
        reply.cached_tokens,
    )
    .with_speculation(drafts.drafted_tokens, drafts.accepted_tokens)
}

/// An id as OpenAI's clients expect it: a prefix and 32 hexadecimal digits.
pub(crate) fn answer_id(prefix: &str) -> String {
    let mut id = String::with_capacity(prefix.len() + 32);
    id.push_str(prefix);
    write!(id, "{}", uuid::Uuid::now_v7().simple()).expect("a string takes everything");
    id
}
