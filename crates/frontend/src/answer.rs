//! One answer in the making: a worker's chunks turned into text.
//!
//! Sits between [`crate::pipeline`], which yields tokens, and the two ways to send text:
//! [`crate::stream`] and [`crate::collect`]. An answer lets go of its worker as soon as it
//! is complete, and a stop string completes it before the worker knows.

use std::fmt::Write as _;
use std::task::{Context, Poll};

use contract::{FinishReason, LinkError, Started, TokenChunk, WorkerId};
use openai::{Extensions, Routing, Usage};
use preprocess::TextStream;
use serde_json::{Value, json};

use crate::metrics::RequestRecord;
use crate::pipeline::Reply;

#[derive(Debug)]
pub(crate) struct Answer {
    /// The prompt's place in the request.
    pub(crate) index: u32,
    pub(crate) usage: Usage,
    pub(crate) worker: WorkerId,
    pub(crate) started: Option<Started>,
    /// If the request asked for it.
    routing: Option<Routing>,
    text: TextStream,
    /// Gone once the answer is complete.
    reply: Option<Reply>,
}

/// What one chunk added. Its text is in the caller's buffer.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) chunk: TokenChunk,
    pub(crate) finish: Option<openai::FinishReason>,
}

impl Answer {
    pub(crate) fn new(index: u32, reply: Reply, text: TextStream, asked: &Extensions) -> Self {
        Self {
            index,
            usage: usage_of(&reply),
            worker: reply.worker(),
            started: reply.started,
            // Now, while the router still remembers.
            routing: asked.routing.then(|| reply.routing()).flatten(),
            text,
            reply: Some(reply),
        }
    }

    /// Appends the next chunk's text to `text`; `None` after the last.
    pub(crate) fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        text: &mut String,
    ) -> Poll<Option<Result<Piece, LinkError>>> {
        let Some(reply) = &mut self.reply else {
            return Poll::Ready(None);
        };
        let chunk = match reply.poll_chunk(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Ok(chunk))) => chunk,
            Poll::Ready(ended) => {
                self.reply = None;
                return Poll::Ready(
                    ended.map(|error| Err(error.expect_err("a chunk was handled"))),
                );
            }
        };
        self.usage = usage_of(reply);
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
            self.reply = None;
        }
        Poll::Ready(Some(Ok(Piece { chunk, finish })))
    }

    /// The `nvext` object that the request asked for.
    pub(crate) fn extensions(&self, asked: &Extensions, record: &RequestRecord) -> Option<Value> {
        if !asked.worker_id && !asked.timing && !asked.routing {
            return None;
        }
        let mut nvext = json!({});
        if asked.worker_id {
            // One worker does both phases; Dynamo's clients look for either name.
            nvext["worker_id"] =
                json!({ "prefill_worker_id": self.worker, "decode_worker_id": self.worker });
        }
        if asked.timing {
            nvext["timing"] = self.timing(record);
        }
        if let Some(routing) = &self.routing {
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
            "ttft_ms": record.time_to_first_token().map(milliseconds),
            "itl_ms": record.time_per_output_token().map(milliseconds),
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
