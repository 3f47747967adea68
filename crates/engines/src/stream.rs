//! One answer as it comes over the network. Dropping it closes the connection, which is how an
//! engine learns that nobody wants the rest.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use contract::{ChunkSource, Clock, LinkError, Moment, TokenChunk};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::completion::{Answer, Broken};
use crate::holdings::{Holdings, Work};
use crate::http::whole_story;

/// A line of an event stream that is longer is not one.
const LONGEST_LINE: usize = 16 << 20;

/// Finds the data of events in bytes as they arrive. An event of this API is one line of data.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Takes the next bytes and hands each complete line of data to `data`.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        mut data: impl FnMut(&str) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        self.rest.extend_from_slice(bytes);
        let mut begin = 0;
        while let Some(length) = memchr::memchr(b'\n', &self.rest[begin..]) {
            let line = String::from_utf8_lossy(&self.rest[begin..begin + length]);
            if let Some(value) = line.strip_prefix("data:") {
                data(value.trim())?;
            }
            begin += length + 1;
        }
        self.rest.drain(..begin);
        if self.rest.len() > LONGEST_LINE {
            return Err(Broken("an event that does not end".to_owned()));
        }
        Ok(())
    }
}

pub(crate) struct HttpChunks {
    pub(crate) body: Incoming,
    pub(crate) lines: Lines,
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
                    let answer = &mut self.answer;
                    self.lines.push(bytes, |data| answer.event(data, after))
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
        }
    }
}

impl Drop for HttpChunks {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut events = Vec::new();
        for piece in pieces {
            let mut keep = |data: &str| {
                events.push(data.to_owned());
                Ok(())
            };
            lines.push(piece, &mut keep).unwrap();
        }
        events
    }

    #[test]
    fn lines_of_data_are_found() {
        let text = b": hello\r\n\r\ndata: {\"a\":1}\r\n\r\nevent: x\ndata:[DONE]\n\n";
        assert_eq!(read(&[text]), ["{\"a\":1}", "[DONE]"]);
        assert!(read(&[b"data: unfinished"]).is_empty());
    }

    proptest! {
        #[test]
        fn how_the_bytes_are_cut_does_not_matter(cuts in prop::collection::vec(0_usize..60, 0..6)) {
            let text = "data: {\"t\":\"é字\"}\n\ndata: {\"t\":\"b\"}\n\ndata: [DONE]\n\n".as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut begin = 0;
            for cut in cuts {
                pieces.push(&text[begin..cut]);
                begin = cut;
            }
            pieces.push(&text[begin..]);
            prop_assert_eq!(read(&pieces), read(&[text]));
        }
    }
}
