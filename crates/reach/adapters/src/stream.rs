//! One answer as it arrives over the network. Dropping it closes the connection, which is how an
//! engine learns that the request was cancelled.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use contract::{ChunkSource, Clock, LinkError, Moment, TokenChunk, error_chain};
use http_body::Body as _;
use hyper::body::Incoming;
use openai::event_reader::Parser;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::cache_view::{CacheView, PendingRequest};
use crate::completion::{Answer, StreamError};

pub(crate) struct HttpChunks {
    pub(crate) body: Incoming,
    pub(crate) events: Parser,
    pub(crate) answer: Answer,
    pub(crate) cache: Arc<CacheView>,
    pub(crate) pending: PendingRequest,
    pub(crate) clock: Clock,
    pub(crate) sent: Moment,
    pub(crate) gone: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Why the answer cannot go on; returned after the chunks that came before.
    pub(crate) broken: Option<StreamError>,
    /// A part of the answer has arrived.
    pub(crate) begun: bool,
    /// Its effect on the engine's cache has been recorded.
    pub(crate) settled: bool,
}

impl fmt::Debug for HttpChunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpChunks")
            .field("worker", &self.cache.worker())
            .finish_non_exhaustive()
    }
}

impl HttpChunks {
    fn interrupted(&self, error: &StreamError) -> LinkError {
        LinkError::Interrupted {
            worker: self.cache.worker(),
            detail: error_chain(error),
        }
    }

    /// Reads until a chunk is ready or nothing more can come.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        let frame = match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                ready!(self.gone.as_mut().poll(context));
                return Poll::Ready(Err(StreamError::Gone));
            }
        };
        let after = self.clock.now().since(self.sent);
        Poll::Ready(match frame {
            Some(Ok(frame)) => match frame.data_ref() {
                Some(bytes) => {
                    let (answer, mut taken) = (&mut self.answer, Ok(()));
                    let read = self.events.push(bytes, |data| {
                        if taken.is_ok() {
                            taken = answer.event(data.trim(), after);
                        }
                    });
                    read.map_err(StreamError::from).and(taken)
                }
                None => Ok(()),
            },
            // If the answer had ended before, the broken connection does not matter.
            Some(Err(error)) => self
                .answer
                .done(after)
                .map_err(|_| StreamError::Connection(error)),
            None => self.answer.done(after),
        })
    }

    fn settle(&mut self) {
        if !std::mem::replace(&mut self.settled, true) && self.begun {
            let complete = self.answer.is_over();
            let ended = self.answer.ended();
            self.cache.answered(&self.pending, &ended, complete);
        }
    }
}

impl ChunkSource for HttpChunks {
    fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<TokenChunk, LinkError>>> {
        loop {
            if let Some(chunk) = self.answer.pop() {
                self.begun = true;
                if chunk.finish.is_some() {
                    self.settle();
                }
                return Poll::Ready(Some(Ok(chunk)));
            }
            // Everything that came before the error has been returned by now.
            if let Some(error) = self.broken.take() {
                self.settle();
                return Poll::Ready(Some(Err(self.interrupted(&error))));
            }
            self.broken = ready!(self.poll_read(context)).err();
            // Bytes without a token (an empty delta, a comment) show that the engine is alive.
            if self.broken.is_none() && self.answer.waits() {
                return Poll::Ready(Some(Ok(TokenChunk::keep_alive())));
            }
        }
    }
}

impl Drop for HttpChunks {
    fn drop(&mut self) {
        self.settle();
    }
}
