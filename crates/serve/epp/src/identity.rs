//! The certificate that the server shows.

use std::path::{Path, PathBuf};

use tonic::transport::ServerTlsConfig;

/// A certificate and its key, from files or made for this run.
#[derive(Clone)]
pub struct Identity(tonic::transport::Identity);

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity(..)")
    }
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("cannot read {}", path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("no certificate could be made")]
    Made(#[from] rcgen::Error),
}

impl Identity {
    /// Of two files in PEM format.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, IdentityError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| IdentityError::File {
                path: path.to_owned(),
                source,
            })
        };
        let identity = tonic::transport::Identity::from_pem(read(certificate)?, read(key)?);
        Ok(Self(identity))
    }

    /// Signed by itself and different in every run: gateways encrypt the way to their picker and do not
    /// check who it is.
    pub fn self_signed() -> Result<Self, IdentityError> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let key = made.signing_key.serialize_pem();
        Ok(Self(tonic::transport::Identity::from_pem(
            made.cert.pem(),
            key,
        )))
    }

    pub(crate) fn server(&self) -> ServerTlsConfig {
        ServerTlsConfig::new().identity(self.0.clone())
    }
}
