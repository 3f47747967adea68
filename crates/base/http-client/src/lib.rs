//! Our one HTTP client: pooled connections over TCP or TLS, or over whatever a test connects.
//!
//! Certificates are checked against the system's roots, or against Mozilla's where the system
//! has none. What is sent is small and in one piece; what comes back streams, and
//! [`read`] collects what must not be large.

mod get;
mod pipe;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

pub use get::GetError;
pub use hyper_util::client::legacy::{Error as SendError, ResponseFuture};
pub use pipe::Pipe;

/// How connections are made.
#[derive(Clone, Copy, Debug)]
pub struct HttpOptions {
    pub version: HttpVersion,
    pub connect_timeout: Duration,
    /// Connections that nobody uses are closed after this.
    pub idle_timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    Http1,
    /// HTTP/2 where TLS negotiates it, otherwise HTTP/1.1.
    Negotiated,
    /// HTTP/2 from the first byte, with or without TLS.
    Http2,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            version: HttpVersion::Negotiated,
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(90),
        }
    }
}

/// Why authorities cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    #[error("not a PEM file of certificates: {0}")]
    Pem(String),
    #[error("not a CA certificate: {0}")]
    Certificate(String),
}

type Send = dyn Fn(Request<Full<Bytes>>) -> ResponseFuture + std::marker::Send + Sync;

/// A pool of connections. Cheap to clone; clones share the pool.
#[derive(Clone)]
pub struct HttpClient {
    send: Arc<Send>,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpClient")
    }
}

impl HttpClient {
    /// Over the network.
    pub fn network(options: HttpOptions) -> Self {
        let builder = match HttpsConnectorBuilder::new().with_native_roots() {
            Ok(builder) => builder,
            Err(_) => HttpsConnectorBuilder::new().with_webpki_roots(),
        };
        Self::over(connector(builder, options), options)
    }

    /// Over the network, trusting only the certificates in `authorities`, a PEM file.
    pub fn trusting(authorities: &[u8], options: HttpOptions) -> Result<Self, TrustError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authorities) {
            let certificate = certificate.map_err(|error| TrustError::Pem(error.to_string()))?;
            let added = roots.add(certificate);
            added.map_err(|error| TrustError::Certificate(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(TrustError::Pem("it has no certificate".to_owned()));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider speaks the versions that are built in")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let builder = HttpsConnectorBuilder::new().with_tls_config(config);
        Ok(Self::over(connector(builder, options), options))
    }

    /// Over connections that `connector` makes.
    pub fn over<C>(connector: C, options: HttpOptions) -> Self
    where
        C: Connect + Clone + std::marker::Send + Sync + 'static,
    {
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(options.idle_timeout)
            .pool_max_idle_per_host(usize::MAX)
            .http2_only(options.version == HttpVersion::Http2)
            .http2_adaptive_window(true)
            .build(connector);
        Self {
            send: Arc::new(move |request| client.request(request)),
        }
    }

    /// Sends a request. The response's body is still to be read.
    pub fn send(&self, request: Request<Full<Bytes>>) -> ResponseFuture {
        (self.send)(request)
    }
}

fn connector(
    builder: HttpsConnectorBuilder<hyper_rustls::builderstates::WantsSchemes>,
    options: HttpOptions,
) -> HttpsConnector<HttpConnector> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(options.connect_timeout));
    let builder = builder.https_or_http();
    match options.version {
        HttpVersion::Http1 => builder.enable_http1().wrap_connector(tcp),
        HttpVersion::Negotiated | HttpVersion::Http2 => {
            builder.enable_all_versions().wrap_connector(tcp)
        }
    }
}

/// Why the body of a response could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the response was interrupted or is too long: {0}")]
pub struct BodyError(Box<dyn Error + std::marker::Send + Sync>);

/// Reads the rest of a response, at most `most_bytes`.
pub async fn read(response: Response<Incoming>, most_bytes: usize) -> Result<Bytes, BodyError> {
    let body = Limited::new(response.into_body(), most_bytes);
    Ok(body.collect().await.map_err(BodyError)?.to_bytes())
}

/// The `Authorization` header for a key, marked as sensitive so that it is never printed;
/// `None` if the key has characters that no header allows.
pub fn bearer(key: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {key}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Why a request failed. The error's own words are only "client error"; the reasons are below.
pub fn reason(error: &SendError) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut source = error.source();
    while let Some(error) = source {
        let text = error.to_string();
        // Some repeat what is below them.
        texts.retain(|above| !above.contains(&text));
        texts.push(text);
        source = error.source();
    }
    match texts.is_empty() {
        true => error.to_string(),
        false => texts.join(": "),
    }
}
