//! The socket of one connection.
//!
//! Tells the [`Pulse`] of every byte, holds the connection's [`ConnectionSlot`] (which a WebSocket keeps
//! after its upgrade), and closes in two steps where the client may still be sending: first
//! our half, so that the client sees the end of the answer, then the rest once the client is
//! done too. A socket closed with unread bytes is reset by the kernel, and a reset makes the
//! client's kernel forget the answer it has not read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::crowd::ConnectionSlot;
use super::pulse::Pulse;

/// How long a client may go on sending after its answer, and how much: several times the
/// default largest body. While the server stops nobody is waited for that long.
const LINGER: Duration = Duration::from_secs(5);
const LINGER_WHEN_STOPPING: Duration = Duration::from_millis(500);
const LINGER_BYTES: usize = 64 << 20;

pub(super) struct Wire<T> {
    io: T,
    pulse: Arc<Pulse>,
    linger: Option<Linger>,
    _place: ConnectionSlot,
}

/// What is still put up with after our half was closed.
struct Linger {
    until: Pin<Box<Sleep>>,
    bytes: usize,
}

impl<T> Wire<T> {
    pub(super) fn new(io: T, pulse: Arc<Pulse>, place: ConnectionSlot) -> Self {
        Self {
            io,
            pulse,
            linger: None,
            _place: place,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Wire<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        let bytes = &buffer.filled()[before..];
        if !bytes.is_empty() {
            self.pulse.read(bytes);
        }
        read
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.linger.is_none() {
            ready!(Pin::new(&mut this.io).poll_shutdown(context))?;
            if !this.pulse.left_unread() {
                return Poll::Ready(Ok(()));
            }
        }
        let stopping = this.pulse.drain.is_cancelled();
        let linger = this.linger.get_or_insert_with(|| Linger {
            until: Box::pin(tokio::time::sleep(match stopping {
                true => LINGER_WHEN_STOPPING,
                false => LINGER,
            })),
            bytes: LINGER_BYTES,
        });
        let mut scratch = [0; 16 << 10];
        while linger.bytes > 0 && linger.until.as_mut().poll(context).is_pending() {
            let mut dropped = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut this.io).poll_read(context, &mut dropped)) {
                Ok(()) if !dropped.filled().is_empty() => {
                    linger.bytes = linger.bytes.saturating_sub(dropped.filled().len());
                }
                // The client is done, or gone.
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}
