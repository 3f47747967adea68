//! One answer as it comes over the network. Dropping it closes the connection, which is how an
//! engine learns that nobody wants the rest.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use contract::{ChunkSource, Clock, LinkError, Moment, TokenChunk, whole_story};
use http_body::Body as _;
use hyper::body::Incoming;
use openai::event_reader::Parser;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::completion::{Answer, Broken};
use crate::holdings::{Holdings, Work};

pub(crate) struct HttpChunks {
    pub(crate) body: Incoming,
    pub(crate) events: Parser,
    pub(crate) answer: Answer,
    pub(crate) holdings: Arc<Holdings>,
    pub(crate) work: Work,
    pub(crate) clock: Clock,
    pub(crate) sent: Moment,
    pub(crate) gone: Pin<Box<WaitForCancellationFutureOwned>>,
    /// It cannot go on.
    pub(crate) broken: Option<Broken>,
    /// Something of the answer has come.
    pub(crate) begun: bool,
    /// What it did to the engine's cache has been noted.
    pub(crate) settled: bool,
}

impl fmt::Debug for HttpChunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpChunks")
            .field("worker", &self.holdings.worker())
            .finish_non_exhaustive()
    }
}

impl HttpChunks {
    fn interrupted(&self, detail: String) -> LinkError {
        LinkError::Interrupted {
            worker: self.holdings.worker(),
            detail,
        }
    }

    /// Reads until a chunk is ready or nothing more can come.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        let frame = match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                ready!(self.gone.as_mut().poll(context));
                return Poll::Ready(Err(Broken("the engine is gone".to_owned())));
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
                    read.map_err(|error| Broken(error.to_string())).and(taken)
                }
                None => Ok(()),
            },
            // Whoever has said that the answer is over owes nothing more.
            Some(Err(error)) => {
                let story = whole_story(&error);
                self.answer.done(after).map_err(|_| Broken(story))
            }
            None => self.answer.done(after),
        })
    }

    fn settle(&mut self) {
        if !std::mem::replace(&mut self.settled, true) && self.begun {
            let complete = self.answer.is_over();
            let ended = self.answer.ended();
            self.holdings.answered(&self.work, &ended, complete);
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
            // What came before the break has been handed out by now.
            if let Some(Broken(detail)) = self.broken.take() {
                self.settle();
                return Poll::Ready(Some(Err(self.interrupted(detail))));
            }
            self.broken = ready!(self.poll_read(context)).err();
            // Bytes without a token (an empty delta, a comment) say that it is alive.
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
