//! What a proxy says of a request before its body.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, Method};

use crate::metrics::Endpoint;

/// The head of a request.
#[derive(Debug)]
pub struct Call {
    pub method: Method,
    /// With or without a query.
    pub path: String,
    pub headers: HeaderMap,
    /// The endpoints that may be picked, if not all of them.
    pub subset: Option<Vec<Offered>>,
}

/// Endpoints that a proxy offers: one, or all of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    pub host: IpAddr,
    pub port: Option<u16>,
}

impl Offered {
    /// Reads `HOST:PORT` or `HOST`.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Some(Self {
                host: address.ip(),
                port: Some(address.port()),
            });
        }
        let host = text.parse().ok()?;
        Some(Self { host, port: None })
    }

    fn is(&self, address: SocketAddr) -> bool {
        self.host == address.ip() && self.port.is_none_or(|port| port == address.port())
    }
}

impl Call {
    pub(super) fn endpoint(&self) -> Option<Endpoint> {
        let path = self.path.split('?').next().unwrap_or_default();
        Endpoint::of_path(path)
    }

    pub(super) fn offers(&self, address: SocketAddr) -> bool {
        match &self.subset {
            None => true,
            Some(subset) => subset.iter().any(|offered| offered.is(address)),
        }
    }
}
