//! A load generator in another process, known through the API of its own console.
//!
//! Its state is asked for every second and kept; what pages do is passed on, with the token that
//! it wants. So one console drives a load generator that runs on another machine, where it takes
//! no processor time from what it measures.
//!
//! # Guarantees
//!
//! - **What is shown is fresh or gone.** A state that is older than [`STALE`] is not shown: the page
//!   says why instead.
//! - **Bounded.** Answers have at most [`MOST_BYTES`], each call ends after [`PATIENCE`], and of those
//!   that anybody may cause at most [`MOST_AT_ONCE`] run. Orders take no turn: who reads cannot keep
//!   another from stopping load.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use contract::{Clock, Moment};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Request, StatusCode};
use http_client::{GetError, HttpClient};
use loadgen::snapshot::Snapshot;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::error::Problem;
use crate::prometheus::{AddressError, base_address};
use crate::state::LoadPlace;

const PACE: Duration = Duration::from_secs(1);

/// For one call.
const PATIENCE: Duration = Duration::from_secs(5);

/// A state that is older says nothing about now.
const STALE: Duration = Duration::from_secs(5);

/// The longest answer: a list of conversations, or one with its texts.
const MOST_BYTES: usize = 32 << 20;

/// Running calls, of all pages together.
const MOST_AT_ONCE: usize = 8;

/// Marks what another console passes on: consoles that name each other would ask in circles.
pub(crate) const PASSED_ON: HeaderName = HeaderName::from_static("x-homing-passed-on");

/// A load generator elsewhere. Clones are one.
#[derive(Clone, Debug)]
pub struct LoadElsewhere {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    url: String,
    /// As a header. What is not marked as sensitive would be printed.
    token: Option<HeaderValue>,
    transport: HttpClient,
    clock: Clock,
    kept: Mutex<Kept>,
    turns: Semaphore,
}

#[derive(Debug, Default)]
struct Kept {
    snapshot: Option<(Moment, Snapshot)>,
    error: Option<String>,
}

/// What is read of the other console's state.
#[derive(Deserialize)]
struct OtherState {
    load: Option<Snapshot>,
}

/// What is read of its errors.
#[derive(Deserialize)]
struct OtherError {
    error: OtherMessage,
}

#[derive(Deserialize)]
struct OtherMessage {
    message: String,
    param: Option<String>,
}

/// Why it cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    #[error("no answer within {PATIENCE:?}")]
    Timeout,
    #[error(transparent)]
    Get(#[from] GetError),
    #[error("status {0}, which is no load generator's")]
    Status(StatusCode),
    #[error("status {status}: {message}")]
    Refused { status: StatusCode, message: String },
    #[error("not an answer of a load generator of this version: {0}")]
    Answer(#[from] serde_json::Error),
    #[error("its console has no load generator")]
    NoLoad,
    /// It is this server's token that is wrong, not the page's.
    #[error("it refuses the control token that this server shows it (--load-token-env)")]
    Token,
}

impl LoadElsewhere {
    /// At the address of its console. Nothing is known until it has been [polled](Self::poll).
    pub fn new(
        url: &str,
        token: Option<&str>,
        transport: HttpClient,
    ) -> Result<Self, AddressError> {
        Ok(Self {
            inner: Arc::new(Inner {
                url: base_address(url)?,
                token: token.and_then(http_client::bearer),
                transport,
                clock: Clock::start(),
                kept: Mutex::default(),
                turns: Semaphore::new(MOST_AT_ONCE),
            }),
        })
    }

    /// Asks at once, then every second, until `closing` fires.
    pub async fn poll(self, closing: CancellationToken) {
        let mut ticks = interval(PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let polling = async {
            loop {
                ticks.tick().await;
                let state = self.state().await;
                self.keep(state);
            }
        };
        closing.run_until_cancelled(polling).await;
    }

    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        let now = self.inner.clock.now();
        let kept = self.inner.kept.lock();
        let (at, snapshot) = kept.snapshot.as_ref()?;
        (now.since(*at) <= STALE).then(|| snapshot.clone())
    }

    pub(super) fn place(&self) -> LoadPlace {
        LoadPlace::Elsewhere {
            url: self.inner.url.clone(),
            error: self.inner.kept.lock().error.clone(),
        }
    }

    pub(super) async fn drive(&self, action: &str) -> Result<Snapshot, Problem> {
        // What is not one of the few words has no business in an address.
        if !action.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return Err(Problem::unknown_action(action));
        }
        let request = Request::post(self.address(&format!("/api/load/{action}")));
        self.order(request, Bytes::new()).await
    }

    pub(super) async fn change(&self, change: &Map<String, Value>) -> Result<Snapshot, Problem> {
        let body = serde_json::to_vec(change).unwrap_or_default();
        let request = Request::patch(self.address("/api/load/settings"));
        self.order(request, body.into()).await
    }

    /// What it says about a path of its API, as it came.
    pub(crate) async fn forward(&self, path: &str) -> Result<Response, Problem> {
        let request = Request::get(self.address(path));
        let turn = timeout(PATIENCE, self.inner.turns.acquire()).await;
        let _turn = turn.map_err(|_| self.unreachable(&LoadError::Timeout))?;
        let answer = self.call(request, Bytes::new()).await;
        let (status, body) = answer.map_err(|error| self.unreachable(&error))?;
        let json = [(CONTENT_TYPE, "application/json")];
        Ok((status, json, body).into_response())
    }

    async fn state(&self) -> Result<Snapshot, LoadError> {
        let request = Request::get(self.address("/api/state"));
        match self.call(request, Bytes::new()).await? {
            (StatusCode::OK, body) => {
                let state: OtherState = serde_json::from_slice(&body)?;
                state.load.ok_or(LoadError::NoLoad)
            }
            (status, body) => Err(match parse_refusal(&body) {
                Some(OtherMessage { message, .. }) => LoadError::Refused { status, message },
                None => LoadError::Status(status),
            }),
        }
    }

    async fn order(
        &self,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<Snapshot, Problem> {
        let failed = |error: LoadError| self.unreachable(&error);
        let (status, body) = self.call(request, body).await.map_err(&failed)?;
        match status {
            StatusCode::OK => {
                let snapshot = serde_json::from_slice::<Snapshot>(&body);
                let snapshot = snapshot.map_err(|error| failed(error.into()))?;
                self.keep(Ok(snapshot.clone()));
                Ok(snapshot)
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(failed(LoadError::Token)),
            status => Err(match parse_refusal(&body) {
                Some(OtherMessage { message, param }) => Problem::new(status, message).field(param),
                None => failed(LoadError::Status(status)),
            }),
        }
    }

    async fn call(
        &self,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), LoadError> {
        let request = request.header(PASSED_ON, "1");
        let request = match &self.inner.token {
            Some(token) => request.header(AUTHORIZATION, token),
            None => request,
        };
        let exchange = self.inner.transport.exchange(request, body, MOST_BYTES);
        let answer = timeout(PATIENCE, exchange).await;
        Ok(answer.map_err(|_| LoadError::Timeout)??)
    }

    pub(super) fn keep(&self, state: Result<Snapshot, LoadError>) {
        let url = &self.inner.url;
        let now = self.inner.clock.now();
        let mut kept = self.inner.kept.lock();
        match state {
            Ok(snapshot) => {
                if kept.error.take().is_some() {
                    info!(url, "the load generator is reachable again");
                }
                kept.snapshot = Some((now, snapshot));
            }
            Err(error) => {
                let error = error.to_string();
                // Said once for each change, not every second.
                if kept.error.as_ref() != Some(&error) {
                    warn!(url, %error, "the load generator is unreachable");
                }
                kept.error = Some(error);
            }
        }
    }

    fn address(&self, path: &str) -> String {
        format!("{}{path}", self.inner.url)
    }

    fn unreachable(&self, error: &LoadError) -> Problem {
        let message = format!("The load generator at {}: {error}.", self.inner.url);
        Problem::new(StatusCode::BAD_GATEWAY, message).code("load_generator_unavailable")
    }
}

fn parse_refusal(body: &[u8]) -> Option<OtherMessage> {
    let answer: OtherError = serde_json::from_slice(body).ok()?;
    Some(answer.error)
}
