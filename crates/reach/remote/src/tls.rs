//! Certificates of both sides of the request plane.
//!
//! Either everything is given and both sides prove who they are, or nothing is and the plane
//! is in the clear, for loopback and for networks that encrypt by themselves.

use std::path::{Path, PathBuf};

use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

/// Files in PEM format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Who signs the other side's certificate.
    pub ca: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What was in the files.
#[derive(Clone)]
pub struct Tls {
    ca: Certificate,
    identity: Identity,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls(..)")
    }
}

/// A file that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}")]
pub struct TlsError {
    path: String,
    source: std::io::Error,
}

impl Tls {
    pub fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| TlsError {
                path: path.display().to_string(),
                source,
            })
        };
        Ok(Self {
            ca: Certificate::from_pem(read(&files.ca)?),
            identity: Identity::from_pem(read(&files.certificate)?, read(&files.key)?),
        })
    }

    pub(crate) fn client(&self) -> ClientTlsConfig {
        ClientTlsConfig::new()
            .ca_certificate(self.ca.clone())
            .identity(self.identity.clone())
    }

    /// For a server that was found under this name and is reached at another address.
    pub(crate) fn client_of(&self, name: &str) -> ClientTlsConfig {
        self.client().domain_name(name)
    }

    /// A client without a certificate is turned away.
    pub(crate) fn server(&self) -> ServerTlsConfig {
        ServerTlsConfig::new()
            .identity(self.identity.clone())
            .client_ca_root(self.ca.clone())
    }
}
