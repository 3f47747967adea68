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

use answer_parser::Part;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, header};
use http_body::Frame;
use openai::messages::MessagesWriter;
use openai::responses::ResponsesWriter;
use openai::{Delta, EventWriter, FinishReason, Said, sse};
use tracing::warn;

use crate::answer::{Answer, Spoken};
use crate::error::ApiError;
use crate::exchange::Exchange;
use crate::logprobs::Taken;
use crate::reply::ReplyError;
use crate::shape::Shape;
use crate::traced;

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
    writer: Writer,
    /// Answers whose first event is out.
    begun: Vec<bool>,
    spoken: Spoken,
}

/// Writes the events of one of the APIs.
enum Writer {
    Completions(EventWriter),
    Responses(Box<ResponsesWriter>),
    Messages(Box<MessagesWriter>),
}

impl EventStream {
    fn new(exchange: Exchange) -> Self {
        let (id, created) = (exchange.id.as_str(), exchange.created);
        let model = exchange.model.name.as_str();
        let writer = match &exchange.shape {
            Shape::Chat => Writer::Completions(EventWriter::chat(id, created, model)),
            Shape::Completions => Writer::Completions(EventWriter::completion(id, created, model)),
            Shape::Responses(responded) => {
                let echo = responded.echo.clone();
                Writer::Responses(Box::new(ResponsesWriter::new(id, created, model, echo)))
            }
            Shape::Messages { omit_thinking, .. } => {
                let writer = MessagesWriter::new(id, model).omit_thinking(*omit_thinking);
                Writer::Messages(Box::new(writer))
            }
        };
        let begun = vec![false; exchange.answers.len()];
        Self {
            exchange: Some(exchange),
            writer,
            begun,
            spoken: Spoken::default(),
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
                self.spoken.clear();
                if let (false, Some(echo)) = (self.begun[at], exchange.echoes.get(at)) {
                    self.spoken.text.push_str(echo);
                }
                match exchange.answers[at].poll_piece(context, &mut self.spoken) {
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

    /// Writes what the answer at this index said.
    fn write_piece(&mut self, at: usize, finish: Option<FinishReason>, out: &mut Vec<u8>) {
        let Some(exchange) = &mut self.exchange else {
            return;
        };
        // Text that is held back (half a character, a possible stop string) has nothing to say.
        if self.spoken.text.is_empty() && self.spoken.parts.is_empty() && finish.is_none() {
            return;
        }
        let begun = &mut self.begun[at];
        match &mut self.writer {
            Writer::Completions(writer) => {
                let piece = AnswerPiece {
                    spoken: &self.spoken,
                    finish,
                    begun,
                };
                piece.write(writer, exchange, at, out);
            }
            Writer::Responses(writer) => {
                if !std::mem::replace(begun, true) {
                    writer.begin(out);
                }
                let answer = &exchange.answers[at];
                said_in(&self.spoken, answer, |said| writer.said(out, &said));
                if let Some(finish) = finish {
                    let nvext = answer.extensions(&exchange.extensions, &exchange.record);
                    nvext.into_iter().for_each(|nvext| writer.set_nvext(nvext));
                    let message = writer.finish(out, finish, &answer.usage);
                    let shape = std::mem::replace(&mut exchange.shape, Shape::Chat);
                    if let Shape::Responses(responded) = shape {
                        responded.keep(&exchange.app.responses, &exchange.id, message);
                    }
                }
            }
            Writer::Messages(writer) => {
                let answer = &exchange.answers[at];
                if !std::mem::replace(begun, true) {
                    writer.begin(out, &answer.usage);
                }
                said_in(&self.spoken, answer, |said| writer.said(out, &said));
                if let Some(finish) = finish {
                    writer.finish(out, finish, answer.stopped_by(), &answer.usage);
                }
            }
        }
    }

    fn end(&mut self, outcome: Result<(), ReplyError>, out: &mut Vec<u8>) {
        let Some(exchange) = self.exchange.take() else {
            return;
        };
        let error = match outcome {
            Ok(()) => {
                exchange.record.finish();
                None
            }
            Err(error) => {
                let trace_id = traced::logged(&exchange.record.trace);
                warn!(id = exchange.id, trace_id, %error, "stream broke off");
                let error = ApiError::from(error);
                exchange.record.fail(error.error_type());
                Some(error)
            }
        };
        match (&mut self.writer, error) {
            (Writer::Completions(writer), error) => {
                match error {
                    Some(error) => sse::error_event(out, &error.body()),
                    None if exchange.include_usage => {
                        writer.usage_event(out, &exchange.total_usage(), None);
                    }
                    None => {}
                }
                sse::done(out);
            }
            (Writer::Responses(writer), Some(error)) => writer.error(out, &error.body()),
            (Writer::Messages(writer), Some(error)) => {
                writer.error(out, error.status_number(), &error.body());
            }
            (Writer::Responses(_) | Writer::Messages(_), None) => {}
        }
    }
}

/// What an answer said since the last time, for events of chat and completions.
struct AnswerPiece<'a> {
    spoken: &'a Spoken,
    finish: Option<FinishReason>,
    begun: &'a mut bool,
}

impl AnswerPiece<'_> {
    /// One event for all text, or one for each part.
    fn write(self, writer: &EventWriter, exchange: &mut Exchange, at: usize, out: &mut Vec<u8>) {
        let Self {
            spoken,
            finish,
            begun,
        } = self;
        let answer = &mut exchange.answers[at];
        let nvext = finish.and_then(|_| answer.extensions(&exchange.extensions, &exchange.record));
        let nvext = nvext.map(|nvext| nvext.to_string());
        let logprobs = answer.take_logprobs();
        let mut logprobs = logprobs.as_ref().map(Taken::as_event);
        let usage = exchange.continuous_usage.then_some(&answer.usage);
        for part in &spoken.parts {
            let delta = Delta {
                index: answer.index,
                role: !std::mem::replace(begun, true),
                said: said(part, answer),
                usage,
                logprobs: logprobs.take(),
                ..Delta::default()
            };
            writer.event(out, &delta);
        }
        if !spoken.parts.is_empty() && finish.is_none() {
            return;
        }
        let delta = Delta {
            index: answer.index,
            role: !std::mem::replace(begun, true),
            said: Said::Content(&spoken.text),
            finish,
            usage,
            logprobs,
            nvext: nvext.as_deref(),
        };
        writer.event(out, &delta);
    }
}

/// Hands over what was said, in order.
fn said_in<'a>(spoken: &'a Spoken, answer: &'a Answer, mut take: impl FnMut(Said<'a>)) {
    if !spoken.text.is_empty() {
        take(Said::Content(&spoken.text));
    }
    spoken
        .parts
        .iter()
        .for_each(|part| take(said(part, answer)));
}

fn said<'a>(part: &'a Part, answer: &'a Answer) -> Said<'a> {
    match part {
        Part::Content(text) => Said::Content(text),
        Part::Reasoning(text) => Said::Reasoning(text),
        Part::Call { index, name } => Said::Call {
            index: *index,
            id: answer.call_id(*index),
            name,
        },
        Part::Arguments { index, text } => Said::Arguments {
            index: *index,
            text,
        },
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
