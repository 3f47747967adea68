//! A connection on which a worker sends frames.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::net::TcpStream;
use tokio_util::io::poll_read_buf;

use crate::wire::{DecodeError, two_part};

/// How much is read at once. What a frame claims to be long is not reserved beforehand.
const READ: usize = 16 << 10;

/// Why no frame came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("the connection broke: {0}")]
    Lost(#[from] io::Error),
    #[error("the worker closed the connection")]
    Closed,
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

#[derive(Debug)]
pub(crate) struct Incoming {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Incoming {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
        }
    }

    /// Waits for a frame of at most `limit` bytes and reads it.
    pub(crate) fn poll_frame<T>(
        &mut self,
        context: &mut Context<'_>,
        limit: usize,
        read: impl FnOnce(two_part::Frame<'_>) -> T,
    ) -> Poll<Result<T, FrameError>> {
        loop {
            if let Some((frame, length)) = two_part::decode(&self.buffer, limit)? {
                let value = read(frame);
                self.buffer.advance(length);
                return Poll::Ready(Ok(value));
            }
            if ready!(self.poll_fill(context))? == 0 {
                return Poll::Ready(Err(FrameError::Closed));
            }
        }
    }

    /// [`poll_frame`](Self::poll_frame) for callers that wait. Loses nothing when dropped.
    pub(crate) async fn frame<T>(
        &mut self,
        limit: usize,
        read: impl Fn(two_part::Frame<'_>) -> T,
    ) -> Result<T, FrameError> {
        std::future::poll_fn(|context| self.poll_frame(context, limit, &read)).await
    }

    /// Sends what can be written without waiting; enough for the short frame that cancels.
    pub(crate) fn try_send(&self, bytes: &[u8]) {
        // If it cannot be written, closing the connection has the same effect.
        let _ = self.stream.try_write(bytes);
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.buffer.reserve(READ);
        poll_read_buf(Pin::new(&mut self.stream), context, &mut self.buffer)
    }
}
