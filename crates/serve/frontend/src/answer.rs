//! One running answer: turns a worker's chunks into text.
//!
//! Sits between [`crate::reply`], which yields tokens, and the two ways to send text:
//! [`crate::stream`] and [`crate::collect`]. An answer lets go of its worker as soon as it
//! is complete, and a stop string completes it before the worker knows.

use std::fmt::Write as _;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

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
    logprobs: Gathered,
    /// Gone once the answer is complete.
    reply: Option<Reply>,
}

/// What one chunk added. Its text is in the caller's buffer.
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
            usage: usage_of(&reply),
            begun: None,
            started: None,
            times: TokenTimes::default(),
            text,
            logprobs,
            reply: Some(reply),
        }
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

    /// Appends the next chunk's text to `text`; `None` after the last.
    pub(crate) fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        text: &mut String,
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
        let stopped = self.text.push(&chunk.tokens, text);
        let finish = match (stopped, chunk.finish) {
            (true, _) | (_, Some(FinishReason::Stop)) => Some(openai::FinishReason::Stop),
            (_, Some(FinishReason::Length)) => Some(openai::FinishReason::Length),
            (false, None) => None,
        };
        if finish.is_some() {
            if !stopped {
                self.text.finish(text);
            }
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
            let worker = self.worker();
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
            "prefill_wait_time_ms": self.started.map(|started| milliseconds(started.queue_wait)),
            "prefill_time_ms": self.started.map(|started| milliseconds(started.prefill)),
            "ttft_ms": record.time_to_first_token(&self.times).map(milliseconds),
            "itl_ms": self.times.per_output_token().map(milliseconds),
            "total_time_ms": milliseconds(record.elapsed()),
            "kv_hit_rate": f64::from(cached) / f64::from(self.usage.prompt_tokens.max(1)),
        })
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
