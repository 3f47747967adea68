//! Client of one engine's HTTP server: pooled connections, small responses with a size limit,
//! and responses that stream.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

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
    Send(#[from] hyper_util::client::legacy::Error),
    #[error("no response within {0:?}")]
    Timeout(Duration),
    #[error("the response cannot be read")]
    Body(#[source] Box<dyn Error + Send + Sync>),
    #[error("the engine is gone")]
    Gone,
    #[error("{0} cannot be told to clear its cache")]
    NoReset(&'static str),
}

#[derive(Clone)]
pub(crate) struct Server {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: String,
    /// Marked as sensitive, so that it is never printed.
    key: Option<HeaderValue>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.url)
    }
}

/// The `Authorization` header for a key; `None` if the key has characters that no header allows.
pub(crate) fn bearer(key: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {key}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

impl Server {
    pub(crate) fn new(url: &str, key: Option<HeaderValue>) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let builder = match HttpsConnectorBuilder::new().with_native_roots() {
            Ok(builder) => builder,
            Err(_) => HttpsConnectorBuilder::new().with_webpki_roots(),
        };
        let connector = builder.https_or_http().enable_http1().wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(usize::MAX)
            .build(connector);
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
        request_id: Option<&str>,
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
        if let Some(id) = request_id.and_then(|id| HeaderValue::from_str(id).ok()) {
            request = request.header("x-request-id", id);
        }
        let request = request.body(Full::from(body))?;
        Ok(self.client.request(request).await?)
    }

    /// Sends a request without a body and reads the whole response.
    pub(crate) async fn fetch(
        &self,
        method: Method,
        path: &str,
        limits: Limits,
    ) -> Result<(StatusCode, Bytes), HttpError> {
        let fetching = async {
            let response = self.send(method, path, Vec::new(), None).await?;
            let status = response.status();
            Ok((status, read(response, limits.bytes).await?))
        };
        let fetched = tokio::time::timeout(limits.time, fetching).await;
        fetched.map_err(|_| HttpError::Timeout(limits.time))?
    }
}

/// How much time and how many bytes a response may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) time: Duration,
    pub(crate) bytes: usize,
}

/// Reads the rest of a response, at most `most_bytes`.
pub(crate) async fn read(
    response: Response<Incoming>,
    most_bytes: usize,
) -> Result<Bytes, HttpError> {
    let body = Limited::new(response.into_body(), most_bytes);
    Ok(body.collect().await.map_err(HttpError::Body)?.to_bytes())
}
