//! The life of a long-running command: listen, print where, serve until a signal, drain.
//!
//! `demo`, `frontend` and `worker` differ in what they serve. How they start to listen, who may
//! change things, and how they end is the same and is here.

mod signals;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use frontend::Access;
use telemetry::{Registry, catalog};
use tokio::net::TcpListener;

pub(crate) use self::signals::{ReloadSignal, StopSignals, stop_signal};
use crate::print;

/// An address to listen on, and the option that names its port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) option: &'static str,
}

impl Endpoint {
    pub(crate) async fn listen(self) -> anyhow::Result<TcpListener> {
        let Self { address, option } = self;
        TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address} ({option}; 0 picks a free port)"))
    }
}

/// Where this machine reaches its own listener, which may listen everywhere.
pub(crate) fn reachable(listener: SocketAddr) -> SocketAddr {
    let host = match listener.ip() {
        address if !address.is_unspecified() => address,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(host, listener.port())
}

/// Who may change the server.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    pub(crate) access: Access,
    /// The token was generated here, so it has to be printed.
    generated: bool,
}

impl Control {
    /// With the token that was given. Without one, everyone if `open`, or else the holder of a
    /// token that is generated now.
    pub(crate) fn new(token: Option<String>, open: bool) -> Self {
        let generated = token.is_none() && !open;
        let access = match token {
            Some(token) => Access::Token(token),
            None if open => Access::Open,
            None => Access::Token(frontend::random_token()),
        };
        Self { access, generated }
    }

    /// The line that prints the token, if it was generated.
    pub(crate) fn news(&self) -> Option<String> {
        match &self.access {
            Access::Token(token) if self.generated => {
                Some(format!("control token (generated for this run): {token}"))
            }
            Access::Token(_) | Access::Open => None,
        }
    }
}

/// The metrics of a process, with its version.
pub(crate) fn registry() -> Registry {
    let registry = Registry::new();
    registry
        .gauge(&catalog::BUILD_INFO, &[env!("CARGO_PKG_VERSION")])
        .set(1.0);
    registry
}

/// Waits until `finished` is over, but no longer than the grace and not beyond another signal.
pub(crate) async fn drain(
    signals: &mut StopSignals,
    grace: Duration,
    in_flight: impl Fn() -> usize,
    finished: impl Future<Output = ()>,
) {
    print::line(format_args!(
        "finishing {} running request(s) ...",
        in_flight()
    ));
    tokio::select! {
        () = finished => {}
        () = tokio::time::sleep(grace) => {
            print::line(format_args!("cancelled {} request(s)", in_flight()));
        }
        () = signals.next() => {}
    }
}

/// Milliseconds since the Unix epoch. Also what distinguishes this run of a worker from earlier
/// ones.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.unwrap_or(Duration::ZERO).as_millis();
    u64::try_from(since).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_reached_where_it_listens() {
        for (listener, address) in [
            ("127.0.0.1:8000", "127.0.0.1:8000"),
            ("0.0.0.0:8000", "127.0.0.1:8000"),
            ("[::]:8000", "[::1]:8000"),
            ("192.0.2.7:80", "192.0.2.7:80"),
        ] {
            let reached = reachable(listener.parse().unwrap());
            assert_eq!(reached.to_string(), address);
        }
    }

    #[test]
    fn a_token_is_generated_and_printed_only_where_one_is_needed_and_none_was_given() {
        let given = Control::new(Some("secret".to_owned()), false);
        assert!(matches!(&given.access, Access::Token(token) if token == "secret"));
        assert_eq!(given.news(), None);
        let open = Control::new(None, true);
        assert!(matches!(open.access, Access::Open));
        assert_eq!(open.news(), None);
        let generated = Control::new(None, false);
        let Access::Token(token) = &generated.access else {
            panic!("no token was generated");
        };
        assert!(generated.news().is_some_and(|news| news.ends_with(token)));
    }
}
