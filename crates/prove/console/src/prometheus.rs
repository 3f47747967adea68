//! Forwards queries of pages to a Prometheus.
//!
//! A page may only talk to its own origin, so the console asks for it. There are two read-only
//! paths, with the parameters that they have; each query and its answer are bounded, and so is
//! the number of concurrent queries. Errors of Prometheus are passed on unchanged.

mod series;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_client::HttpClient;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::time::timeout;

pub use self::series::{Series, SeriesError, parse_series};
use crate::error::Problem;

/// For one answer, the wait for a turn included.
const PATIENCE: Duration = Duration::from_secs(5);

/// Of an answer. A panel has some series of a few hundred points, each of some 30 bytes.
const MOST_BYTES: usize = 4 << 20;

/// Of a query, before it is encoded.
const LONGEST_QUERY: usize = 4 << 10;

/// Running queries, of all pages together.
const MOST_AT_ONCE: usize = 16;

/// A Prometheus to ask. Clones are one.
#[derive(Clone, Debug)]
pub struct Prometheus {
    url: String,
    transport: HttpClient,
    turns: Arc<Semaphore>,
}

/// `GET /api/prometheus/query`
#[derive(Debug, Deserialize)]
pub(crate) struct At {
    query: String,
    /// Seconds since the Unix epoch; now if it is left out.
    time: Option<f64>,
}

/// `GET /api/prometheus/query_range`
#[derive(Debug, Deserialize)]
pub(crate) struct Over {
    query: String,
    start: f64,
    end: f64,
    /// In seconds.
    step: f64,
}

/// The part of an answer that says how it went.
#[derive(Deserialize)]
struct Outcome {
    status: String,
    error: Option<String>,
}

impl Prometheus {
    /// At `url`, which is not asked yet.
    pub fn new(url: &str, transport: HttpClient) -> Result<Self, AddressError> {
        Ok(Self {
            url: base_address(url)?,
            transport,
            turns: Arc::new(Semaphore::new(MOST_AT_ONCE)),
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) async fn at(&self, at: &At) -> Result<Bytes, Problem> {
        let time = at.time.map(|time| ("time", time));
        let path = path("query", &at.query, time.as_slice())?;
        self.ask(&path).await
    }

    pub(crate) async fn over(&self, over: &Over) -> Result<Bytes, Problem> {
        let Over {
            start, end, step, ..
        } = *over;
        let numbers = [("start", start), ("end", end), ("step", step)];
        let path = path("query_range", &over.query, &numbers)?;
        self.ask(&path).await
    }

    async fn ask(&self, path: &str) -> Result<Bytes, Problem> {
        let address = format!("{}/api/v1/{path}", self.url);
        let asking = async {
            let _turn = self.turns.acquire().await;
            self.transport.get(&address, MOST_BYTES).await
        };
        let unwell = |status, message: String| {
            let message = format!("Prometheus at {}: {message}.", self.url);
            Problem::new(status, message).code("prometheus_unavailable")
        };
        let answer = timeout(PATIENCE, asking).await.map_err(|_| {
            let message = format!("no answer within {PATIENCE:?}");
            unwell(StatusCode::GATEWAY_TIMEOUT, message)
        })?;
        let (status, body) =
            answer.map_err(|error| unwell(StatusCode::BAD_GATEWAY, error.to_string()))?;
        match serde_json::from_slice::<Outcome>(&body) {
            Ok(outcome) if outcome.status == "success" && status.is_success() => Ok(body),
            Ok(Outcome {
                error: Some(error), ..
            }) => {
                // Not all that says `error` has the status of one.
                let status = match status.is_client_error() || status.is_server_error() {
                    true => status,
                    false => StatusCode::BAD_GATEWAY,
                };
                Err(Problem::new(status, error).code("prometheus_error"))
            }
            Ok(_) | Err(_) => {
                let message = format!("status {status}, and not an answer of Prometheus");
                Err(unwell(StatusCode::BAD_GATEWAY, message))
            }
        }
    }
}

/// Why a URL is not the address of a server.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    #[error("`{0}` is not a URL")]
    NotAUrl(String),
    #[error("`{0}` does not begin with http:// or https://")]
    NotHttp(String),
    #[error("`{0}` has a user or a query, which are not sent")]
    UserOrQuery(String),
}

/// The address of a server without its last slash.
pub(crate) fn base_address(url: &str) -> Result<String, AddressError> {
    let parsed = url.parse::<http::Uri>();
    let address = parsed.map_err(|_| AddressError::NotAUrl(url.to_owned()))?;
    let is_web = matches!(address.scheme_str(), Some("http" | "https"));
    let authority = address
        .authority()
        .map_or("", |authority| authority.as_str());
    if !is_web || authority.is_empty() {
        return Err(AddressError::NotHttp(url.to_owned()));
    }
    if authority.contains('@') || address.query().is_some() {
        return Err(AddressError::UserOrQuery(url.to_owned()));
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// A path with its query.
fn path(name: &str, query: &str, numbers: &[(&str, f64)]) -> Result<String, Problem> {
    if query.len() > LONGEST_QUERY {
        let message = format!("A query has at most {LONGEST_QUERY} bytes.");
        return Err(Problem::bad_request(message));
    }
    let mut path = format!("{name}?query=");
    for byte in query.bytes() {
        let written = match byte.is_ascii_alphanumeric() {
            true => write!(path, "{}", char::from(byte)),
            false => write!(path, "%{byte:02X}"),
        };
        written.expect("text takes all that is written");
    }
    for (name, number) in numbers {
        if !number.is_finite() {
            return Err(Problem::bad_request(format!("`{name}` is not a number.")));
        }
        write!(path, "&{name}={number}").expect("text takes all that is written");
    }
    Ok(path)
}
