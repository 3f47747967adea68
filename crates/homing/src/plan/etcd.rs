//! How etcd is reached.

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, bail};
use etcd::{ClientCertificate, Etcd, Tls};

use crate::args::EtcdArgs;

/// Where etcd is, and what is shown and asked for there.
pub(crate) struct EtcdPlan {
    endpoints: Vec<String>,
    tls: Tls,
}

impl EtcdPlan {
    pub(crate) fn connect(&self) -> anyhow::Result<Etcd> {
        Etcd::connect(&self.endpoints, &self.tls).context("--etcd")
    }
}

impl fmt::Display for EtcdPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.endpoints.join(", "))
    }
}

impl EtcdArgs {
    /// Reads the files. Certificates without an address that uses them are refused: whoever
    /// gives them believes that the connection is encrypted.
    pub(super) fn read(&self) -> anyhow::Result<EtcdPlan> {
        let read = |path: &Path, option| {
            std::fs::read(path).with_context(|| format!("{option}: cannot read {}", path.display()))
        };
        let client = match (&self.etcd_cert, &self.etcd_key) {
            (Some(certificate), Some(key)) => Some(ClientCertificate {
                certificate: read(certificate, "--etcd-cert")?,
                key: read(key, "--etcd-key")?,
            }),
            // The command line takes both or neither.
            _ => None,
        };
        let ca = self.etcd_ca.as_ref().map(|path| read(path, "--etcd-ca"));
        let tls = Tls {
            ca: ca.transpose()?,
            client,
        };
        let clear = self.etcd.iter().find(|url| url.starts_with("http://"));
        if let Some(url) = clear.filter(|_| tls.ca.is_some() || tls.client.is_some()) {
            bail!("--etcd: {url} is not encrypted; certificates need https://");
        }
        Ok(EtcdPlan {
            endpoints: self.etcd.clone(),
            tls,
        })
    }
}
