//! One connection after its handshake, and who may open one.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tasks::Tasks;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::debug;

use crate::Message;
use crate::codec::{self, Assembly, GREETING, Kind, Violation};

/// For a connection and its handshake, and for a peer to take what is sent to it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Before the handshake nobody has anything long to say.
const LARGEST_HANDSHAKE: usize = 4 << 10;
/// Connections to one port at once.
const MOST_PEERS: usize = 1024;

/// Why a connection is of no use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{0}` is not an address such as tcp://127.0.0.1:5557")]
    Address(String),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("no answer within {PATIENCE:?}")]
    Silent,
    #[error("the peer has closed the connection")]
    Closed,
    #[error(transparent)]
    Violation(#[from] Violation),
}

/// What is read of a peer, with a limit.
#[derive(Debug)]
pub(crate) struct Reader {
    stream: OwnedReadHalf,
    buffer: BytesMut,
    assembly: Assembly,
    limit: usize,
}

#[derive(Debug)]
pub(crate) struct Writer {
    stream: OwnedWriteHalf,
    buffer: BytesMut,
}

/// Connects as a socket of this kind.
pub(crate) async fn connect(
    endpoint: &str,
    kind: Kind,
    limit: usize,
) -> Result<(Reader, Writer), Error> {
    let address = endpoint.strip_prefix("tcp://");
    let address = address.ok_or_else(|| Error::Address(endpoint.to_owned()))?;
    let opened = async { handshake(TcpStream::connect(address).await?, kind, limit).await };
    timeout(PATIENCE, opened).await.map_err(|_| Error::Silent)?
}

async fn handshake(stream: TcpStream, kind: Kind, limit: usize) -> Result<(Reader, Writer), Error> {
    stream.set_nodelay(true)?;
    let (read, write) = stream.into_split();
    let mut writer = Writer {
        stream: write,
        buffer: BytesMut::new(),
    };
    let mut reader = Reader {
        stream: read,
        buffer: BytesMut::new(),
        assembly: Assembly::default(),
        limit: LARGEST_HANDSHAKE,
    };
    writer.stream.write_all(&codec::greeting()).await?;
    let mut greeting = [0; GREETING];
    reader.stream.read_exact(&mut greeting).await?;
    codec::check_greeting(&greeting)?;
    codec::encode(&codec::ready(kind), &mut writer.buffer);
    writer.flush().await?;
    let ready = reader.frame().await?;
    codec::check_ready(kind, &ready)?;
    reader.limit = limit;
    Ok((reader, writer))
}

impl Reader {
    pub(crate) async fn message(&mut self) -> Result<Message, Error> {
        loop {
            let frame = self.frame().await?;
            if let Some(message) = self.assembly.take(frame, self.limit)? {
                return Ok(message);
            }
        }
    }

    /// Safe to drop while it waits: what has come stays in the buffer.
    async fn frame(&mut self) -> Result<codec::Frame, Error> {
        loop {
            if let Some(frame) = codec::decode(&mut self.buffer, self.limit)? {
                return Ok(frame);
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(Error::Closed);
            }
        }
    }
}

impl Writer {
    /// Gives up on a peer that takes nothing.
    pub(crate) async fn send(&mut self, message: &[Bytes]) -> Result<(), Error> {
        codec::encode_message(message, &mut self.buffer);
        timeout(PATIENCE, self.flush())
            .await
            .map_err(|_| Error::Silent)?
    }

    async fn flush(&mut self) -> Result<(), Error> {
        self.stream.write_all_buf(&mut self.buffer).await?;
        Ok(())
    }
}

/// A port that is bound and does not answer yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    port: u16,
}

impl Bound {
    /// `host:port`; port 0 picks a free one.
    pub async fn bind(host: &str, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((host, port)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs `talk` with everybody who connects and greets properly, until `tasks` stop.
    pub(crate) fn serve<F>(
        self,
        kind: Kind,
        limit: usize,
        talk: impl Fn(Reader, Writer) -> F + Clone + Send + Sync + 'static,
        tasks: &Tasks,
    ) where
        F: Future<Output = Result<(), Error>> + Send,
    {
        let own = tasks.clone();
        let places = Arc::new(Semaphore::new(MOST_PEERS));
        tasks.spawn_until_stop(async move {
            loop {
                let (stream, peer) = match self.listener.accept().await {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        debug!(%error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                };
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                    debug!(%peer, "connection rejected: too many peers");
                    continue;
                };
                let talk = talk.clone();
                let work = async move {
                    if let Err(error) = meet(stream, kind, limit, talk).await {
                        part(peer, &error);
                    }
                    drop(place);
                };
                own.spawn_until_stop(work);
            }
        });
    }
}

async fn meet<F>(
    stream: TcpStream,
    kind: Kind,
    limit: usize,
    talk: impl Fn(Reader, Writer) -> F,
) -> Result<(), Error>
where
    F: Future<Output = Result<(), Error>>,
{
    let greeted = timeout(PATIENCE, handshake(stream, kind, limit)).await;
    let (reader, writer) = greeted.map_err(|_| Error::Silent)??;
    talk(reader, writer).await
}

fn part(peer: SocketAddr, error: &Error) {
    debug!(%peer, %error, "a ZeroMQ peer disconnected");
}
