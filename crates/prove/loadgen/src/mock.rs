//! A server of known latency at the end of a pipe, for tests.
//!
//! Nothing here is a socket: bytes cross memory, so that on a paused clock the only time that
//! passes is what the server sleeps, and figures can be compared exactly.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use contract::Clock;
use futures_util::stream::{self, Stream};
use http::{Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use crate::client::{Client, Patience, Target};
use http_client::{HttpClient, HttpOptions, HttpVersion, Pipe};

/// How the server behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) ttft: Duration,
    pub(crate) itl: Duration,
    pub(crate) tokens: u32,
    pub(crate) tokens_per_event: u32,
    /// An event that only names the role, at once.
    pub(crate) role_first: bool,
    /// The usage so far in every event.
    pub(crate) counts_along: bool,
    pub(crate) fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Nobody listens.
    Away,
    /// Every n-th request gets this status.
    Refuse {
        status: u16,
        every: usize,
    },
    /// Goes silent after so many events.
    Stall(u32),
    /// Ends the stream after so many events.
    BreakOff(u32),
    /// Sends what is no event.
    Garbage,
    NoUsage,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            ttft: Duration::from_millis(300),
            itl: Duration::from_millis(30),
            tokens: 20,
            tokens_per_event: 1,
            role_first: false,
            counts_along: false,
            fault: Fault::None,
        }
    }
}

/// One request as the server saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) session: String,
    pub(crate) key: Option<String>,
    pub(crate) version: http::Version,
    pub(crate) body: Value,
}

/// The server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mock {
    manner: Arc<Mutex<Manner>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    tasks: TaskTracker,
}

type Body = StreamBody<Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>>;

impl Mock {
    pub(crate) fn new(manner: Manner) -> Self {
        let mock = Self::default();
        mock.behave(manner);
        mock
    }

    pub(crate) fn behave(&self, manner: Manner) {
        *self.manner.lock() = manner;
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    /// A client of this server, with patience of 20 s and 5 s.
    pub(crate) fn client(&self, clock: Clock, http2: bool) -> Client {
        let target = Target::new("http://mock", "m").unwrap();
        let patience = Patience {
            answer: Duration::from_secs(20),
            silence: Duration::from_secs(5),
        };
        let options = HttpOptions {
            version: match http2 {
                true => HttpVersion::Http2,
                false => HttpVersion::Negotiated,
            },
            ..HttpOptions::default()
        };
        let mock = self.clone();
        let connector = tower::service_fn(move |_| {
            let pipe = mock.connect();
            std::future::ready(pipe)
        });
        Client::new(
            HttpClient::over(connector, options),
            target,
            patience,
            clock,
        )
    }

    fn connect(&self) -> io::Result<Pipe<DuplexStream>> {
        if self.manner.lock().fault == Fault::Away {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = tokio::io::duplex(1 << 20);
        self.tasks.spawn(self.clone().serve(far));
        Ok(Pipe::new(near))
    }

    /// Answers on one connection.
    pub(crate) async fn serve(self, connection: impl AsyncRead + AsyncWrite + Unpin + 'static) {
        let service = hyper::service::service_fn(move |request| self.clone().answer(request));
        let builder = auto::Builder::new(TokioExecutor::new());
        let served = builder.serve_connection(TokioIo::new(connection), service);
        // A client that hangs up is an error of the connection, not of the test.
        let _ = served.await;
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let header = |name: &str| {
            let value = request.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let (session, key) = (header("x-session-id"), header("authorization"));
        let version = request.version();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let number = {
            let mut seen = self.seen.lock();
            seen.push(Seen {
                session: session.unwrap_or_default(),
                key,
                version,
                body: serde_json::from_slice(&body).unwrap_or_default(),
            });
            seen.len()
        };
        let manner = *self.manner.lock();
        if let Fault::Refuse { status, every } = manner.fault
            && number.is_multiple_of(every)
        {
            let refusal = json!({ "error": { "message": "No, thank you." } });
            let mut response = Response::new(events(Vec::new(), refusal.to_string()));
            *response.status_mut() = status.try_into().unwrap();
            return Ok(response);
        }
        let (sender, receiver) = mpsc::channel(1);
        self.tasks.spawn(write(manner, sender));
        let stream = stream::unfold(receiver, async |mut receiver| {
            let text: String = receiver.recv().await?;
            Some((Ok(Frame::data(text.into())), receiver))
        });
        Ok(Response::new(StreamBody::new(Box::pin(stream))))
    }
}

fn events(mut before: Vec<String>, last: String) -> Body {
    before.push(last);
    let frames = before.into_iter().map(|text| Ok(Frame::data(text.into())));
    StreamBody::new(Box::pin(stream::iter(frames)))
}

async fn write(manner: Manner, sender: mpsc::Sender<String>) {
    let send = async |event: Value| sender.send(format!("data: {event}\n\n")).await;
    let delta = |delta: Value| json!({ "choices": [{ "index": 0, "delta": delta }] });
    if manner.role_first {
        let role = json!({ "role": "assistant", "content": "" });
        let _ = send(delta(role)).await;
    }
    sleep(manner.ttft).await;
    let mut written = 0;
    let mut number = 0;
    while written < manner.tokens {
        match manner.fault {
            Fault::Stall(after) if number == after => sleep(Duration::from_secs(3600)).await,
            Fault::BreakOff(after) if number == after => return,
            Fault::Garbage => {
                let _ = sender.send("data: {\"choices\": oops\n\n".to_owned()).await;
            }
            Fault::None
            | Fault::Away
            | Fault::Refuse { .. }
            | Fault::Stall(_)
            | Fault::BreakOff(_)
            | Fault::NoUsage => {}
        }
        if number > 0 {
            sleep(manner.itl * manner.tokens_per_event).await;
        }
        written += manner.tokens_per_event;
        number += 1;
        let content = "A sentence of just six words. ".repeat(manner.tokens_per_event as usize);
        let mut event = delta(json!({ "content": content }));
        if manner.counts_along {
            event["usage"] = usage(written);
        }
        // The client hung up.
        if send(event).await.is_err() {
            return;
        }
    }
    if manner.fault != Fault::NoUsage {
        let last = json!({
            "choices": [],
            "usage": usage(written),
            "nvext": { "routing": routing() },
        });
        let _ = send(last).await;
    }
    let _ = sender.send("data: [DONE]\n\n".to_owned()).await;
}

fn routing() -> Value {
    json!({
        "mode": "kv",
        "reason": "it is the only one",
        "blocks": 6,
        "queued_ms": 0.0,
        "predicted_ttft_ms": 290.0,
        "candidates": [{ "worker": "0", "overlap_blocks": 2, "in_flight": 0, "cost": 290.0, "ttft_ms": 280.0 }],
    })
}

fn usage(written: u32) -> Value {
    json!({
        "prompt_tokens": 100,
        "completion_tokens": written,
        "total_tokens": 100 + written,
        "prompt_tokens_details": { "cached_tokens": 40 },
    })
}
