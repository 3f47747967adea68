//! HTTP requests to the hub: one after another, with redirects and retries.
//!
//! The token goes to the hub alone. Large files live elsewhere, and a server there has no
//! business with it.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, LOCATION, RANGE, USER_AGENT};
use http::uri::Scheme;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::Full;
use http_client::{HttpClient, HttpOptions, HttpVersion, bearer, read, reason};
use hyper::body::Incoming;
use tasks::Backoff;

use super::listing::sha256_in;
use crate::error::PullError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a server may say nothing.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Tries that bring nothing before the pull gives up.
pub(super) const TRIES: u32 = 4;
const MOST_REDIRECTS: usize = 8;
const LONGEST_ANSWER: usize = 32 << 20;
const LONGEST_COMPLAINT: usize = 4 << 10;

#[derive(Debug)]
pub(super) struct Client {
    http: HttpClient,
    endpoint: Uri,
    token: Option<HeaderValue>,
    backoff: Backoff,
}

/// An answer, and what was said of the file on the way to it.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) response: Response<Incoming>,
    pub(super) bytes: Option<u64>,
    pub(super) sha256: Option<String>,
}

/// Why a request brought nothing.
enum Failure {
    /// The same may work in a while.
    Passing(String),
    Lasting(String),
}

impl Client {
    pub(super) fn new(
        endpoint: &str,
        token: Option<&str>,
        pause: Duration,
    ) -> Result<Self, PullError> {
        let refused = |detail: &str| PullError::Http {
            url: endpoint.to_owned(),
            detail: detail.to_owned(),
        };
        let address: Uri = endpoint
            .parse()
            .map_err(|error| refused(&format!("is not an address: {error}")))?;
        if !matches!(address.scheme_str(), Some("http" | "https")) || address.host().is_none() {
            return Err(refused(
                "is not an address that begins with http:// or https://",
            ));
        }
        let token = token.map(|token| {
            bearer(token).ok_or_else(|| refused("the token has characters that cannot be sent"))
        });
        Ok(Self {
            http: HttpClient::network(HttpOptions {
                version: HttpVersion::Http1,
                connect_timeout: CONNECT_TIMEOUT,
                ..HttpOptions::default()
            }),
            endpoint: address,
            token: token.transpose()?,
            backoff: Backoff::new(pause, pause.saturating_mul(32)),
        })
    }

    /// The address of a path below the endpoint.
    pub(super) fn url(&self, path: &str) -> String {
        let endpoint = self.endpoint.to_string();
        format!("{}{path}", endpoint.trim_end_matches('/'))
    }

    /// A small answer in one piece.
    pub(super) async fn read(&self, path: &str) -> Result<Bytes, PullError> {
        let answer = self.get(path, 0).await?;
        let body = read(answer.response, LONGEST_ANSWER);
        let detail = match tokio::time::timeout(PATIENCE, body).await {
            Ok(Ok(body)) => return Ok(body),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "does not end in time".to_owned(),
        };
        let url = self.url(path);
        Err(PullError::Http { url, detail })
    }

    /// An answer whose body is still to come, from byte `start` on if the server can do that.
    pub(super) async fn get(&self, path: &str, start: u64) -> Result<Answer, PullError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let detail = match self.follow(path, start).await {
                Ok(answer) => return Ok(answer),
                Err(Failure::Passing(_)) if tries < TRIES => {
                    self.back_off(tries).await;
                    continue;
                }
                Err(Failure::Passing(detail) | Failure::Lasting(detail)) => detail,
            };
            let url = self.url(path);
            return Err(PullError::Http { url, detail });
        }
    }

    /// Longer every time.
    pub(super) async fn back_off(&self, tries: u32) {
        tokio::time::sleep(self.backoff.after(tries)).await;
    }

    async fn follow(&self, path: &str, start: u64) -> Result<Answer, Failure> {
        let mut url = self.url(path);
        let (mut bytes, mut sha256) = (None, None);
        for _ in 0..=MOST_REDIRECTS {
            let uri: Uri = url
                .parse()
                .map_err(|error| Failure::Lasting(format!("leads to {url:?}: {error}")))?;
            let sending = self.http.send(self.request(&uri, start)?);
            let response = match tokio::time::timeout(PATIENCE, sending).await {
                Ok(Ok(response)) => response,
                Ok(Err(error)) => return Err(Failure::Passing(reason(&error))),
                Err(_) => return Err(Failure::Passing("does not answer in time".to_owned())),
            };
            let headers = response.headers();
            let header = |name: &str| headers.get(name)?.to_str().ok();
            bytes = bytes.or(header("x-linked-size").and_then(|size| size.parse().ok()));
            sha256 = sha256.or(header("x-linked-etag").and_then(sha256_in));
            let status = response.status();
            if status.is_redirection() {
                url = redirect(&uri, headers)?;
                continue;
            }
            // That the range is beyond the end is for the caller to judge.
            if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE {
                return Ok(Answer {
                    response,
                    bytes,
                    sha256,
                });
            }
            return Err(self.complaint(status, response).await);
        }
        Err(Failure::Lasting(
            "leads from one address to the next without end".to_owned(),
        ))
    }

    fn request(&self, uri: &Uri, start: u64) -> Result<Request<Full<Bytes>>, Failure> {
        let mut request =
            Request::get(uri).header(USER_AGENT, concat!("homing/", env!("CARGO_PKG_VERSION")));
        if start > 0 {
            request = request.header(RANGE, format!("bytes={start}-"));
        }
        let home =
            uri.scheme() == self.endpoint.scheme() && uri.authority() == self.endpoint.authority();
        if let Some(token) = self.token.as_ref().filter(|_| home) {
            request = request.header(AUTHORIZATION, token.clone());
        }
        let request = request.body(Full::default());
        request.map_err(|error| Failure::Lasting(error.to_string()))
    }

    async fn complaint(&self, status: StatusCode, response: Response<Incoming>) -> Failure {
        let advice = match (status, &self.token) {
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, None) => {
                "there is no such repository, or it needs a token: set HF_TOKEN"
            }
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Some(_)) => {
                "the token in HF_TOKEN may not read it; a gated model has to be asked for first"
            }
            (StatusCode::NOT_FOUND, _) => "there is no such repository, revision or file",
            _ => "",
        };
        // The hub repeats its reason in a header; a mirror may have it in the body only.
        let reason = response.headers().get("x-error-message");
        let reason = match reason.and_then(|reason| reason.to_str().ok()) {
            Some(reason) => reason.to_owned(),
            None => {
                let body = tokio::time::timeout(PATIENCE, read(response, LONGEST_COMPLAINT)).await;
                let body = body.ok().and_then(Result::ok);
                let text =
                    String::from_utf8_lossy(body.as_deref().unwrap_or_default()).into_owned();
                text.trim().to_owned()
            }
        };
        let parts = [status.to_string(), advice.to_owned(), reason];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let detail = parts.join(": ");
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            Failure::Passing(detail)
        } else {
            Failure::Lasting(detail)
        }
    }
}

/// Where an answer sends us.
fn redirect(from: &Uri, headers: &HeaderMap) -> Result<String, Failure> {
    let target = headers
        .get(LOCATION)
        .and_then(|target| target.to_str().ok());
    let target = target.ok_or_else(|| Failure::Lasting("leads nowhere".to_owned()))?;
    let scheme = from.scheme_str().unwrap_or("https");
    let authority = from.authority().map_or("", |authority| authority.as_str());
    let url = if target.contains("://") {
        target.to_owned()
    } else if target.starts_with("//") {
        format!("{scheme}:{target}")
    } else if target.starts_with('/') {
        format!("{scheme}://{authority}{target}")
    } else {
        let folder = from
            .path()
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{folder}/{target}")
    };
    // What was asked for under protection is not fetched without.
    if from.scheme() == Some(&Scheme::HTTPS) && !url.starts_with("https://") {
        return Err(Failure::Lasting(format!(
            "leads to {url}, which is not protected"
        )));
    }
    Ok(url)
}
