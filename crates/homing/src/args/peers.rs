//! Options of frontends and pickers that use the same engines as others.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// How this frontend finds the others.
#[derive(Clone, Debug, Args)]
pub(crate) struct PeerArgs {
    /// Other frontends that use the same engines: HOST:PORT of their --peer-listen, separated by commas
    ///
    /// They tell each other what they have on each engine and divide its slots, so that together they
    /// send it no more requests than it has slots for. A name that stands for several addresses, such
    /// as that of a headless Service, means all of them; this frontend's own is left out. Not needed
    /// for `homing worker`, which divides its slots itself. docs/cluster.md
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "HOST:PORT",
        value_parser = peer,
        help_heading = "Other frontends"
    )]
    pub(crate) peers: Vec<String>,
    /// Address on which the others reach this one (gRPC); port 0 picks a free one
    #[arg(long, value_name = "HOST:PORT", help_heading = "Other frontends")]
    pub(crate) peer_listen: Option<SocketAddr>,
    /// Who signs the certificates of all of them (PEM); with it, every side must have one
    #[arg(long, value_name = "FILE", requires_all = ["peer_tls_cert", "peer_tls_key"], help_heading = "Other frontends")]
    pub(crate) peer_tls_ca: Option<PathBuf>,
    /// Certificate that the others are shown (PEM)
    ///
    /// It must be valid for the name or address under which the others know this frontend.
    #[arg(
        long,
        value_name = "FILE",
        requires = "peer_tls_ca",
        help_heading = "Other frontends"
    )]
    pub(crate) peer_tls_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(
        long,
        value_name = "FILE",
        requires = "peer_tls_ca",
        help_heading = "Other frontends"
    )]
    pub(crate) peer_tls_key: Option<PathBuf>,
}

fn peer(text: &str) -> Result<String, &'static str> {
    let port = text.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(1..)) if !text.contains("//") => Ok(text.to_owned()),
        _ => Err("expected HOST:PORT"),
    }
}
