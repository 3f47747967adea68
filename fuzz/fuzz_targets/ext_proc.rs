//! What an Envoy sends about one HTTP request: messages of any bytes, in any order.
//!
//! Asserts that they are taken in or refused without a panic, that every byte of a body which was
//! handed over comes back exactly once and in order, and no other byte, in parts that Envoy takes
//! and with nothing after the end, and that what is sent can be read.

#![no_main]

use std::net::SocketAddr;

use bytes::Bytes;
use epp::exchange::{Event, Exchange, Order};
use epp::wire::processing_request::Request;
use epp::wire::processing_response::Response;
use epp::wire::{
    BodyResponse, BodySendMode, MOST_CHUNK, ProcessingRequest, ProcessingResponse,
    body_mutation::Mutation,
};
use frontend::Refused;
use libfuzzer_sys::fuzz_target;
use prost::Message;

// The first byte chooses what is picked; each message has its length, in two bytes, before it.
fuzz_target!(|input: &[u8]| {
    let Some((&choice, mut rest)) = input.split_first() else {
        return;
    };
    let mut stream = Stream::new(choice);
    while let Some(bytes) = message(&mut rest) {
        let Ok(message) = ProcessingRequest::decode(bytes) else {
            return;
        };
        if !stream.take(message) {
            return;
        }
    }
});

fn message<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(*length)).min(after.len());
    let (message, after) = after.split_at(length);
    *rest = after;
    Some(message)
}

/// The bytes of one direction.
#[derive(Default)]
struct Side {
    /// Envoy hands bodies over, and has no copy.
    duplex: bool,
    sent: Vec<u8>,
    returned: Vec<u8>,
    ended: bool,
}

impl Side {
    fn returns(&mut self, body: BodyResponse) {
        let mutation = body.response.and_then(|common| common.body_mutation);
        let Some(mutation) = mutation.and_then(|mutation| mutation.mutation) else {
            assert!(!self.duplex, "a body that Envoy does not have");
            return;
        };
        let Mutation::StreamedResponse(part) = mutation else {
            panic!("a body is replaced");
        };
        assert!(self.duplex, "a body that Envoy has is sent again");
        assert!(part.body.len() <= MOST_CHUNK && !self.ended);
        self.returned.extend_from_slice(&part.body);
        self.ended = part.end_of_stream;
    }
}

struct Stream {
    choice: u8,
    exchange: Exchange,
    request: Side,
    answer: Side,
    opened: bool,
    gathered: Vec<u8>,
    read: Vec<u8>,
    picked: bool,
    begun: bool,
    completed: bool,
}

impl Stream {
    fn new(choice: u8) -> Self {
        let duplex = || Side {
            duplex: true,
            ..Side::default()
        };
        Self {
            choice,
            exchange: Exchange::default(),
            request: duplex(),
            answer: duplex(),
            opened: false,
            gathered: Vec::new(),
            read: Vec::new(),
            picked: false,
            begun: false,
            completed: false,
        }
    }

    /// Whether the stream goes on.
    fn take(&mut self, message: ProcessingRequest) -> bool {
        let said = message.clone();
        let Some(event) = Event::read(message) else {
            return true;
        };
        let (opened, completed) = (self.opened, self.completed);
        let Ok(orders) = self.exchange.step(event) else {
            return false;
        };
        assert!(opened || matches!(said.request, Some(Request::RequestHeaders(_))));
        if completed {
            assert!(orders.is_empty());
            return true;
        }
        self.note(said);
        for order in orders {
            if !self.carry_out(order) {
                return false;
            }
        }
        self.compare();
        true
    }

    /// What Envoy has said, and is not an error.
    fn note(&mut self, said: ProcessingRequest) {
        match said.request {
            Some(Request::RequestHeaders(_)) => {
                if let Some(config) = said.protocol_config {
                    let duplex = |mode| mode == BodySendMode::FullDuplexStreamed;
                    self.request.duplex = duplex(config.request_body_mode());
                    self.answer.duplex = duplex(config.response_body_mode());
                }
            }
            Some(Request::RequestBody(part)) if self.request.duplex => {
                self.request.sent.extend_from_slice(&part.body);
            }
            Some(Request::ResponseBody(part)) => self.answer.sent.extend_from_slice(&part.body),
            _ => {}
        }
    }

    fn carry_out(&mut self, order: Order) -> bool {
        match order {
            Order::Open(_) => assert!(!std::mem::replace(&mut self.opened, true)),
            Order::Gather(bytes) => self.gathered.extend_from_slice(&bytes),
            Order::Pick => return self.pick(),
            Order::Send(reply) => self.reply(&reply),
            Order::Begins { .. } => assert!(!std::mem::replace(&mut self.begun, true)),
            Order::Read(bytes) => self.read.extend_from_slice(&bytes),
            Order::Completes => assert!(!std::mem::replace(&mut self.completed, true)),
        }
        true
    }

    fn pick(&mut self) -> bool {
        assert!(!std::mem::replace(&mut self.picked, true));
        assert_eq!(self.gathered, self.request.sent);
        if self.choice == 0 {
            let reply = self.exchange.refused(Refused {
                status: http::StatusCode::TOO_MANY_REQUESTS,
                code: Some("workers_full"),
                retry_after_seconds: Some(1),
                body: b"{}".to_vec(),
            });
            self.reply(&reply);
            return false;
        }
        let endpoint = |number| SocketAddr::from(([10, 0, 0, number], 8000));
        let endpoints: Vec<SocketAddr> = (1..=self.choice % 4 + 1).map(endpoint).collect();
        let body = Bytes::from(self.gathered.clone());
        for reply in self.exchange.picked(&endpoints, &body, None) {
            self.reply(&reply);
        }
        assert_eq!(self.request.returned, self.request.sent);
        true
    }

    fn reply(&mut self, reply: &ProcessingResponse) {
        let bytes = reply.encode_to_vec();
        let read = ProcessingResponse::decode(&bytes[..]).expect("our own message");
        assert_eq!(&read, reply);
        match read.response.expect("a reply of some kind") {
            Response::RequestBody(body) => self.request.returns(body),
            Response::ResponseBody(body) => self.answer.returns(body),
            Response::RequestHeaders(_) => assert!(self.picked && !self.begun),
            Response::ResponseHeaders(_) => assert!(self.begun),
            Response::RequestTrailers(_)
            | Response::ResponseTrailers(_)
            | Response::ImmediateResponse(_) => {}
        }
    }

    fn compare(&self) {
        if !self.picked {
            assert!(self.request.returned.is_empty());
        }
        if self.answer.duplex {
            assert_eq!(self.answer.returned, self.answer.sent);
        }
        assert_eq!(self.read, self.answer.sent);
    }
}
