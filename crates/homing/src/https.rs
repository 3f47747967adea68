//! HTTPS on the listeners of this process: the files of its certificate, followed.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use frontend::{Tls, TlsPem};
use tokio_util::sync::CancellationToken;

use crate::watched_files::WatchedFiles;

/// Files in PEM format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpsFiles {
    pub(crate) certificates: PathBuf,
    pub(crate) key: PathBuf,
    /// Who signs clients' certificates, if clients must have one.
    pub(crate) client_authorities: Option<PathBuf>,
}

/// What listeners need, and the files that may change it.
#[derive(Debug)]
pub(crate) struct Https {
    pub(crate) tls: Tls,
    files: WatchedFiles,
}

impl HttpsFiles {
    pub(crate) fn open(self) -> anyhow::Result<Https> {
        let mut paths = vec![self.certificates, self.key];
        paths.extend(self.client_authorities);
        let opened = WatchedFiles::open("certificates", paths, |contents| {
            Ok(Tls::new(pem(contents))?)
        });
        let (files, tls) = opened.context("--tls-cert")?;
        Ok(Https { tls, files })
    }
}

impl Https {
    /// Shows new connections what the files say, until `stop`.
    pub(crate) async fn follow(self, stop: CancellationToken) {
        let Self { tls, files } = self;
        let replace = |contents: &[Vec<u8>]| Ok(tls.replace(pem(contents))?);
        files.follow(stop, replace).await;
    }
}

fn pem(contents: &[Vec<u8>]) -> TlsPem<'_> {
    TlsPem {
        certificates: &contents[0],
        key: &contents[1],
        client_authorities: contents.get(2).map(Vec::as_slice),
    }
}

/// The address of a listener as a URL.
pub(crate) fn url(tls: Option<&Tls>, address: SocketAddr) -> String {
    let scheme = match tls {
        Some(_) => "https",
        None => "http",
    };
    format!("{scheme}://{address}")
}
