//! What lies between a worker's answer and the client that reads it: one bounded buffer.
//!
//! The driver ([`crate::drive`]) puts chunks in as fast as the worker sends them; the task that
//! writes to the client takes them out as fast as the client reads. Neither waits for the
//! other, so a slow client affects nobody else: the worker's slot is given back when the worker
//! is done.
//!
//! # Guarantees
//!
//! - **Bounded in memory** by the request's `max_tokens`, at a few bytes per token, or at the
//!   length of an event where the engine writes the answer: what a client leaves unread is
//!   joined into fewer chunks.
//! - **Bounded in time**: a chunk that nobody takes for longer than the client may lag ends
//!   the answer, over HTTP/1.1 and HTTP/2 alike, whatever the client does with its windows.
//! - Dropping the [`Reply`] ends its driver and so cancels the request.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use contract::{LinkError, RequestSpeculation, Started, TokenChunk, WorkerId};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::dispatch::DispatchError;
use crate::metrics::TokenTimes;

/// Unread chunks that are kept apart. A client that keeps up has one or two; beyond this
/// many, newer chunks are joined to the last.
const APART: usize = 64;

/// Why an answer did not come, or not to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplyError {
    /// No worker began the answer.
    #[error(transparent)]
    Dispatch(#[from] DispatchError),
    /// A worker began the answer, and none could complete it.
    #[error(transparent)]
    BrokeOff(LinkError),
    #[error("the client did not read for {0:?}")]
    NotRead(Duration),
}

/// The worker that answers, and why it was chosen.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    /// The first worker, should the answer move.
    pub(crate) worker: WorkerId,
    /// If the request asked for it.
    pub(crate) routing: Option<openai::Routing>,
}

#[derive(Debug, Default)]
struct Shared {
    begun: Option<Begun>,
    /// Each with the time at which it, or the first that was joined to it, came.
    unread: VecDeque<(Instant, TokenChunk)>,
    times: TokenTimes,
    /// Nothing more will come, but for an error that has not been taken.
    ended: bool,
    error: Option<ReplyError>,
    reader: Option<Waker>,
    /// Waits until everything has been read.
    driver: Option<Waker>,
}

/// The driver's end of the buffer.
#[derive(Debug)]
pub(crate) struct ReplySender {
    shared: Arc<Mutex<Shared>>,
    lag: Duration,
}

impl ReplySender {
    /// Says who answers. Comes before the first chunk.
    pub(crate) fn begin(&self, begun: Begun) {
        let waker = {
            let mut shared = self.shared.lock();
            shared.begun = Some(begun);
            shared.reader.take()
        };
        wake(waker);
    }

    /// Hands a chunk over. An error if the client is too far behind.
    pub(crate) fn put(&self, chunk: TokenChunk, times: TokenTimes) -> Result<(), ReplyError> {
        let now = Instant::now();
        let waker = {
            let shared = &mut *self.shared.lock();
            if let Some((since, _)) = shared.unread.front()
                && now - *since > self.lag
            {
                return Err(ReplyError::NotRead(self.lag));
            }
            shared.times = times;
            shared.ended |= chunk.finish.is_some();
            let full = shared.unread.len() >= APART;
            match shared.unread.back_mut() {
                Some((_, last)) if full => join(last, chunk),
                Some(_) | None => shared.unread.push_back((now, chunk)),
            }
            shared.reader.take()
        };
        wake(waker);
        Ok(())
    }

    /// Ends the answer with an error. A client that did not read finds nothing but that.
    pub(crate) fn fail(&self, error: ReplyError) {
        let waker = {
            let mut shared = self.shared.lock();
            if matches!(error, ReplyError::NotRead(_)) {
                shared.unread = VecDeque::new();
            }
            shared.ended = true;
            shared.error = Some(error);
            shared.reader.take()
        };
        wake(waker);
    }

    /// Waits until the client has taken everything. An error if that takes too long.
    pub(crate) async fn read_to_the_end(&self) -> Result<(), ReplyError> {
        loop {
            let Some(oldest) = self.oldest_unread() else {
                return Ok(());
            };
            let taken = tokio::time::timeout_at(oldest + self.lag, self.taken()).await;
            if taken.is_err() && self.oldest_unread() == Some(oldest) {
                return Err(ReplyError::NotRead(self.lag));
            }
        }
    }

    fn oldest_unread(&self) -> Option<Instant> {
        self.shared.lock().unread.front().map(|(since, _)| *since)
    }

    /// Waits until nothing is left unread.
    async fn taken(&self) {
        poll_fn(|context| {
            let mut shared = self.shared.lock();
            if shared.unread.is_empty() {
                return Poll::Ready(());
            }
            shared.driver = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Appends what a later chunk says.
fn join(chunk: &mut TokenChunk, later: TokenChunk) {
    let TokenChunk {
        tokens,
        logprobs,
        started,
        finish,
        speculation,
        written,
    } = later;
    chunk.tokens.extend(tokens);
    chunk.logprobs.extend(logprobs);
    chunk.started = started.or(chunk.started.take());
    chunk.finish = finish;
    chunk.speculation = speculation.or(chunk.speculation);
    chunk.written = match (chunk.written.take(), written) {
        (Some(mut before), Some(after)) => {
            before.bytes.extend_from_slice(&after.bytes);
            before.tokens += after.tokens;
            Some(before)
        }
        (before, after) => before.or(after),
    };
}

/// The client's end of an answer, and what is known of it so far. Dropping it cancels the
/// request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) prompt_tokens: u32,
    /// Of what has been taken, like all that follows.
    pub(crate) output_tokens: u32,
    /// Cached prompt tokens, as the engine reports them.
    pub(crate) cached_tokens: u32,
    /// Sum over all its workers; each reports at its end.
    pub(crate) speculation: RequestSpeculation,
    pub(crate) started: Option<Started>,
    shared: Arc<Mutex<Shared>>,
    _driver: AbortOnDropHandle<()>,
}

impl Reply {
    /// An answer that `drive` brings, on `tasks` from now on, whether anyone reads or not.
    pub(crate) fn driven<F>(
        tasks: &TaskTracker,
        prompt_tokens: u32,
        lag: Duration,
        drive: impl FnOnce(ReplySender) -> F,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let sender = ReplySender {
            shared: Arc::clone(&shared),
            lag,
        };
        Self {
            prompt_tokens,
            output_tokens: 0,
            cached_tokens: 0,
            speculation: RequestSpeculation::default(),
            started: None,
            shared,
            _driver: AbortOnDropHandle::new(tasks.spawn(drive(sender))),
        }
    }

    /// When its tokens came.
    pub(crate) fn times(&self) -> TokenTimes {
        self.shared.lock().times
    }

    /// Waits until a worker has begun to answer, and returns which; or fails if none will.
    pub(crate) fn poll_begun(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Begun, ReplyError>> {
        let mut shared = self.shared.lock();
        if let Some(begun) = shared.begun.take() {
            return Poll::Ready(Ok(begun));
        }
        if let Some(error) = shared.error.take() {
            return Poll::Ready(Err(error));
        }
        wait(&mut shared.reader, context);
        Poll::Pending
    }

    /// The next chunk; `None` after the last.
    pub(crate) fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<TokenChunk, ReplyError>>> {
        let (chunk, driver) = {
            let mut shared = self.shared.lock();
            let Some((_, chunk)) = shared.unread.pop_front() else {
                if let Some(error) = shared.error.take() {
                    return Poll::Ready(Some(Err(error)));
                }
                if shared.ended {
                    return Poll::Ready(None);
                }
                wait(&mut shared.reader, context);
                return Poll::Pending;
            };
            let all_read = shared.unread.is_empty();
            (chunk, shared.driver.take_if(|_| all_read))
        };
        wake(driver);
        self.record_chunk(&chunk);
        Poll::Ready(Some(Ok(chunk)))
    }

    fn record_chunk(&mut self, chunk: &TokenChunk) {
        self.output_tokens += chunk.count();
        self.speculation.add(chunk.speculation.unwrap_or_default());
        if let Some(started) = chunk.started.as_deref() {
            self.cached_tokens = started.cached_tokens;
            self.started.get_or_insert(*started);
        }
    }
}

fn wait(waker: &mut Option<Waker>, context: &Context<'_>) {
    match waker {
        Some(waker) => waker.clone_from(context.waker()),
        None => *waker = Some(context.waker().clone()),
    }
}

#[cfg(test)]
mod tests;
