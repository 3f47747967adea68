//! A worker's answer as it arrives: frames in, chunks out. Dropping it cancels the request.

use std::task::{Context, Poll, ready};

use contract::{ChunkSource, LinkError, TokenChunk};
use tokio::time::Instant;

use crate::answer::{Answer, Progress};
use crate::incoming::{FrameError, Incoming};
use crate::wire::engine::{LARGEST_OUTPUT, Output};
use crate::wire::{Codec, DecodeError, control, engine};

#[derive(Debug)]
pub(crate) struct AnswerSource {
    incoming: Incoming,
    codec: Codec,
    answer: Answer,
    began: Instant,
    /// The last chunk, until the worker's end marker has arrived. It follows at once, and the
    /// worker counts a connection that is closed before it as a cancellation.
    last: Option<TokenChunk>,
    /// Nothing more is to be read.
    over: bool,
    /// The worker has finished, so there is nothing to cancel.
    finished: bool,
}

enum ResponseFrame {
    Output(Result<engine::Answer<Output>, DecodeError>),
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

    fn poll_response(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<ResponseFrame, FrameError>> {
        let codec = self.codec;
        self.incoming.poll_frame(context, LARGEST_OUTPUT, |frame| {
            if control::is_sentinel(frame.header) {
                ResponseFrame::Sentinel
            } else {
                ResponseFrame::Output(engine::output(frame.body, codec))
            }
        })
    }

    fn take(&mut self, response: Result<ResponseFrame, FrameError>) -> Progress {
        match response {
            Ok(ResponseFrame::Output(Ok(frame))) => {
                let says_so = matches!(&frame, engine::Answer::Data(output)
                    if output.finish_reason.is_some());
                self.finished |= says_so;
                self.answer.take(frame, self.began.elapsed())
            }
            Ok(ResponseFrame::Sentinel) => {
                self.answer.take(engine::Answer::End, self.began.elapsed())
            }
            Ok(ResponseFrame::Output(Err(error))) => Progress::Fail(self.answer.broken(error)),
            Err(error) => Progress::Fail(self.answer.broken(error)),
        }
    }

    /// Waits for the worker's end marker, or for the end of the connection.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let ResponseFrame::Output(_) = match ready!(self.poll_response(context)) {
            Ok(response) => response,
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
                ready!(self.poll_end(context));
                self.over = true;
                return Poll::Ready(self.last.take().map(Ok));
            }
            if self.over {
                return Poll::Ready(None);
            }
            let response = ready!(self.poll_response(context));
            match self.take(response) {
                // Any frame shows that the worker is alive.
                Progress::Wait => return Poll::Ready(Some(Ok(TokenChunk::keep_alive()))),
                Progress::Chunk(chunk) if chunk.finish.is_some() && self.finished => {
                    self.last = Some(chunk);
                }
                // The limits are reached: the worker would go on.
                Progress::Chunk(chunk) => {
                    self.over = chunk.finish.is_some();
                    return Poll::Ready(Some(Ok(chunk)));
                }
                Progress::Fail(error) => {
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
            self.incoming.try_send(&control::kill());
        }
    }
}
