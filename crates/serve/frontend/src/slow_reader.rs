//! Cuts off clients that do not read.
//!
//! A client that stops reading fills its socket, and then its answer waits here, with a place
//! in the router and memory, for as long as the client pleases. So a write that makes no
//! progress for too long is an error, the connection ends, and everything it held goes with
//! it. Other connections never notice.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A connection that ends when its client does not read.
pub(crate) struct ImpatientIo<T> {
    io: T,
    patience: Duration,
    /// Runs while a write waits for the client.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<T> ImpatientIo<T> {
    pub(crate) fn new(io: T, patience: Duration) -> Self {
        Self {
            io,
            patience,
            waiting: None,
        }
    }

    /// Passes an outcome on, unless it has been pending for too long.
    fn limit<R>(
        &mut self,
        outcome: Poll<io::Result<R>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<R>> {
        if outcome.is_ready() {
            self.waiting = None;
            return outcome;
        }
        let patience = self.patience;
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        waiting.as_mut().poll(context).map(|()| {
            let reason = "the client does not read";
            Err(io::Error::new(io::ErrorKind::TimedOut, reason))
        })
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for ImpatientIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ImpatientIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.limit(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, parts);
        self.limit(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(context);
        self.limit(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn pair() -> (
        ImpatientIo<tokio::io::DuplexStream>,
        tokio::io::DuplexStream,
    ) {
        let (io, client) = tokio::io::duplex(8);
        let patience = Duration::from_secs(30);
        (ImpatientIo::new(io, patience), client)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_cut_off() {
        let (mut io, _client) = pair();
        let error = io.write_all(&[0; 9]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_is_not() {
        let (mut io, mut client) = pair();
        let write = io.write_all(&[7; 80]);
        let read = async {
            let mut bytes = [0; 8];
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(29)).await;
                client.read_exact(&mut bytes).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(write, read);
        written.unwrap();
    }
}
