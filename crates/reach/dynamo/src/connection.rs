//! Connections on which requests are sent to a worker's server. Kept between requests, because
//! a new connection costs a round trip.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use nats::RequestError;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::wire::DecodeError;
use crate::wire::request::{Acknowledgement, acknowledgement_length};

/// How long a worker may take for a connection, or to acknowledge a request.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// The most idle connections that are kept.
const MOST_IDLE: usize = 32;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error("no answer within {PATIENCE:?}")]
    Silent,
    #[error("{0}")]
    Broken(#[from] io::Error),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Nats(#[from] RequestError),
}

/// Connections to one server.
#[derive(Debug)]
pub(crate) struct Connections {
    /// `host:port`
    host: String,
    idle: Mutex<Vec<TcpStream>>,
}

/// A connection, and whether it served a request before.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    pub(crate) used: bool,
}

impl Connections {
    pub(crate) fn new(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            idle: Mutex::default(),
        }
    }

    /// An idle connection that still looks alive, or a new one.
    pub(crate) async fn get(&self) -> Result<Connection, SendError> {
        while let Some(stream) = self.take() {
            if is_quiet(&stream) {
                return Ok(Connection { stream, used: true });
            }
        }
        self.open().await
    }

    pub(crate) async fn open(&self) -> Result<Connection, SendError> {
        let stream = timeout(PATIENCE, TcpStream::connect(&self.host))
            .await
            .map_err(|_| SendError::Silent)??;
        stream.set_nodelay(true)?;
        Ok(Connection {
            stream,
            used: false,
        })
    }

    fn take(&self) -> Option<TcpStream> {
        self.idle.lock().pop()
    }

    /// Keeps a connection for later.
    pub(crate) fn put(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if idle.len() < MOST_IDLE {
            idle.push(connection.stream);
        }
    }
}

impl Connection {
    /// Our address on it.
    pub(crate) fn own_address(&self) -> io::Result<IpAddr> {
        Ok(self.stream.local_addr()?.ip())
    }

    /// Sends a request and waits for its acknowledgement.
    pub(crate) async fn send(&mut self, request: &[u8]) -> Result<Acknowledgement, SendError> {
        let exchange = async {
            self.stream.write_all(request).await?;
            let mut length = [0; 4];
            self.stream.read_exact(&mut length).await?;
            let mut acknowledgement = vec![0; acknowledgement_length(length)?];
            self.stream.read_exact(&mut acknowledgement).await?;
            Ok(Acknowledgement::decode(&acknowledgement))
        };
        timeout(PATIENCE, exchange)
            .await
            .map_err(|_| SendError::Silent)?
    }
}

/// An idle connection has nothing to read. One that has was closed, or violates the protocol.
fn is_quiet(stream: &TcpStream) -> bool {
    let read = stream.try_read(&mut [0]);
    matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}
