//! Connections: pooled, over TCP or TLS, or over whatever a test connects.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// How connections are made.
#[derive(Clone, Copy, Debug)]
pub struct TransportOptions {
    /// HTTP/2 from the first byte, where no TLS could negotiate it.
    pub http2: bool,
    pub connect_timeout: Duration,
    /// Connections that nobody uses are closed after this.
    pub idle_timeout: Duration,
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self {
            http2: false,
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
pub struct Transport {
    send: Arc<Send>,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transport")
    }
}

impl Transport {
    /// Over the network. Certificates are checked against the system's roots, or against
    /// Mozilla's where the system has none.
    pub fn network(options: TransportOptions) -> Self {
        let builder = match HttpsConnectorBuilder::new().with_native_roots() {
            Ok(builder) => builder,
            Err(_) => HttpsConnectorBuilder::new().with_webpki_roots(),
        };
        let connector: HttpsConnector<HttpConnector> = builder
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp(options));
        Self::over(connector, options)
    }

    /// Over the network, trusting only the certificates in `authorities`, a PEM file.
    pub fn trusting(authorities: &[u8], options: TransportOptions) -> Result<Self, TrustError> {
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
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp(options));
        Ok(Self::over(connector, options))
    }

    /// Over connections that `connector` makes.
    pub fn over<C>(connector: C, options: TransportOptions) -> Self
    where
        C: Connect + Clone + std::marker::Send + Sync + 'static,
    {
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(options.idle_timeout)
            .pool_max_idle_per_host(usize::MAX)
            .http2_only(options.http2)
            .http2_adaptive_window(true)
            .build(connector);
        Self {
            send: Arc::new(move |request| client.request(request)),
        }
    }

    pub(crate) fn send(&self, request: Request<Full<Bytes>>) -> ResponseFuture {
        (self.send)(request)
    }
}

fn tcp(options: TransportOptions) -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(options.connect_timeout));
    tcp
}
