//! A worker's answer as it is read: frames in, chunks out. Dropping it cancels the request.

use std::task::{Context, Poll, ready};

use contract::{ChunkSource, LinkError, TokenChunk};
use tokio::time::Instant;

use crate::answer::{Answer, Turn};
use crate::incoming::Incoming;
use crate::wire::engine::LARGEST_OUTPUT;
use crate::wire::{Codec, control, engine};

#[derive(Debug)]
pub(crate) struct AnswerSource {
    incoming: Incoming,
    codec: Codec,
    answer: Answer,
    began: Instant,
    /// The worker has said its last word, or has been lost.
    over: bool,
}

impl AnswerSource {
    pub(crate) fn new(incoming: Incoming, codec: Codec, answer: Answer, began: Instant) -> Self {
        Self {
            incoming,
            codec,
            answer,
            began,
            over: false,
        }
    }

    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Turn> {
        let codec = self.codec;
        let frame = self.incoming.poll_frame(context, LARGEST_OUTPUT, |frame| {
            if control::is_sentinel(frame.header) {
                return Ok(engine::Answer::End);
            }
            engine::output(frame.body, codec)
        });
        Poll::Ready(match ready!(frame) {
            Ok(Ok(frame)) => self.answer.take(frame, self.began.elapsed()),
            Ok(Err(error)) => Turn::Fail(self.answer.broken(error)),
            Err(error) => Turn::Fail(self.answer.broken(error)),
        })
    }
}

impl ChunkSource for AnswerSource {
    fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<TokenChunk, LinkError>>> {
        if self.over {
            return Poll::Ready(None);
        }
        loop {
            match ready!(self.poll_turn(context)) {
                Turn::Wait => {}
                Turn::Chunk(chunk) => {
                    // Not over yet if we found the end ourselves: the worker may go on.
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
        if !self.over {
            self.incoming.say(&control::kill());
        }
    }
}
