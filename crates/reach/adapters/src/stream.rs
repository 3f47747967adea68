//! One answer as it arrives over the network. Dropping it closes the connection, which is how an
//! engine learns that the request was cancelled.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use contract::{ChunkSource, Clock, LinkError, Moment, TokenChunk, error_chain};
use http_body::Body as _;
use hyper::body::Incoming;
use openai::event_reader::Parser;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::cache_view::{CacheView, PendingRequest};
use crate::completion::{Answer, AnswerSummary, StreamError};
use crate::forward::ForwardedAnswer;
use crate::last_sign::LastSign;

/// What reads an answer's bytes.
pub(crate) enum Reader {
    /// Of token ids.
    Tokens { events: Parser, answer: Box<Answer> },
    /// Passes on what the engine writes.
    Forwarded(Box<ForwardedAnswer>),
}

impl Reader {
    fn push(&mut self, bytes: &[u8], after: Duration) -> Result<(), StreamError> {
        match self {
            Self::Tokens { events, answer } => {
                let mut taken = Ok(());
                let read = events.push(bytes, |data| {
                    if taken.is_ok() {
                        taken = answer.event(data.trim(), after);
                    }
                });
                read.map_err(StreamError::from).and(taken)
            }
            Self::Forwarded(answer) => answer.push(bytes, after),
        }
    }

    fn done(&mut self, after: Duration) -> Result<(), StreamError> {
        match self {
            Self::Tokens { answer, .. } => answer.done(after),
            Self::Forwarded(answer) => answer.done(after),
        }
    }

    /// Whether only the orderly end of the connection says that the answer is complete.
    fn ends_with_connection(&self) -> bool {
        matches!(self, Self::Forwarded(answer) if !answer.is_stream())
    }

    fn pop(&mut self) -> Option<TokenChunk> {
        match self {
            Self::Tokens { answer, .. } => answer.pop(),
            Self::Forwarded(answer) => answer.pop(),
        }
    }

    fn waits(&self) -> bool {
        match self {
            Self::Tokens { answer, .. } => answer.waits(),
            Self::Forwarded(answer) => answer.waits(),
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Self::Tokens { answer, .. } => answer.is_over(),
            Self::Forwarded(answer) => answer.is_over(),
        }
    }

    fn summary(&mut self) -> AnswerSummary {
        match self {
            Self::Tokens { answer, .. } => answer.ended(),
            Self::Forwarded(answer) => answer.summary(),
        }
    }
}

pub(crate) struct HttpChunks {
    pub(crate) body: Incoming,
    pub(crate) reader: Reader,
    pub(crate) cache: Arc<CacheView>,
    pub(crate) pending: PendingRequest,
    pub(crate) clock: Clock,
    pub(crate) last_sign: LastSign,
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
    fn link_error(&self, error: &StreamError) -> LinkError {
        let worker = self.cache.worker();
        let detail = error_chain(error);
        match matches!(error, StreamError::Refused(_)) {
            true => LinkError::Refused { worker, detail },
            false => LinkError::Interrupted { worker, detail },
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
                    self.last_sign.seen();
                    self.reader.push(bytes, after)
                }
                None => Ok(()),
            },
            // If the answer had ended before, the broken connection does not matter.
            Some(Err(error)) if !self.reader.ends_with_connection() => self
                .reader
                .done(after)
                .map_err(|_| StreamError::Connection(error)),
            Some(Err(error)) => Err(StreamError::Connection(error)),
            None => self.reader.done(after),
        })
    }

    fn settle(&mut self) {
        if !std::mem::replace(&mut self.settled, true) && self.begun {
            let complete = self.reader.is_over();
            let ended = self.reader.summary();
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
            if let Some(chunk) = self.reader.pop() {
                self.begun = true;
                if chunk.finish.is_some() {
                    self.settle();
                }
                return Poll::Ready(Some(Ok(chunk)));
            }
            // Everything that came before the error has been returned by now.
            if let Some(error) = self.broken.take() {
                self.settle();
                return Poll::Ready(Some(Err(self.link_error(&error))));
            }
            self.broken = ready!(self.poll_read(context)).err();
            // Bytes without a token (an empty delta, a comment) show that the engine is alive.
            if self.broken.is_none() && self.reader.waits() {
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
