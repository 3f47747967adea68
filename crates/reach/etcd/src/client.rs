//! Unary requests, and the choice of the endpoint.
//!
//! All calls go to one endpoint until it fails; then all users of the client switch to the next
//! one. Every request here is idempotent, so a failed one is tried at each endpoint once. The
//! caller retries later: [`Watch`](crate::Watch) and [`Lease`](crate::Lease) do.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tasks::Backoff;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

use crate::error::Error;
use crate::tls::Tls;
use crate::wire::kv_client::KvClient;
use crate::wire::{DeleteRangeRequest, PutRequest, RangeRequest};
use crate::{KeyValue, end_of};

/// How long one endpoint may take for a connection or an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often a silent connection is tested. etcd breaks with clients that ask more often than
/// every five seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Between attempts to reach etcd.
pub(crate) fn backoff() -> Backoff {
    Backoff::new(Duration::from_millis(50), Duration::from_secs(3))
}

/// The largest answer: thousands of workers with their cards.
pub(crate) const LARGEST_ANSWER: usize = 64 << 20;

/// The number of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseId(pub(crate) i64);

/// A client. Clones share connections and the choice of endpoint.
#[derive(Clone, Debug)]
pub struct Etcd {
    endpoints: Arc<[Channel]>,
    current: Arc<AtomicUsize>,
}

impl Etcd {
    /// A client of the members behind `endpoints` (`http://host:2379`, `https://host:2379`).
    /// Connects when first used, so etcd need not be there yet; must be called on a runtime.
    pub fn connect<S: AsRef<str>>(endpoints: &[S], tls: &Tls) -> Result<Self, Error> {
        let address_error = |address: &str, detail: &str| Error::Address {
            address: address.to_owned(),
            detail: detail.to_owned(),
        };
        if endpoints.is_empty() {
            return Err(address_error("", "none given"));
        }
        let channels = endpoints.iter().map(|address| {
            let address = address.as_ref().trim();
            let refused = |error: tonic::transport::Error| {
                // Its own message says only what failed, not why.
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                address_error(address, &cause.unwrap_or_else(|| error.to_string()))
            };
            let mut endpoint = Endpoint::from_shared(address.to_owned()).map_err(refused)?;
            match endpoint.uri().scheme_str() {
                Some("http") => {}
                Some("https") => endpoint = endpoint.tls_config(tls.config()).map_err(refused)?,
                _ => {
                    let detail = "it must begin with http:// or https://";
                    return Err(address_error(address, detail));
                }
            }
            Ok(endpoint
                .connect_timeout(PATIENCE)
                .http2_keep_alive_interval(KEEP_ALIVE)
                .keep_alive_timeout(PATIENCE)
                .keep_alive_while_idle(true)
                .connect_lazy())
        });
        Ok(Self {
            endpoints: channels.collect::<Result<_, _>>()?,
            current: Arc::default(),
        })
    }

    /// Everything under a prefix.
    pub async fn list(&self, prefix: &[u8]) -> Result<Vec<KeyValue>, Error> {
        Ok(self.list_at(prefix).await?.0)
    }

    /// Everything under a prefix, and the revision of which that is true.
    pub(crate) async fn list_at(&self, prefix: &[u8]) -> Result<(Vec<KeyValue>, i64), Error> {
        let request = RangeRequest {
            key: first_of(prefix),
            range_end: end_of(prefix),
        };
        let answer = self
            .call(|channel| {
                let request = request.clone();
                async move {
                    KvClient::new(channel)
                        .max_decoding_message_size(LARGEST_ANSWER)
                        .range(request)
                        .await
                }
            })
            .await?;
        let revision = answer.header.map_or(0, |header| header.revision);
        Ok((answer.kvs.into_iter().map(Into::into).collect(), revision))
    }

    /// Writes a key, which vanishes with `lease` if there is one.
    pub async fn put(&self, key: &[u8], value: &[u8], lease: Option<LeaseId>) -> Result<(), Error> {
        let request = PutRequest {
            key: key.to_vec(),
            value: value.to_vec(),
            lease: lease.map_or(0, |LeaseId(id)| id),
        };
        self.call(|channel| {
            let request = request.clone();
            async move { KvClient::new(channel).put(request).await }
        })
        .await?;
        Ok(())
    }

    /// Deletes a key; says whether it was there.
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        let request = DeleteRangeRequest { key: key.to_vec() };
        let answer = self
            .call(|channel| {
                let request = request.clone();
                async move { KvClient::new(channel).delete_range(request).await }
            })
            .await?;
        Ok(answer.deleted > 0)
    }

    /// Sends a request to the current endpoint, and to the others in turn if it fails.
    pub(crate) async fn call<T, F>(&self, send: impl Fn(Channel) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let mut detail = String::new();
        for _ in 0..self.endpoints.len() {
            let position = self.current.load(Ordering::Relaxed);
            detail = match timeout(PATIENCE, send(self.endpoints[position].clone())).await {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
                Ok(Err(status)) if !another_may_answer(&status) => return Err(refusal(&status)),
                Ok(Err(status)) => status.message().to_owned(),
                Err(_) => format!("no answer within {PATIENCE:?}"),
            };
            self.leave(position);
        }
        Err(Error::Unreachable { detail })
    }

    /// Makes the next endpoint the current one, unless somebody else already did.
    fn leave(&self, position: usize) {
        let next = (position + 1) % self.endpoints.len();
        let _ = self
            .current
            .compare_exchange(position, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// etcd takes no empty key: the first of all keys is a lone zero byte.
pub(crate) fn first_of(prefix: &[u8]) -> Vec<u8> {
    if prefix.is_empty() {
        vec![0]
    } else {
        prefix.to_vec()
    }
}

/// Whether a status speaks of the connection or the member rather than of the request.
fn another_may_answer(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable
            | Code::Unknown
            | Code::Internal
            | Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Aborted
    )
}

fn refusal(status: &Status) -> Error {
    // Keys are never "not found" in this interface, leases are.
    if status.code() == Code::NotFound {
        return Error::LeaseOver;
    }
    Error::Refused {
        detail: status.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_are_checked_before_anything_is_sent() {
        let error = |addresses: &[&str]| {
            Etcd::connect(addresses, &Tls::default())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(error(&[]), "`` is not an etcd address: none given");
        assert_eq!(
            error(&["http://a:2379", "a:2379"]),
            "`a:2379` is not an etcd address: it must begin with http:// or https://"
        );
        let good = ["http://localhost:2379 ", "https://localhost:2379"];
        assert!(Etcd::connect(&good, &Tls::default()).is_ok());
    }
}
