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
//! - **Bounded.** Answers have at most [`MOST_BYTES`], and each call ends after [`PATIENCE`].

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
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
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

/// Why nothing is known.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error("no answer within {PATIENCE:?}")]
    Timeout,
    #[error(transparent)]
    Get(#[from] GetError),
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
                let state = self.call(Request::get(self.address("/api/state")), Bytes::new());
                let state = match state.await {
                    Ok((StatusCode::OK, body)) => read_state(&body),
                    Ok((status, body)) => Err(match self.refusal(status, &body) {
                        Some(message) => message,
                        None => format!("status {status}, which is no load generator's"),
                    }),
                    Err(error) => Err(error.to_string()),
                };
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
        let (status, body) = self
            .call(request, Bytes::new())
            .await
            .map_err(|error| self.unreachable(StatusCode::BAD_GATEWAY, &error.to_string()))?;
        let json = [(CONTENT_TYPE, "application/json")];
        Ok((status, json, body).into_response())
    }

    async fn order(
        &self,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<Snapshot, Problem> {
        let failed = |message: &str| self.unreachable(StatusCode::BAD_GATEWAY, message);
        let (status, body) = self
            .call(request, body)
            .await
            .map_err(|error| failed(&error.to_string()))?;
        match status {
            StatusCode::OK => {
                let snapshot: Snapshot = parse(&body).map_err(|message| failed(&message))?;
                self.keep(Ok(snapshot.clone()));
                Ok(snapshot)
            }
            // It is this server's token that is wrong, not the page's.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(failed(
                "it refuses the control token that this server shows it (--load-token-env)",
            )),
            status => {
                let OtherMessage { message, param } = match parse::<OtherError>(&body) {
                    Ok(answer) => answer.error,
                    Err(_) => return Err(failed(&format!("status {status}"))),
                };
                Err(Problem::new(status, message).field(param))
            }
        }
    }

    async fn call(
        &self,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), CallError> {
        let request = request.header(PASSED_ON, "1");
        let request = match &self.inner.token {
            Some(token) => request.header(AUTHORIZATION, token),
            None => request,
        };
        let exchange = self.inner.transport.exchange(request, body, MOST_BYTES);
        let answer = timeout(PATIENCE, exchange).await;
        Ok(answer.map_err(|_| CallError::Timeout)??)
    }

    pub(super) fn keep(&self, state: Result<Snapshot, String>) {
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

    fn unreachable(&self, status: StatusCode, problem: &str) -> Problem {
        let message = format!("The load generator at {}: {problem}.", self.inner.url);
        Problem::new(status, message).code("load_generator_unavailable")
    }

    /// Its own words, if it has some.
    fn refusal(&self, status: StatusCode, body: &[u8]) -> Option<String> {
        let answer = parse::<OtherError>(body).ok()?;
        Some(format!("status {status}: {}", answer.error.message))
    }
}

fn read_state(body: &[u8]) -> Result<Snapshot, String> {
    let state: OtherState = parse(body)?;
    state
        .load
        .ok_or_else(|| "its console has no load generator".to_owned())
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body)
        .map_err(|error| format!("not an answer of a load generator of this version: {error}"))
}
