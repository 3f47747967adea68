//! Events over a NATS server: one subject per worker.
//!
//! What was published while the server was away is partly delivered late and partly lost; batch
//! numbers reveal both.

use ::nats::{Nats, NatsError, Received};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{EventReceiver, Outgoing};

pub(super) async fn publish(
    nats: Nats,
    subject: String,
    mut outgoing: mpsc::Receiver<Outgoing>,
    stop: CancellationToken,
) {
    let work = async {
        while let Some(Outgoing { envelope, .. }) = outgoing.recv().await {
            // Waits only while the client's own buffer is full, and then ours drops.
            if let Err(error) = nats.publish(&subject, envelope).await {
                warn!(%error, "cannot publish");
            }
        }
    };
    stop.run_until_cancelled(work).await;
}

/// Listens to one worker until `stop` fires. Returns once the subscription is under way; the
/// task is the caller's to run.
pub async fn listen(
    nats: &Nats,
    subject: &str,
    inlet: EventReceiver,
    stop: CancellationToken,
) -> Result<impl Future<Output = ()> + Send + use<>, NatsError> {
    let mut subscription = nats.subscribe(subject).await?;
    Ok(async move {
        let work = async {
            while let Some(received) = subscription.next().await {
                // A gap is shown by the numbers of batches, and the last one by the worker's beats.
                if let Received::Message(envelope) = received {
                    inlet.take(&envelope);
                }
            }
        };
        stop.run_until_cancelled(work).await;
    })
}
