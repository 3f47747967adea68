//! A worker's answer as it is read: frames in, chunks out. Dropping it cancels the request.

use std::task::{Context, Poll, ready};

use contract::{ChunkSource, LinkError, TokenChunk};
use tokio::time::Instant;

use crate::answer::{Answer, Turn};
use crate::incoming::{FrameError, Incoming};
use crate::wire::engine::{LARGEST_OUTPUT, Output};
use crate::wire::{Codec, DecodeError, control, engine};

#[derive(Debug)]
pub(crate) struct AnswerSource {
    incoming: Incoming,
    codec: Codec,
    answer: Answer,
    began: Instant,
    /// The last chunk, while the worker takes its leave: it comes right behind, and a
    /// connection that is closed before counts as a cancellation there.
    last: Option<TokenChunk>,
    /// Nothing more is to be read.
    over: bool,
    /// The worker has finished, so there is nothing to cancel.
    finished: bool,
}

enum Heard {
    Frame(Result<engine::Answer<Output>, DecodeError>),
    Sentinel,
}

impl AnswerSource {
    pub(crate) fn new(incoming: Incoming, codec: Codec, answer: Answer, began: Instant) -> Self {
        Self {
            incoming,
            codec,
            answer,
            began,
            last: None,
            over: false,
            finished: false,
        }
    }

    fn poll_heard(&mut self, context: &mut Context<'_>) -> Poll<Result<Heard, FrameError>> {
        let codec = self.codec;
        self.incoming.poll_frame(context, LARGEST_OUTPUT, |frame| {
            if control::is_sentinel(frame.header) {
                Heard::Sentinel
            } else {
                Heard::Frame(engine::output(frame.body, codec))
            }
        })
    }

    fn take(&mut self, heard: Result<Heard, FrameError>) -> Turn {
        match heard {
            Ok(Heard::Frame(Ok(frame))) => {
                let says_so = matches!(&frame, engine::Answer::Data(output)
                    if output.finish_reason.is_some());
                self.finished |= says_so;
                self.answer.take(frame, self.began.elapsed())
            }
            Ok(Heard::Sentinel) => self.answer.take(engine::Answer::End, self.began.elapsed()),
            Ok(Heard::Frame(Err(error))) => Turn::Fail(self.answer.broken(error)),
            Err(error) => Turn::Fail(self.answer.broken(error)),
        }
    }

    /// Waits until the worker has taken its leave, or has gone without.
    fn poll_farewell(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Heard::Frame(_) = match ready!(self.poll_heard(context)) {
            Ok(heard) => heard,
            Err(_) => return Poll::Ready(()),
        } {}
        Poll::Ready(())
    }
}

impl ChunkSource for AnswerSource {
    fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<TokenChunk, LinkError>>> {
        loop {
            if self.last.is_some() {
                ready!(self.poll_farewell(context));
                self.over = true;
                return Poll::Ready(self.last.take().map(Ok));
            }
            if self.over {
                return Poll::Ready(None);
            }
            let heard = ready!(self.poll_heard(context));
            match self.take(heard) {
                // Whatever it sent, it is alive.
                Turn::Wait => return Poll::Ready(Some(Ok(TokenChunk::keep_alive()))),
                Turn::Chunk(chunk) if chunk.finish.is_some() && self.finished => {
                    self.last = Some(chunk);
                }
                // An end that we found ourselves: the worker would go on.
                Turn::Chunk(chunk) => {
                    self.over = chunk.finish.is_some();
                    return Poll::Ready(Some(Ok(chunk)));
                }
                Turn::Fail(error) => {
                    self.over = true;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

impl Drop for AnswerSource {
    fn drop(&mut self) {
        if !self.finished {
            self.incoming.say(&control::kill());
        }
    }
}
