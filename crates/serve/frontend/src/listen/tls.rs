//! HTTPS: the certificate that clients are shown, and who may connect.
//!
//! Both can be replaced while the server runs. A connection keeps what it began with, so a
//! replacement ends no answer.

use std::io;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The answer to a client that speaks HTTP where HTTPS is spoken.
const PLAIN_HTTP: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n\
    content-length: 45\r\nconnection: close\r\n\r\nThis port speaks HTTPS: ask with https://...\n";
/// How much of such a client's request is read.
const MOST_UNREAD: u64 = 64 << 10;

/// Contents of PEM files.
#[derive(Clone, Copy)]
pub struct TlsPem<'a> {
    /// The server's certificate, and those that lead from it to an authority.
    pub certificates: &'a [u8],
    pub key: &'a [u8],
    /// Authorities. If there are any, each client must have a certificate of one of them.
    pub client_authorities: Option<&'a [u8]>,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("the certificate is no PEM file: {0}")]
    Certificate(pem::Error),
    #[error("the certificate file has no certificate")]
    NoCertificate,
    #[error("the key is no PEM file with one private key: {0}")]
    Key(pem::Error),
    #[error("certificate and key cannot be used: {0}")]
    Pair(rustls::Error),
    #[error("the clients' authorities are no PEM file: {0}")]
    Authorities(pem::Error),
    #[error("the clients' authorities cannot be used: {0}")]
    Authority(String),
}

/// What a listener shows its clients. Clones share it.
#[derive(Clone)]
pub struct Tls {
    current: Arc<RwLock<Arc<ServerConfig>>>,
}

// Keys are not shown.
impl std::fmt::Debug for TlsPem<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsPem(..)")
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls(..)")
    }
}

impl Tls {
    pub fn new(pem: TlsPem<'_>) -> Result<Self, TlsError> {
        let current = Arc::new(RwLock::new(config(pem)?));
        Ok(Self { current })
    }

    /// For connections that begin from now on. What cannot be used changes nothing.
    pub fn replace(&self, pem: TlsPem<'_>) -> Result<(), TlsError> {
        *self.current.write() = config(pem)?;
        Ok(())
    }

    /// The handshake. A client that speaks HTTP is told so.
    pub(super) async fn accept<T>(&self, stream: T) -> io::Result<TlsStream<BufReader<T>>>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        // One byte, which TLS then reads: larger reads pass the buffer by once it is empty.
        let mut stream = BufReader::with_capacity(1, stream);
        let first = stream.fill_buf().await?.first().copied();
        if first.is_some_and(|byte| byte.is_ascii_uppercase()) {
            refuse_http(&mut stream).await?;
            return Err(io::Error::other("HTTP where HTTPS is spoken"));
        }
        let acceptor = TlsAcceptor::from(Arc::clone(&self.current.read()));
        acceptor.accept(stream).await
    }
}

/// Answers a request that begins with the name of a method.
async fn refuse_http<T>(stream: &mut BufReader<T>) -> io::Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_all(PLAIN_HTTP.as_bytes()).await?;
    stream.shutdown().await?;
    // A socket closed with unread bytes is reset, and the client forgets the answer.
    tokio::io::copy(&mut stream.take(MOST_UNREAD), &mut tokio::io::sink()).await?;
    Ok(())
}

fn config(pem: TlsPem<'_>) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificates: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(pem.certificates)
            .collect::<Result<_, _>>()
            .map_err(TlsError::Certificate)?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(pem.key).map_err(TlsError::Key)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider speaks the versions that are built in");
    let builder = match pem.client_authorities {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let roots = Arc::new(roots(authorities)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                .build()
                .map_err(|error| TlsError::Authority(error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(certificates, key)
        .map_err(TlsError::Pair)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn roots(authorities: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authorities) {
        let added = roots.add(certificate.map_err(TlsError::Authorities)?);
        added.map_err(|error| TlsError::Authority(error.to_string()))?;
    }
    Ok(roots)
}
