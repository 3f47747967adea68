//! A connection to a NATS server, for all who publish, listen or ask over one.
//!
//! A thin layer over `async-nats`, so that the event plane of our own workers and the planes of
//! Dynamo's reconnect with the same patience and log the same words. Only core NATS: whoever needs
//! what was lost asks its publisher.
//!
//! # Guarantees
//!
//! - **The connection is kept.** It is renewed forever, and its subscriptions with it.
//! - **A loss shows.** A [`Subscription`] yields [`Received::Gap`] before its first message, and
//!   whenever messages may have been lost since.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::client::RequestErrorKind;
use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, Request, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tasks::Backoff;
use tokio::sync::watch;
use tracing::{debug, info, warn};

/// A server that comes back is found within about a second.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How soon a connection that died without a word is noticed.
const PING_EVERY: Duration = Duration::from_secs(2);

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("NATS at {url}: {detail}")]
pub struct NatsError {
    /// Without user and password.
    url: String,
    detail: String,
}

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("there is no connection to NATS")]
    Disconnected,
    #[error("nobody listens to `{0}` on NATS")]
    NoListener(String),
    /// No repetition helps.
    #[error("{size} bytes are more than NATS takes at once; its option max_payload is {limit}")]
    TooLarge { size: usize, limit: usize },
    #[error("NATS: {0}")]
    Failed(String),
}

/// A server, and the connection to it. Clones share it.
#[derive(Clone, Debug)]
pub struct Nats {
    client: Client,
    /// Without user and password.
    url: String,
    /// How many times messages may have been lost.
    losses: watch::Receiver<u64>,
}

impl Nats {
    /// Returns at once, even if there is no server yet. Fails if `url` is none.
    pub async fn connect(url: &str) -> Result<Self, NatsError> {
        let backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        let pause = move |attempt: usize| backoff.after(u32::try_from(attempt).unwrap_or(u32::MAX));
        let (loss, losses) = watch::channel(0);
        let shown = without_credentials(url);
        let log = Log::default();
        let client = ConnectOptions::new()
            .name("homing")
            .retry_on_initial_connect()
            .reconnect_delay_callback(pause)
            .ping_interval(PING_EVERY)
            .event_callback(move |event| {
                log.event(&event);
                if let Event::Connected | Event::SlowConsumer(_) = event {
                    loss.send_modify(|losses| *losses += 1);
                }
                std::future::ready(())
            })
            .connect(url)
            .await
            .map_err(|error| NatsError {
                url: shown.clone(),
                detail: error.to_string(),
            })?;
        Ok(Self {
            client,
            url: shown,
            losses,
        })
    }

    /// Waits only while the client's own buffer is full.
    pub async fn publish(&self, subject: &str, message: Bytes) -> Result<(), NatsError> {
        let published = self.client.publish(subject.to_owned(), message).await;
        published.map_err(|error| self.error(&error))
    }

    /// Listens to a subject. Returns once the subscription is under way.
    pub async fn subscribe(&self, subject: &str) -> Result<Subscription, NatsError> {
        let subscribed = self.client.subscribe(subject.to_owned()).await;
        let messages = subscribed.map_err(|error| self.error(&error))?;
        let mut losses = self.losses.clone();
        losses.mark_changed();
        Ok(Subscription { messages, losses })
    }

    /// Sends a message and waits for the reply.
    pub async fn request(&self, subject: &str, message: Bytes) -> Result<Bytes, RequestError> {
        // It would be kept until there is a connection, and then be of no use to anybody.
        if self.client.connection_state() != State::Connected {
            return Err(RequestError::Disconnected);
        }
        let size = message.len();
        // With an inbox of its own: the client would remember a shared one's request for ever if
        // no reply came.
        let inbox = self.client.new_inbox();
        let request = Request::new().payload(message).inbox(inbox);
        match self.client.send_request(subject.to_owned(), request).await {
            Ok(reply) => Ok(reply.payload),
            Err(error) => Err(match error.kind() {
                RequestErrorKind::NoResponders => RequestError::NoListener(subject.to_owned()),
                RequestErrorKind::MaxPayloadExceeded => RequestError::TooLarge {
                    size,
                    limit: self.client.server_info().max_payload,
                },
                RequestErrorKind::TimedOut
                | RequestErrorKind::InvalidSubject
                | RequestErrorKind::Other => RequestError::Failed(error.to_string()),
            }),
        }
    }

    /// This machine's address as the server sees it; `None` before the first connection.
    pub fn own_address(&self) -> Option<IpAddr> {
        self.client.server_info().client_ip.parse().ok()
    }

    fn error(&self, error: &dyn std::error::Error) -> NatsError {
        NatsError {
            url: self.url.clone(),
            detail: error.to_string(),
        }
    }
}

/// What a subscription yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    Message(Bytes),
    /// Messages may have been lost before the next one.
    Gap,
}

/// Messages to a subject. The subscription ends when this is dropped.
#[derive(Debug)]
pub struct Subscription {
    messages: Subscriber,
    losses: watch::Receiver<u64>,
}

impl Subscription {
    /// Waits for the next message or gap; `None` after the end of the connection, which comes with
    /// that of the process. Loses nothing when dropped.
    pub async fn next(&mut self) -> Option<Received> {
        tokio::select! {
            // A gap is older than the messages that wait behind it.
            biased;
            Ok(()) = self.losses.changed() => Some(Received::Gap),
            message = self.messages.next() => {
                message.map(|message| Received::Message(message.payload))
            }
        }
    }
}

/// An address as everybody may read it.
pub fn without_credentials(address: &str) -> String {
    match address.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
            format!("{scheme}://{host}")
        }
        None => address.to_owned(),
    }
}

/// What the log says of a connection. Attempts to renew it fail several times a second, and one line
/// is enough.
#[derive(Debug, Default)]
struct Log {
    away: AtomicBool,
}

impl Log {
    fn event(&self, event: &Event) {
        match event {
            Event::Connected => {
                self.away.store(false, Ordering::Relaxed);
                info!("connected to NATS");
            }
            Event::Disconnected => {
                self.away.store(true, Ordering::Relaxed);
                warn!("lost the connection to NATS; reconnecting");
            }
            Event::ClientError(error) if self.away.swap(true, Ordering::Relaxed) => {
                debug!(%error, "NATS");
            }
            Event::LameDuckMode
            | Event::Draining
            | Event::Closed
            | Event::SlowConsumer(_)
            | Event::ServerError(_)
            | Event::ClientError(_) => warn!(%event, "NATS"),
        }
    }
}

#[cfg(test)]
mod tests;
