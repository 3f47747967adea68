//! Who etcd is trusted to be, and who the client says it is.

use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// What connections to `https://` addresses use. The default trusts the system's certificates
/// and shows none.
#[derive(Clone, Default)]
pub struct Tls {
    /// Who signs etcd's certificate, in PEM; instead of the system's authorities.
    pub ca: Option<Vec<u8>>,
    /// The certificate that etcd asks clients for (`--client-cert-auth`).
    pub client: Option<ClientCertificate>,
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct ClientCertificate {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls(..)")
    }
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientCertificate(..)")
    }
}

impl Tls {
    pub(crate) fn config(&self) -> ClientTlsConfig {
        let mut config = ClientTlsConfig::new();
        config = match &self.ca {
            Some(ca) => config.ca_certificate(Certificate::from_pem(ca)),
            None => config.with_native_roots(),
        };
        if let Some(ClientCertificate { certificate, key }) = &self.client {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        config
    }
}
