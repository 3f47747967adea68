//! Events over a NATS server: one subject per worker.
//!
//! The client reconnects forever and renews its subscriptions by itself. What was published
//! while the server was away is partly delivered late and partly lost; batch numbers reveal
//! both.

use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event};
use futures_util::StreamExt as _;
use tasks::Backoff;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{EventError, EventReceiver, Outgoing};

/// A server that comes back is found within about a second.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How soon a connection that died without a word is noticed.
const PING_EVERY: Duration = Duration::from_secs(2);

/// A client that keeps trying. Returns at once, even if there is no server yet.
pub async fn connect(url: &str) -> Result<Client, EventError> {
    let backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
    let pause = move |attempt: usize| backoff.after(u32::try_from(attempt).unwrap_or(u32::MAX));
    ConnectOptions::new()
        .name("homing")
        .retry_on_initial_connect()
        .reconnect_delay_callback(pause)
        .ping_interval(PING_EVERY)
        .event_callback(|event| async move { log_event(&event) })
        .connect(url)
        .await
        .map_err(|error| EventError::Nats(format!("{url}: {error}")))
}

fn log_event(event: &Event) {
    match event {
        Event::Connected => info!("connected to NATS"),
        Event::Disconnected => warn!("lost the connection to NATS; reconnecting"),
        Event::LameDuckMode
        | Event::Draining
        | Event::Closed
        | Event::SlowConsumer(_)
        | Event::ServerError(_)
        | Event::ClientError(_) => warn!(%event, "NATS"),
    }
}

pub(super) async fn publish(
    client: Client,
    subject: String,
    mut outgoing: mpsc::Receiver<Outgoing>,
    stop: CancellationToken,
) {
    let work = async {
        while let Some(Outgoing { envelope, .. }) = outgoing.recv().await {
            // Waits only while the client's own buffer is full, and then ours drops.
            if let Err(error) = client.publish(subject.clone(), envelope).await {
                warn!(%error, "cannot publish to NATS");
            }
        }
    };
    stop.run_until_cancelled(work).await;
}

/// Listens to one worker until `stop` fires. Returns once the subscription is under way; the
/// task is the caller's to run.
pub async fn listen(
    client: &Client,
    subject: &str,
    inlet: EventReceiver,
    stop: CancellationToken,
) -> Result<impl Future<Output = ()> + Send + use<>, EventError> {
    let subscribed = client.subscribe(subject.to_owned()).await;
    let mut messages = subscribed.map_err(|error| EventError::Nats(error.to_string()))?;
    Ok(async move {
        let work = async {
            while let Some(message) = messages.next().await {
                inlet.take(&message.payload);
            }
        };
        stop.run_until_cancelled(work).await;
    })
}
