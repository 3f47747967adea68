//! Client of one engine's HTTP server: pooled connections, small responses with a size limit,
//! and responses that stream.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use contract::TraceContext;
use contract::trace::{TRACEPARENT, TRACESTATE};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use http_client::{BodyError, HttpClient, HttpOptions, HttpVersion, SendError, read};
use hyper::body::Incoming;

/// A connection attempt that takes longer has failed.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The engines' servers close a connection after five idle seconds, and a request on a
/// connection that is being closed fails. So ours are closed before.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Why there was no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("the request cannot be written")]
    Request(#[from] http::Error),
    #[error("the request failed")]
    Send(#[from] SendError),
    #[error("no response within {0:?}")]
    Timeout(Duration),
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error("the engine is gone")]
    Gone,
    #[error("{0} cannot be told to clear its cache")]
    NoReset(&'static str),
    #[error("the server has no {path}{hint}")]
    ResetMissing {
        path: &'static str,
        hint: &'static str,
    },
}

#[derive(Clone)]
pub(crate) struct Server {
    client: HttpClient,
    url: String,
    /// Marked as sensitive, so that it is never printed.
    key: Option<HeaderValue>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.url)
    }
}

impl Server {
    pub(crate) fn new(url: &str, key: Option<HeaderValue>) -> Self {
        let client = HttpClient::network(HttpOptions {
            version: HttpVersion::Http1,
            connect_timeout: CONNECT_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
        });
        Self {
            client,
            url: url.to_owned(),
            key,
        }
    }

    /// Sends a request. The response's body is still to be read.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        sender: Sender<'_>,
    ) -> Result<Response<Incoming>, HttpError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url));
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.clone());
        }
        for (name, value) in sender.headers() {
            request = request.header(name, value);
        }
        let request = request.body(Full::from(body))?;
        Ok(self.client.send(request).await?)
    }

    /// Sends a request without a body and reads the whole response.
    pub(crate) async fn fetch(
        &self,
        method: Method,
        path: &str,
        limits: Limits,
    ) -> Result<(StatusCode, Bytes), HttpError> {
        self.ask(method, path, Vec::new(), limits).await
    }

    /// The same with a body in JSON.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        limits: Limits,
    ) -> Result<(StatusCode, Bytes), HttpError> {
        let fetching = async {
            let response = self.send(method, path, body, Sender::default()).await?;
            let status = response.status();
            Ok((status, read(response, limits.bytes).await?))
        };
        let fetched = tokio::time::timeout(limits.time, fetching).await;
        fetched.map_err(|_| HttpError::Timeout(limits.time))?
    }
}

/// On whose behalf an engine is asked, in words for its log and for its traces.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sender<'a> {
    pub(crate) request_id: Option<&'a str>,
    pub(crate) trace: Option<&'a TraceContext>,
}

impl Sender<'_> {
    fn headers(&self) -> impl Iterator<Item = (&'static str, HeaderValue)> {
        let header = |text: &str| HeaderValue::from_str(text).ok();
        let state = self.trace.and_then(TraceContext::state);
        let headers = [
            ("x-request-id", self.request_id.and_then(header)),
            (
                TRACEPARENT,
                self.trace.and_then(|trace| header(&trace.parent())),
            ),
            (TRACESTATE, state.and_then(header)),
        ];
        let present = |(name, value): (_, Option<HeaderValue>)| Some((name, value?));
        headers.into_iter().filter_map(present)
    }
}

/// How much time and how many bytes a response may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) time: Duration,
    pub(crate) bytes: usize,
}
