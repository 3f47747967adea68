//! The side that connects: finds the others' addresses and keeps a connection to each.
//!
//! A name may stand for many addresses that change, as that of a headless Service does, so it is looked
//! up again and again. An address that turns out to be our own is left alone.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use contract::error_chain;
use tasks::{Backoff, Tasks};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tracing::{info, warn};

use super::{End, Exchange};
use crate::silence::{PING_EVERY, PING_TIMEOUT};
use crate::wire::peers_client::PeersClient;

const LOOK_UP_EVERY: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Why a frontend could not be reached.
#[derive(Debug, thiserror::Error)]
enum ReachError {
    #[error("{}", error_chain(.0))]
    Connect(#[from] tonic::transport::Error),
    #[error("{0}")]
    Refused(#[from] Box<tonic::Status>),
    #[error("it does not answer")]
    Silent(#[from] tokio::time::error::Elapsed),
}

/// Held until a first attempt has shown whether somebody is there.
pub(super) type FirstTry = Arc<()>;

/// Those whose addresses we know.
pub(super) struct Neighbourhood {
    trying: FirstTry,
}

impl Neighbourhood {
    pub(super) fn new(names: Vec<String>, exchange: &Arc<Exchange>, tasks: &Tasks) -> Self {
        let trying = FirstTry::new(());
        for name in names {
            let street = Street {
                name,
                exchange: Arc::clone(exchange),
                tasks: tasks.clone(),
                known: HashMap::new(),
            };
            tasks.spawn_until_stop(street.follow(Arc::clone(&trying)));
        }
        Self { trying }
    }

    /// Whether everybody that could be found has been heard, or is not there.
    pub(super) fn is_settled(&self) -> bool {
        Arc::strong_count(&self.trying) == 1
    }
}

/// The addresses behind a name.
struct Street {
    name: String,
    exchange: Arc<Exchange>,
    tasks: Tasks,
    /// Cancelled once the name no longer stands for the address.
    known: HashMap<SocketAddr, CancellationToken>,
}

impl Street {
    async fn follow(mut self, first: FirstTry) {
        let mut first = Some(first);
        let mut complained = false;
        loop {
            let looked_up = tokio::net::lookup_host(&self.name);
            // A name server that is away must not keep this frontend from serving.
            let found = match tokio::time::timeout(CONNECT_TIMEOUT, looked_up).await {
                Ok(found) => found,
                Err(late) => Err(late.into()),
            };
            match found.map(Iterator::collect) {
                Ok(found) => {
                    complained = false;
                    self.update(found, first.take());
                }
                Err(error) if !complained => {
                    complained = true;
                    warn!(name = self.name, %error, "cannot look up the address of other frontends");
                }
                Err(_) => {}
            }
            first = None;
            tokio::time::sleep(LOOK_UP_EVERY).await;
        }
    }

    fn update(&mut self, found: Vec<SocketAddr>, first: Option<FirstTry>) {
        self.known.retain(|address, gone| {
            let kept = found.contains(address);
            if !kept {
                gone.cancel();
            }
            kept
        });
        for address in found {
            if self.known.contains_key(&address) {
                continue;
            }
            let gone = CancellationToken::new();
            self.known.insert(address, gone.clone());
            let neighbour = Neighbour {
                host: host(&self.name).to_owned(),
                address,
                exchange: Arc::clone(&self.exchange),
                gone,
                complained: None,
            };
            self.tasks.spawn_until_stop(neighbour.keep(first.clone()));
        }
    }
}

/// Without the port and the brackets of an IPv6 address.
fn host(name: &str) -> &str {
    let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// A frontend, or nobody, at an address.
struct Neighbour {
    host: String,
    address: SocketAddr,
    exchange: Arc<Exchange>,
    gone: CancellationToken,
    /// What was last logged, so that the same is not logged every second.
    complained: Option<String>,
}

impl Neighbour {
    async fn keep(mut self, mut first: Option<FirstTry>) {
        let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        while !self.gone.is_cancelled() {
            match self.exchange_reports(&mut first).await {
                Ok(End::Ourselves) => return,
                Ok(End::Closed) => {
                    backoff.reset();
                    self.complained = None;
                    info!(address = %self.address, "the connection to a frontend has ended");
                }
                Err(error) => self.complain(&error),
            }
            first = None;
            tokio::select! {
                () = backoff.wait() => {}
                () = self.gone.cancelled() => {}
            }
        }
    }

    fn complain(&mut self, error: &ReachError) {
        let error = error.to_string();
        if self.complained.as_ref() != Some(&error) {
            warn!(address = %self.address, error, "cannot reach a frontend");
            self.complained = Some(error);
        }
    }

    /// Until the connection ends.
    async fn exchange_reports(&self, first: &mut Option<FirstTry>) -> Result<End, ReachError> {
        let opening = async {
            let mut client = PeersClient::new(self.channel().await?);
            let (outbound, stream) = mpsc::channel(1);
            let opened = client.exchange(ReceiverStream::new(stream)).await;
            let inbound = opened.map_err(Box::new)?.into_inner();
            Ok::<_, ReachError>((inbound, outbound))
        };
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, opening).await;
        let (inbound, outbound) = opened??;
        Ok(self
            .exchange
            .converse(inbound, outbound, |report| report, first)
            .await)
    }

    async fn channel(&self) -> Result<Channel, tonic::transport::Error> {
        let scheme = match self.exchange.tls {
            Some(_) => "https",
            None => "http",
        };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{}", self.address))?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true);
        if let Some(tls) = &self.exchange.tls {
            endpoint = endpoint.tls_config(tls.client_of(&self.host))?;
        }
        endpoint.connect().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_checked_against_the_name_that_was_given() {
        assert_eq!(host("homing-peers:7100"), "homing-peers");
        assert_eq!(host("[::1]:7100"), "::1");
        assert_eq!(host("10.0.0.1:7100"), "10.0.0.1");
    }
}
