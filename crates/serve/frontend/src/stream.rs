//! A streamed answer: server-sent events, written as tokens arrive.
//!
//! The body is polled by the connection. Each poll drains everything that has gathered into
//! one buffer, so a client that keeps up gets every token at once and one that lags gets
//! many events in one write. Events of different prompts interleave, and the stream begins
//! with the first of them: a prompt that waits for a slot does not hold the others up.
//!
//! # Guarantees
//!
//! - The first event of a chat carries role and text together; there is no early role event
//!   that a client could mistake for a first token.
//! - Text is whole characters. A usage event comes only when asked for, with no choices.
//!   `[DONE]` is last, also after an error.
//! - Dropping the body (the client hung up) drops the exchange and so cancels the request.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, header};
use http_body::Frame;
use openai::{Delta, EventWriter, FinishReason, sse};
use tracing::warn;

use crate::error::ApiError;
use crate::exchange::Exchange;
use crate::logprobs::Taken;
use crate::metrics::Endpoint;
use crate::reply::ReplyError;

/// A frame is sent once it has this size, even if more is ready.
const FRAME_BYTES: usize = 32 << 10;

pub(crate) fn response(exchange: Exchange) -> Response {
    let body = Body::new(EventStream::new(exchange));
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, body).into_response()
}

struct EventStream {
    /// Gone once the stream has ended.
    exchange: Option<Exchange>,
    writer: EventWriter,
    /// Answers whose first event is out.
    begun: Vec<bool>,
    text: String,
}

impl EventStream {
    fn new(exchange: Exchange) -> Self {
        let model = exchange.app.model.as_str();
        let writer = match exchange.endpoint {
            Endpoint::Chat => EventWriter::chat(&exchange.id, exchange.created, model),
            Endpoint::Completions => EventWriter::completion(&exchange.id, exchange.created, model),
        };
        let begun = vec![false; exchange.answers.len()];
        Self {
            exchange: Some(exchange),
            writer,
            begun,
            text: String::new(),
        }
    }

    /// Writes what is ready. `Some` when the stream ends here.
    fn drain(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Result<(), ReplyError>> {
        let mut waiting = false;
        for at in 0..self.begun.len() {
            loop {
                if out.len() >= FRAME_BYTES {
                    return None;
                }
                let exchange = self.exchange.as_mut()?;
                self.text.clear();
                if let (false, Some(echo)) = (self.begun[at], exchange.echoes.get(at)) {
                    self.text.push_str(echo);
                }
                match exchange.answers[at].poll_piece(context, &mut self.text) {
                    Poll::Pending => {
                        waiting = true;
                        break;
                    }
                    Poll::Ready(None) => break,
                    Poll::Ready(Some(Err(error))) => return Some(Err(error)),
                    Poll::Ready(Some(Ok(piece))) => {
                        self.write_piece(at, piece.finish, out);
                    }
                }
            }
        }
        (!waiting).then_some(Ok(()))
    }

    /// Writes the available text as an event of the answer at this index.
    fn write_piece(&mut self, at: usize, finish: Option<FinishReason>, out: &mut Vec<u8>) {
        let Some(exchange) = &mut self.exchange else {
            return;
        };
        // Text that is held back (half a character, a possible stop string) has nothing to say.
        if self.text.is_empty() && finish.is_none() {
            return;
        }
        let answer = &mut exchange.answers[at];
        let nvext = finish.and_then(|_| answer.extensions(&exchange.extensions, &exchange.record));
        let nvext = nvext.map(|nvext| nvext.to_string());
        let logprobs = answer.take_logprobs();
        let delta = Delta {
            index: answer.index,
            role: !self.begun[at],
            text: &self.text,
            finish,
            usage: exchange.continuous_usage.then_some(&answer.usage),
            logprobs: logprobs.as_ref().map(Taken::as_event),
            nvext: nvext.as_deref(),
        };
        self.writer.event(out, &delta);
        self.begun[at] = true;
    }

    fn end(&mut self, outcome: Result<(), ReplyError>, out: &mut Vec<u8>) {
        let Some(exchange) = self.exchange.take() else {
            return;
        };
        match outcome {
            Ok(()) => {
                if exchange.include_usage {
                    self.writer.usage_event(out, &exchange.total_usage(), None);
                }
                exchange.record.finish();
            }
            Err(error) => {
                warn!(id = exchange.id, %error, "stream broke off");
                let error = ApiError::from(error);
                sse::error_event(out, &error.body());
                exchange.record.fail(error.error_type());
            }
        }
        sse::done(out);
    }
}

impl http_body::Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.exchange.is_none() {
            return Poll::Ready(None);
        }
        let mut out = Vec::new();
        if let Some(outcome) = self.drain(context, &mut out) {
            self.end(outcome, &mut out);
        }
        if out.is_empty() {
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(out.into()))))
    }
}
