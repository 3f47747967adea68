//! Listening: who gets a connection, for how long, and what it may hold up.
//!
//! A connection costs a descriptor and some memory for as long as its client wants, so each
//! kind of silence has a limit: before the first request, within a header, within a body,
//! between requests, and (in [`slow_reader`](crate::slow_reader)) while an answer waits to be
//! read. Their number has a limit too. When it is reached, connections that do nothing make
//! room first; after them a few places remain in which only health and metrics are answered,
//! so that an operator can see what is wrong with the server.
//!
//! | module | what it does |
//! |---|---|
//! | `crowd` | counts connections, finds the one that is missed least |
//! | `pulse` | what one connection is doing, and until when it may |
//! | `wire` | the socket: reports bytes to the pulse, closes gracefully |
//! | `visit` | one request: under a known name, its body in time |
//! | `arriving` | a request's body, which must keep coming |
//! | `tls` | HTTPS: certificates, handshakes |
//!
//! # Guarantees
//!
//! - **Told before closing.** An answer that leaves before the request's body was read says
//!   `Connection: close`, and what the client still sends is read and dropped for a while,
//!   so that the answer arrives before any reset.
//! - **Stopping waits for answers only.** When `drain` fires, connections without a request
//!   end at once, bodies still on their way are refused, and what is being answered goes on.

mod arriving;
mod crowd;
mod pulse;
mod tls;
mod visit;
mod wire;

#[cfg(test)]
mod tests;

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use contract::Visitors;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

pub(crate) use self::arriving::BodyError;
pub use self::crowd::Connections;
use self::crowd::{ConnectionSlot, Rank};
use self::pulse::{Pulse, Timeouts};
pub use self::tls::{Tls, TlsError, TlsPem};
use self::visit::Visit;
use self::wire::Wire;
use crate::slow_reader::ImpatientIo;

/// Streams of one HTTP/2 connection that may be open at once: fewer than the requests that
/// any fleet of note serves, so that one connection is never all of them.
const MOST_STREAMS: u32 = 128;
/// Larger headers than any client of ours sends.
const MOST_HEADER_BYTES: u32 = 64 << 10;
/// How often an HTTP/2 client is asked whether it is there, and how long it may take to say.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_PATIENCE: Duration = Duration::from_secs(20);
/// A place of the reserve is for one short question.
const RESERVE_TIMEOUTS: Timeouts = Timeouts {
    read: Duration::from_secs(2),
    idle: Duration::from_secs(2),
};
/// Rest after a failure to accept, which is usually a want of descriptors.
const BREATHER: Duration = Duration::from_millis(100);

/// Limits and timeouts of a listener.
#[derive(Clone, Debug)]
pub struct Listening {
    /// A client that takes nothing of its answer for so long is cut off.
    pub patience: Duration,
    /// How long a header may take, and how long a body may pause.
    pub read_timeout: Duration,
    /// How long a connection may stay without a request.
    pub idle_timeout: Duration,
    pub visitors: Visitors,
    /// If set, HTTPS is spoken, and HTTP is not.
    pub tls: Option<Tls>,
    /// Shared by all listeners of a process.
    pub connections: Connections,
}

impl Default for Listening {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(30),
            read_timeout: Duration::from_secs(30),
            // More than the minute that reverse proxies keep a connection for.
            idle_timeout: Duration::from_secs(120),
            visitors: Visitors::anybody(),
            tls: None,
            connections: Connections::new(1024),
        }
    }
}

/// Serves `routes` on `listener` until `drain` fires, then until the last answer has left.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    listening: Listening,
    drain: CancellationToken,
) {
    let tasks = TaskTracker::new();
    let hall = Hall::new(routes, listening, drain.clone());
    loop {
        let accepted = tokio::select! {
            biased;
            () = drain.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            // The client's own business.
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(BREATHER).await;
                continue;
            }
        };
        // A token should leave when it is written, not when a packet is full.
        if let Err(error) = stream.set_nodelay(true) {
            warn!(%error, "cannot set TCP_NODELAY");
        }
        if let Some(place) = hall.listening.connections.admit().await {
            tasks.spawn(Arc::clone(&hall).converse(stream, place));
        }
    }
    drop(listener);
    tasks.close();
    tasks.wait().await;
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Without hyper's own limit for headers: it would be the same for idle connections.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(MOST_HEADER_BYTES)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_PATIENCE);
    builder
}

/// What all connections of a listener share.
struct Hall {
    builder: auto::Builder<TokioExecutor>,
    routes: Router,
    listening: Listening,
    drain: CancellationToken,
}

impl Hall {
    fn new(routes: Router, listening: Listening, drain: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            builder: builder(),
            routes,
            listening,
            drain,
        })
    }

    /// Serves one connection to its end.
    async fn converse<T>(self: Arc<Self>, stream: T, place: ConnectionSlot)
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let listening = &self.listening;
        let timeouts = match place.rank() {
            Rank::Ordinary => Timeouts {
                read: listening.read_timeout,
                idle: listening.idle_timeout,
            },
            Rank::Reserve => RESERVE_TIMEOUTS,
        };
        let pulse = Pulse::new(timeouts, self.drain.clone());
        let seen = listening.connections.watch(place.rank(), &pulse);
        match &listening.tls {
            None => self.exchange(stream, &pulse, place).await,
            Some(tls) => {
                let accepted = tokio::select! {
                    accepted = tls.accept(stream) => accepted,
                    reason = pulse.overdue() => return debug!(reason, "no handshake"),
                    () = self.drain.cancelled() => return,
                };
                match accepted {
                    Ok(stream) => self.exchange(stream, &pulse, place).await,
                    Err(error) => debug!(%error, "handshake failed"),
                }
            }
        }
        drop(seen);
    }

    /// Requests and answers, once bytes can be exchanged.
    async fn exchange<T>(&self, stream: T, pulse: &Arc<Pulse>, place: ConnectionSlot)
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let visit = Visit {
            routes: self.routes.clone(),
            visitors: self.listening.visitors.clone(),
            rank: place.rank(),
            pulse: Arc::clone(pulse),
        };
        let stream = ImpatientIo::new(stream, self.listening.patience);
        let wire = Wire::new(stream, Arc::clone(pulse), place);
        let connection = self
            .builder
            .serve_connection_with_upgrades(TokioIo::new(wire), visit);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            reason = pulse.overdue() => return debug!(reason, "connection closed"),
            () = self.drain.cancelled() => {
                if pulse.is_quiet() {
                    return;
                }
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            debug!(error, "connection failed");
        }
    }
}
