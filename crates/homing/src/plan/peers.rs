//! Other frontends of the same engines, resolved.

use remote::tls::Tls;

use crate::args::{PeerArgs, TlsArgs};
use crate::process::Endpoint;

/// How to find each other.
pub(crate) struct PeersPlan {
    pub(crate) names: Vec<String>,
    pub(crate) listen: Option<Endpoint>,
    pub(crate) tls: Option<Tls>,
}

impl PeerArgs {
    /// `None` if there are no others.
    pub(super) fn resolve(&self) -> anyhow::Result<Option<PeersPlan>> {
        if self.peers.is_empty() && self.peer_listen.is_none() {
            return Ok(None);
        }
        let certificates = TlsArgs {
            tls_ca: self.peer_tls_ca.clone(),
            tls_cert: self.peer_tls_cert.clone(),
            tls_key: self.peer_tls_key.clone(),
        };
        Ok(Some(PeersPlan {
            names: self.peers.clone(),
            listen: self.peer_listen.map(|address| Endpoint {
                address,
                option: "--peer-listen",
            }),
            tls: certificates.read()?,
        }))
    }
}
