//! The order of one request's messages: what has come, what is answered, what is done.
//!
//! Nothing here waits or knows a clock: a message goes in, orders come out, and whoever carries them out
//! reports what was picked. With `FULL_DUPLEX_STREAMED`, the mode that gateways use, Envoy hands bodies
//! over and gets back what is to be sent on:
//!
//! ```text
//! headers ─► Open     body ─► Gather …     last part, or trailers ─► Pick
//!                                            picked ─► endpoint, body again in parts, trailers
//! answer: headers ─► passed on    body ─► passed on, Read …    last part, or trailers ─► Completes
//! ```
//!
//! In its other modes Envoy waits for the answer to the headers before it shows the body, so that the
//! endpoint is picked without it.

use std::net::SocketAddr;

use bytes::Bytes;
use contract::TraceContext;
use frontend::{Call, Refused};
use http::StatusCode;

use crate::wire::processing_request::Request;
use crate::wire::{self, BodySendMode, HttpBody, ProcessingRequest, ProcessingResponse, Side};

/// What Envoy has to say, as far as it matters.
#[derive(Debug)]
pub enum Event {
    Headers {
        call: Box<Call>,
        ends: bool,
        modes: Option<Modes>,
    },
    Body(Part),
    Trailers,
    AnswerHeaders {
        status: StatusCode,
        served: Option<SocketAddr>,
        ends: bool,
    },
    AnswerBody(Part),
    AnswerTrailers,
}

/// A part of a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Part {
    pub bytes: Bytes,
    /// Nothing follows, trailers neither.
    pub ends: bool,
}

/// Whether Envoy hands bodies over and sends on what it gets back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    pub request: bool,
    pub answer: bool,
}

/// What is to be done.
#[derive(Debug)]
pub enum Order {
    /// Take the request in.
    Open(Box<Call>),
    /// Keep a part of its body.
    Gather(Bytes),
    /// Pick, and report it.
    Pick,
    Send(ProcessingResponse),
    /// The answer begins.
    Begins {
        status: StatusCode,
        served: Option<SocketAddr>,
    },
    /// A part of the answer passes by.
    Read(Bytes),
    /// The answer is complete.
    Completes,
}

/// A message that cannot come now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} while {phase}")]
pub struct OutOfOrder {
    message: &'static str,
    phase: &'static str,
}

/// How a request ended, which decides what follows the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its body is not to be sent from here.
    Headers,
    Body,
    Trailers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    New,
    Body,
    Picking(End),
    /// The endpoint was named.
    Sent,
    Answer,
    Over,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::New => "nothing has come",
            Self::Body => "the body comes",
            Self::Picking(_) => "an endpoint is being picked",
            Self::Sent => "the endpoint answers",
            Self::Answer => "the answer comes",
            Self::Over => "all is over",
        }
    }
}

/// One HTTP request and its answer.
#[derive(Debug)]
pub struct Exchange {
    phase: Phase,
    modes: Modes,
}

impl Event {
    /// `None` for a message of a kind that we do not know.
    pub fn read(message: ProcessingRequest) -> Option<Self> {
        let metadata = message.metadata_context.as_ref();
        let part = |body: HttpBody| Part {
            bytes: body.body,
            ends: body.end_of_stream,
        };
        Some(match message.request? {
            Request::RequestHeaders(headers) => Self::Headers {
                ends: headers.end_of_stream,
                call: Box::new(wire::call(headers, metadata)),
                modes: message.protocol_config.map(|config| Modes {
                    request: config.request_body_mode() == BodySendMode::FullDuplexStreamed,
                    answer: config.response_body_mode() == BodySendMode::FullDuplexStreamed,
                }),
            },
            Request::RequestBody(body) => Self::Body(part(body)),
            Request::RequestTrailers(_) => Self::Trailers,
            Request::ResponseHeaders(headers) => Self::AnswerHeaders {
                ends: headers.end_of_stream,
                served: wire::served(metadata),
                status: wire::status(headers),
            },
            Request::ResponseBody(body) => Self::AnswerBody(part(body)),
            Request::ResponseTrailers(_) => Self::AnswerTrailers,
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Headers { .. } => "headers of a request",
            Self::Body(_) => "a request's body",
            Self::Trailers => "a request's trailers",
            Self::AnswerHeaders { .. } => "headers of an answer",
            Self::AnswerBody(_) => "an answer's body",
            Self::AnswerTrailers => "an answer's trailers",
        }
    }
}

impl Default for Exchange {
    fn default() -> Self {
        Self {
            phase: Phase::New,
            // Of an Envoy that does not say: what the protocol of endpoint pickers asks for.
            modes: Modes {
                request: true,
                answer: true,
            },
        }
    }
}

impl Exchange {
    /// Takes the next message.
    pub fn step(&mut self, event: Event) -> Result<Vec<Order>, OutOfOrder> {
        let name = event.name();
        Ok(match (self.phase, event) {
            (Phase::New, Event::Headers { call, ends, modes }) => {
                self.modes = modes.unwrap_or(self.modes);
                let mut orders = vec![Order::Open(call)];
                match ends || !self.modes.request {
                    true => orders.push(self.pick(End::Headers)),
                    false => self.phase = Phase::Body,
                }
                orders
            }
            (Phase::Body, Event::Body(part)) => {
                let mut orders = Vec::new();
                if !part.bytes.is_empty() {
                    orders.push(Order::Gather(part.bytes));
                }
                if part.ends {
                    orders.push(self.pick(End::Body));
                }
                orders
            }
            (Phase::Body, Event::Trailers) => vec![self.pick(End::Trailers)],
            (Phase::Sent, Event::Body(_)) if !self.modes.request => {
                vec![Order::Send(wire::same_body(Side::Request))]
            }
            (Phase::Sent, Event::Trailers) if !self.modes.request => {
                vec![Order::Send(wire::same_trailers(Side::Request))]
            }
            // Before anything was picked, it is another filter that answers.
            (
                Phase::Body | Phase::Picking(_) | Phase::Sent,
                Event::AnswerHeaders {
                    status,
                    served,
                    ends,
                },
            ) => {
                let orders = vec![
                    Order::Begins { status, served },
                    Order::Send(wire::same_headers()),
                ];
                self.phase = Phase::Answer;
                self.ended(orders, ends)
            }
            (Phase::Answer, Event::AnswerBody(part)) => self.pass(part),
            (Phase::Answer, Event::AnswerTrailers) => {
                let orders = vec![Order::Send(wire::same_trailers(Side::Answer))];
                self.ended(orders, true)
            }
            (Phase::Over, _) => Vec::new(),
            (
                phase,
                Event::Headers { .. }
                | Event::Body(_)
                | Event::Trailers
                | Event::AnswerHeaders { .. }
                | Event::AnswerBody(_)
                | Event::AnswerTrailers,
            ) => {
                return Err(OutOfOrder {
                    message: name,
                    phase: phase.name(),
                });
            }
        })
    }

    fn pick(&mut self, end: End) -> Order {
        self.phase = Phase::Picking(end);
        Order::Pick
    }

    /// First on its way, then read: nobody waits for the books.
    fn pass(&mut self, part: Part) -> Vec<Order> {
        let Part { bytes, ends } = part;
        let replies = match self.modes.answer {
            true => wire::echo(Side::Answer, &bytes, ends),
            false => vec![wire::same_body(Side::Answer)],
        };
        let mut orders: Vec<Order> = replies.into_iter().map(Order::Send).collect();
        if !bytes.is_empty() {
            orders.push(Order::Read(bytes));
        }
        self.ended(orders, ends)
    }

    fn ended(&mut self, mut orders: Vec<Order>, ends: bool) -> Vec<Order> {
        if ends {
            self.phase = Phase::Over;
            orders.push(Order::Completes);
        }
        orders
    }

    /// What to send when endpoints were picked, and under which span of ours they are asked.
    pub fn picked(
        &mut self,
        endpoints: &[SocketAddr],
        body: &Bytes,
        asks: Option<&TraceContext>,
    ) -> Vec<ProcessingResponse> {
        let Phase::Picking(end) = self.phase else {
            return Vec::new();
        };
        self.phase = Phase::Sent;
        let mut replies = vec![wire::destination(endpoints, asks)];
        match end {
            End::Headers => {}
            End::Body => replies.extend(wire::echo(Side::Request, body, true)),
            End::Trailers => {
                replies.extend(wire::echo(Side::Request, body, false));
                replies.push(wire::same_trailers(Side::Request));
            }
        }
        replies
    }

    /// What to send when the request is refused.
    pub fn refused(&mut self, refused: Refused) -> ProcessingResponse {
        self.phase = Phase::Over;
        wire::immediate(refused)
    }
}

#[cfg(test)]
mod tests;
