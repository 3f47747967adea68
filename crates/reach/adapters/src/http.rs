//! One engine's HTTP server: pooled connections, small answers with a limit, and answers that
//! stream.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use contract::whole_story;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

/// A connection is there within this or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The engines' servers close connections that are idle for five seconds; a request that meets
/// a connection which is just being closed fails.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Nothing came back, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unanswered(pub(crate) String);

#[derive(Clone)]
pub(crate) struct Server {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: String,
    /// Marked as sensitive, so that nobody prints it.
    key: Option<HeaderValue>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.url)
    }
}

/// The header for a key; `None` if no header can carry it.
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

    /// Sends a request; the answer's body is still to come.
    pub(crate) async fn send(
        &self,
        (method, path): (Method, &str),
        body: Vec<u8>,
        request_id: Option<&str>,
    ) -> Result<Response<Incoming>, Unanswered> {
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
        let request = request.body(Full::from(body));
        let request = request.map_err(|error| Unanswered(error.to_string()))?;
        let answer = self.client.request(request).await;
        answer.map_err(|error| Unanswered(whole_story(&error)))
    }

    /// A small answer in one piece, within the time.
    pub(crate) async fn ask(
        &self,
        request: (Method, &str),
        patience: Duration,
        most_bytes: usize,
    ) -> Result<(StatusCode, Bytes), Unanswered> {
        let asking = async {
            let answer = self.send(request, Vec::new(), None).await?;
            let status = answer.status();
            Ok((status, read(answer, most_bytes).await?))
        };
        let late = |_| Unanswered("it does not answer in time".to_owned());
        tokio::time::timeout(patience, asking).await.map_err(late)?
    }
}

/// The rest of an answer.
pub(crate) async fn read(
    answer: Response<Incoming>,
    most_bytes: usize,
) -> Result<Bytes, Unanswered> {
    let body = Limited::new(answer.into_body(), most_bytes).collect().await;
    let body = body.map_err(|error| Unanswered(error.to_string()))?;
    Ok(body.to_bytes())
}
