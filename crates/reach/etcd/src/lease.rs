//! A lease: keys written under it vanish some time after their owner does.
//!
//! A task renews it three times per time to live. Whether it is lost is etcd's word alone:
//! while etcd cannot be reached the lease may well live on (a new leader extends all leases),
//! and nothing could be registered again anyway.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Response;
use tracing::{debug, warn};

use crate::client::{Etcd, LeaseId, backoff};
use crate::error::Error;
use crate::wire::lease_client::LeaseClient;
use crate::wire::{LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest};

/// Alive until dropped or closed, which gives it back: its keys are deleted at once.
#[derive(Debug)]
pub struct Lease {
    id: i64,
    closing: CancellationToken,
    lost: CancellationToken,
    renewal: Option<JoinHandle<()>>,
}

impl Etcd {
    /// A lease that keeps itself alive on `tasks`. `ttl` is how long it outlives its owner,
    /// in whole seconds.
    pub async fn lease(&self, ttl: Duration, tasks: &TaskTracker) -> Result<Lease, Error> {
        Lease::grant(self.clone(), ttl, tasks).await
    }
}

impl Lease {
    pub(crate) async fn grant(
        etcd: Etcd,
        ttl: Duration,
        tasks: &TaskTracker,
    ) -> Result<Self, Error> {
        let seconds = i64::try_from(ttl.as_secs().max(1)).unwrap_or(i64::MAX);
        let answer = etcd
            .call(|channel| async move {
                LeaseClient::new(channel)
                    .lease_grant(LeaseGrantRequest { ttl: seconds })
                    .await
            })
            .await?;
        // etcd may give more than was asked for, never less.
        let interval = Duration::from_secs(answer.ttl.max(1).unsigned_abs()) / 3;
        let (closing, lost) = (CancellationToken::new(), CancellationToken::new());
        let renewal = Renewal {
            etcd,
            id: answer.id,
            interval,
            closing: closing.clone(),
            lost: lost.clone(),
        };
        Ok(Self {
            id: answer.id,
            closing,
            lost,
            renewal: Some(tasks.spawn(renewal.run())),
        })
    }

    /// etcd's number for it.
    pub fn id(&self) -> LeaseId {
        LeaseId(self.id)
    }

    /// Returns once the etcd lease has expired: its keys are gone.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    pub fn is_lost(&self) -> bool {
        self.lost.is_cancelled()
    }

    /// Gives the lease back and waits until that is done, or cannot be.
    pub async fn close(mut self) {
        self.closing.cancel();
        if let Some(renewal) = self.renewal.take() {
            // Fails only if the runtime stops, and then nobody waits.
            let _ = renewal.await;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

struct Renewal {
    etcd: Etcd,
    id: i64,
    interval: Duration,
    closing: CancellationToken,
    lost: CancellationToken,
}

impl Renewal {
    async fn run(self) {
        let mut backoff = backoff();
        let mut failed = false;
        loop {
            let closing = &self.closing;
            tokio::select! {
                () = closing.cancelled() => return self.revoke().await,
                () = backoff.wait(), if failed => {}
                () = tokio::time::sleep(self.interval), if !failed => {}
            }
            failed = match self.renew().await {
                Ok(true) => {
                    backoff.reset();
                    false
                }
                Ok(false) => {
                    warn!(lease = self.id, "the etcd lease has expired");
                    self.lost.cancel();
                    return;
                }
                Err(error) => {
                    warn!(lease = self.id, %error, "cannot renew the lease; retrying");
                    true
                }
            };
        }
    }

    /// One renewal; whether the lease still lives.
    ///
    /// etcd takes renewals as a stream. One stream per renewal costs little at this rate, and
    /// finds its way to another endpoint like any other request.
    async fn renew(&self) -> Result<bool, Error> {
        let id = self.id;
        let answer = self
            .etcd
            .call(|channel| async move {
                let request = futures_util::stream::iter([LeaseKeepAliveRequest { id }]);
                let mut client = LeaseClient::new(channel);
                let mut answers = client.lease_keep_alive(request).await?.into_inner();
                Ok(Response::new(answers.message().await?))
            })
            .await;
        match answer {
            Ok(Some(answer)) => Ok(answer.ttl > 0),
            Ok(None) => Err(Error::Unreachable {
                detail: "the renewal had no answer".to_owned(),
            }),
            Err(Error::LeaseOver) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn revoke(&self) {
        let request = LeaseRevokeRequest { id: self.id };
        let answer = self
            .etcd
            .call(|channel| async move { LeaseClient::new(channel).lease_revoke(request).await })
            .await;
        if let Err(error) = answer {
            debug!(lease = self.id, %error, "cannot revoke the lease; it will expire");
        }
    }
}
