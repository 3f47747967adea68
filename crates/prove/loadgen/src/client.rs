//! A client of OpenAI-compatible servers that measures what it reads.
//!
//! The transport is hyper's with its pool: HTTP/1.1, or HTTP/2 by prior knowledge or by what
//! TLS negotiates. What is our own is only that the clock is read as soon as bytes arrive,
//! before anybody parses them, and that a request starts when it is handed to the transport,
//! so that waiting for a connection counts.
//!
//! # Guarantees
//!
//! - **Dropping is cancelling.** A dropped future closes its stream.
//! - **Every failure has a kind**, and a refusal carries the server's words.
//! - **Only the answer's own silence is a stall.** Before the first byte a server may queue
//!   as long as the whole request may take.

mod request;
mod target;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use contract::{Clock, Moment};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use http_client::{HttpClient, reason};
use hyper::body::Incoming;
use serde_json::Value;
use tokio::time::timeout;

use self::request::name_session;
pub use self::request::{Chat, Completion, Message, Role};
pub use self::target::{Target, TargetError};
use crate::failure::{Failure, FailureKind};
use crate::reading::{Answer, Arrival, ArrivalTotals, Listener, Reading, error_message};

/// Most of a refusal that is read to find its message.
const REFUSAL_BYTES: usize = 64 << 10;

/// How long a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Longest time for the whole answer.
    pub answer: Duration,
    /// For the next byte of an answer that has begun.
    pub silence: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(120),
            silence: Duration::from_secs(30),
        }
    }
}

/// Sends requests to one server. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    transport: HttpClient,
    target: Arc<Target>,
    patience: Patience,
    clock: Clock,
}

/// A request and what came of it.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// When sending began.
    pub sent: Moment,
    /// When the answer ended or failed.
    pub ended: Moment,
    /// What had come by then, of an answer that failed too.
    pub heard: ArrivalTotals,
    pub outcome: Result<Answer, Failure>,
}

impl Exchange {
    /// From sending to the first token, whatever became of the answer after it.
    pub fn ttft(&self) -> Option<Duration> {
        let answer = self.outcome.as_ref().ok();
        answer.and_then(|answer| answer.ttft).or(self.heard.ttft)
    }
}

/// A model that a server lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedModel {
    pub name: String,
    /// Its figures come from a simulation, as the server says.
    pub simulated: bool,
}

impl ServedModel {
    fn read(entry: &Value) -> Option<Self> {
        Some(Self {
            name: entry["id"].as_str()?.to_owned(),
            simulated: entry["simulated"] == true,
        })
    }
}

impl Client {
    pub fn new(transport: HttpClient, target: Target, patience: Patience, clock: Clock) -> Self {
        Self {
            transport,
            target: Arc::new(target),
            patience,
            clock,
        }
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Sends one turn and reads its answer to the end; `listener` gets every event as it arrives.
    pub async fn chat(&self, chat: &Chat<'_>, listener: &mut dyn Listener) -> Exchange {
        let mut request = self.request(
            Method::POST,
            "/chat/completions",
            chat.body(&self.target).into(),
        );
        name_session(chat.session, request.headers_mut());
        self.exchange(request, listener).await
    }

    /// Sends a prompt in tokens, and reads in the same way.
    pub async fn complete(
        &self,
        completion: &Completion<'_>,
        listener: &mut dyn Listener,
    ) -> Exchange {
        let body = completion.body(&self.target);
        let mut request = self.request(Method::POST, "/completions", body.into());
        name_session(completion.session, request.headers_mut());
        self.exchange(request, listener).await
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        listener: &mut dyn Listener,
    ) -> Exchange {
        // The body is ready: serialising is the client's time, not the server's.
        let sent = self.clock.now();
        let mut heard = ArrivalTotals::default();
        let mut hear = |arrival: &_| {
            heard.add(arrival);
            listener.arrived(arrival);
        };
        let read = self.read(request, Reading::new(sent), &mut hear);
        let outcome = match timeout(self.patience.answer, read).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let message = format!("no complete answer within {:?}", self.patience.answer);
                Err(Failure::new(FailureKind::Timeout, message))
            }
        };
        Exchange {
            sent,
            ended: self.clock.now(),
            heard,
            outcome,
        }
    }

    /// Whether the server has somebody who answers, as far as it says.
    pub async fn is_ready(&self) -> bool {
        let mut request = self.request(Method::GET, "", Bytes::new());
        *request.uri_mut() = self.target.health();
        match timeout(self.patience.silence, self.send(request)).await {
            Ok(Ok(response)) => response.status() != StatusCode::SERVICE_UNAVAILABLE,
            Ok(Err(_)) => false,
            // Whatever swallows this path, the server was reached.
            Err(_) => true,
        }
    }

    /// Lists the models that the server serves.
    pub async fn models(&self) -> Result<Vec<ServedModel>, Failure> {
        let request = self.request(Method::GET, "/models", Bytes::new());
        let asked = async {
            let response = self.send(request).await?;
            let (status, body) = whole(response).await?;
            let list: Value = match serde_json::from_slice(&body) {
                _ if !status.is_success() => return Err(refusal(status, &body)),
                Ok(list) => list,
                Err(error) => {
                    let message = format!("/models returned an unexpected answer: {error}");
                    return Err(Failure::new(FailureKind::BrokenStream, message));
                }
            };
            let models = list["data"].as_array().into_iter().flatten();
            Ok(models.filter_map(ServedModel::read).collect())
        };
        match timeout(self.patience.silence, asked).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::new(FailureKind::Timeout, "no list of models")),
        }
    }

    async fn read(
        &self,
        request: Request<Full<Bytes>>,
        mut reading: Reading,
        hear: &mut (dyn FnMut(&Arrival) + Send),
    ) -> Result<Answer, Failure> {
        let response = self.send(request).await?;
        if !response.status().is_success() {
            let (status, body) = whole(response).await?;
            return Err(refusal(status, &body));
        }
        let mut body = response.into_body();
        let mut begun = false;
        loop {
            let frame = body.frame();
            let frame = match begun {
                true => timeout(self.patience.silence, frame).await,
                // The head may come long before the first byte of the answer.
                false => Ok(frame.await),
            };
            let now = self.clock.now();
            let Ok(frame) = frame else {
                let message = format!("no byte for {:?}", self.patience.silence);
                return Err(Failure::new(FailureKind::Stalled, message));
            };
            begun = true;
            match frame {
                None => return reading.finish(now),
                Some(Err(error)) => return Err(broken(&error)),
                Some(Ok(frame)) => {
                    let bytes = frame.into_data().unwrap_or_default();
                    // The connection is reused only if the body is read to its end, which
                    // follows `[DONE]` at once; an error may be followed by anything.
                    let over = reading.push(now, &bytes);
                    while let Some(arrival) = reading.next_arrival() {
                        hear(&arrival);
                    }
                    if over && reading.has_failed() {
                        return reading.finish(now);
                    }
                }
            }
        }
    }

    async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<http::Response<Incoming>, Failure> {
        self.transport.send(request).await.map_err(|error| {
            let kind = match error.is_connect() {
                true => FailureKind::Connect,
                false => FailureKind::BrokenStream,
            };
            Failure::new(kind, reason(&error))
        })
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.target.uri(path);
        self.target.headers(request.headers_mut());
        request
    }
}

/// The status and a body of moderate size.
async fn whole(response: http::Response<Incoming>) -> Result<(StatusCode, Bytes), Failure> {
    let status = response.status();
    let body = Limited::new(response.into_body(), REFUSAL_BYTES).collect();
    match body.await {
        Ok(body) => Ok((status, body.to_bytes())),
        // The status says more than why its explanation could not be read.
        Err(_) if !status.is_success() => Ok((status, Bytes::new())),
        Err(error) => Err(Failure::new(FailureKind::BrokenStream, error.to_string())),
    }
}

fn refusal(status: StatusCode, body: &[u8]) -> Failure {
    let said = serde_json::from_slice(body).map_or_else(
        |_| String::from_utf8_lossy(body).chars().take(200).collect(),
        |body| error_message(&body),
    );
    let reason = status.canonical_reason().unwrap_or("refused");
    let message = if said.is_empty() {
        reason.to_owned()
    } else {
        said
    };
    Failure::refused(status.as_u16(), message)
}

fn broken(error: &hyper::Error) -> Failure {
    Failure::new(
        FailureKind::BrokenStream,
        format!("the answer was interrupted: {error}"),
    )
}
