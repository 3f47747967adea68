//! The channel through which a request's chunks travel.
//!
//! Made for a producer that must never wait (the engine's step loop) and a consumer that
//! may lag (a client's socket). The producer appends under a short lock; the consumer takes
//! everything that has gathered in one go, so a consumer that falls behind catches up at the
//! cost of a single wake-up.
//!
//! There is no capacity: what bounds the buffer is the request's own `max_tokens`. A keep-alive
//! is for a reader that waits: it does not join other chunks, and makes room for the next.
//!
//! Dropping the [`TokenStream`] is how a request is cancelled. The producer sees
//! [`TokenSender::is_closed`] in its next step and frees what the request held. Dropping
//! the sender before a chunk with a finish reason ends the stream with
//! [`LinkError::Interrupted`], so a vanished producer is never mistaken for a short answer.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::generate::{LinkError, TokenChunk};
use crate::worker::WorkerId;

/// A connected pair. `worker` is named in the error if the sender disappears.
pub fn token_stream(worker: WorkerId) -> (TokenSender, TokenStream) {
    let shared = Arc::new(Mutex::new(Shared::default()));
    (
        TokenSender {
            shared: Arc::clone(&shared),
            worker,
            finished: false,
        },
        TokenStream {
            origin: Origin::Channel(shared),
            taken: VecDeque::new(),
            ended: false,
        },
    )
}

/// A producer that is asked rather than one that tells: a connection to a worker on another
/// machine. What nobody asks for stays where it is, so a slow reader holds up its worker's
/// sending and nothing else. Dropping it cancels the request.
pub trait ChunkSource: fmt::Debug + Send + 'static {
    /// The next chunk; `None` after the last. A source that ends without a finish reason
    /// yields an error before.
    fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<TokenChunk, LinkError>>>;
}

/// Where a stream's chunks come from.
#[derive(Debug)]
enum Origin {
    Channel(Arc<Mutex<Shared>>),
    Source(Box<dyn ChunkSource>),
}

#[derive(Debug, Default)]
struct Shared {
    chunks: VecDeque<Result<TokenChunk, LinkError>>,
    /// No more chunks will come.
    sealed: bool,
    /// The reader is gone.
    closed: bool,
    waker: Option<Waker>,
}

/// The engine's end of a token stream.
#[derive(Debug)]
pub struct TokenSender {
    shared: Arc<Mutex<Shared>>,
    worker: WorkerId,
    finished: bool,
}

impl TokenSender {
    /// Hands a chunk to the reader. A chunk with a finish reason is the last.
    pub fn send(&mut self, chunk: TokenChunk) {
        let last = chunk.finish.is_some();
        self.finished |= last;
        self.push(Ok(chunk), last);
    }

    /// Ends the stream with an error.
    pub fn fail(mut self, error: LinkError) {
        self.finished = true;
        self.push(Err(error), true);
    }

    /// Whether the reader has gone: the request is cancelled.
    pub fn is_closed(&self) -> bool {
        self.shared.lock().closed
    }

    fn push(&self, item: Result<TokenChunk, LinkError>, last: bool) {
        let waker = {
            let mut shared = self.shared.lock();
            if shared.closed {
                return;
            }
            if shared.chunks.back().is_some_and(is_keep_alive) {
                shared.chunks.pop_back();
            } else if is_keep_alive(&item) && !shared.chunks.is_empty() {
                return;
            }
            shared.chunks.push_back(item);
            shared.sealed |= last;
            shared.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn is_keep_alive(item: &Result<TokenChunk, LinkError>) -> bool {
    item.as_ref().is_ok_and(TokenChunk::is_keep_alive)
}

impl Drop for TokenSender {
    fn drop(&mut self) {
        if !self.finished {
            let detail = "the worker went away".to_owned();
            self.push(
                Err(LinkError::Interrupted {
                    worker: self.worker,
                    detail,
                }),
                true,
            );
        }
    }
}

/// The reader's end. Dropping it cancels the request.
#[derive(Debug)]
pub struct TokenStream {
    origin: Origin,
    taken: VecDeque<Result<TokenChunk, LinkError>>,
    ended: bool,
}

impl TokenStream {
    /// A stream that asks `source` whenever it is asked itself.
    pub fn from_source(source: impl ChunkSource) -> Self {
        Self {
            origin: Origin::Source(Box::new(source)),
            taken: VecDeque::new(),
            ended: false,
        }
    }

    /// The next chunk; `None` after the last.
    pub async fn next(&mut self) -> Option<Result<TokenChunk, LinkError>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The next chunk if it is already here, without waiting. `None` says nothing about
    /// whether more will come.
    pub fn try_next(&mut self) -> Option<Result<TokenChunk, LinkError>> {
        if self.taken.is_empty() {
            match &mut self.origin {
                Origin::Channel(shared) => {
                    std::mem::swap(&mut shared.lock().chunks, &mut self.taken);
                }
                Origin::Source(source) if !self.ended => {
                    match source.poll_chunk(&mut Context::from_waker(Waker::noop())) {
                        Poll::Ready(Some(item)) => self.taken.push_back(item),
                        Poll::Ready(None) => self.ended = true,
                        Poll::Pending => {}
                    }
                }
                Origin::Source(_) => {}
            }
        }
        self.pop()
    }

    /// [`next`](Self::next) for callers that write their own futures.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<TokenChunk, LinkError>>> {
        if let Some(item) = self.pop() {
            return Poll::Ready(Some(item));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        let shared = match &mut self.origin {
            Origin::Channel(shared) => shared,
            Origin::Source(source) => {
                let polled = source.poll_chunk(context);
                if let Poll::Ready(item) = polled {
                    self.ended = item.is_none();
                    self.taken.extend(item);
                    return Poll::Ready(self.pop());
                }
                return Poll::Pending;
            }
        };
        {
            let mut shared = shared.lock();
            if shared.chunks.is_empty() {
                if shared.sealed {
                    return Poll::Ready(None);
                }
                match &mut shared.waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    waker @ None => *waker = Some(context.waker().clone()),
                }
                return Poll::Pending;
            }
            std::mem::swap(&mut shared.chunks, &mut self.taken);
        }
        Poll::Ready(self.pop())
    }

    fn pop(&mut self) -> Option<Result<TokenChunk, LinkError>> {
        let item = self.taken.pop_front()?;
        self.ended |= match &item {
            Ok(chunk) => chunk.finish.is_some(),
            Err(_) => true,
        };
        Some(item)
    }
}

impl Drop for TokenStream {
    fn drop(&mut self) {
        let Origin::Channel(shared) = &self.origin else {
            return;
        };
        let mut shared = shared.lock();
        shared.closed = true;
        shared.chunks.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Context;

    use smallvec::smallvec;

    use super::*;
    use crate::generate::FinishReason;

    fn chunk(token: u32, finish: Option<FinishReason>) -> TokenChunk {
        TokenChunk {
            tokens: smallvec![token],
            finish,
            ..TokenChunk::default()
        }
    }

    fn poll(stream: &mut TokenStream) -> Poll<Option<Result<TokenChunk, LinkError>>> {
        let mut next = pin!(stream.next());
        next.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn chunks_arrive_in_order_and_the_finish_ends_the_stream() {
        let (mut sender, mut stream) = token_stream(WorkerId(1));
        assert!(poll(&mut stream).is_pending());
        sender.send(chunk(1, None));
        sender.send(chunk(2, Some(FinishReason::Stop)));
        drop(sender);
        assert_eq!(poll(&mut stream), Poll::Ready(Some(Ok(chunk(1, None)))));
        assert_eq!(
            poll(&mut stream),
            Poll::Ready(Some(Ok(chunk(2, Some(FinishReason::Stop)))))
        );
        assert_eq!(poll(&mut stream), Poll::Ready(None));
    }

    #[test]
    fn keep_alives_wake_a_reader_that_waits_and_never_pile_up() {
        let (mut sender, mut stream) = token_stream(WorkerId(1));
        let woken = Arc::new(AtomicUsize::new(0));
        let counter = Waker::from(Arc::new(Counting(Arc::clone(&woken))));
        assert!(
            stream
                .poll_next(&mut Context::from_waker(&counter))
                .is_pending()
        );
        for _ in 0..3 {
            sender.send(TokenChunk::keep_alive());
        }
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        assert_eq!(stream.try_next(), Some(Ok(TokenChunk::keep_alive())));
        assert_eq!(stream.try_next(), None, "one says it all");
        sender.send(TokenChunk::keep_alive());
        sender.send(chunk(1, None));
        sender.send(TokenChunk::keep_alive());
        assert_eq!(stream.try_next(), Some(Ok(chunk(1, None))));
        assert_eq!(stream.try_next(), None);
    }

    struct Counting(Arc<AtomicUsize>);

    impl std::task::Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_vanished_sender_is_an_error_and_not_an_end() {
        let (mut sender, mut stream) = token_stream(WorkerId(3));
        sender.send(chunk(1, None));
        drop(sender);
        assert!(matches!(poll(&mut stream), Poll::Ready(Some(Ok(_)))));
        assert!(matches!(
            poll(&mut stream),
            Poll::Ready(Some(Err(LinkError::Interrupted {
                worker: WorkerId(3),
                ..
            })))
        ));
        assert_eq!(poll(&mut stream), Poll::Ready(None));
    }

    #[test]
    fn dropping_the_stream_closes_the_sender() {
        let (mut sender, stream) = token_stream(WorkerId(1));
        assert!(!sender.is_closed());
        drop(stream);
        assert!(sender.is_closed());
        sender.send(chunk(1, None));
    }

    /// Yields what it was given, then says that it is not done.
    #[derive(Debug)]
    struct Prepared(VecDeque<Option<Result<TokenChunk, LinkError>>>);

    impl ChunkSource for Prepared {
        fn poll_chunk(
            &mut self,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<TokenChunk, LinkError>>> {
            self.0.pop_front().map_or(Poll::Pending, Poll::Ready)
        }
    }

    #[test]
    fn a_source_is_asked_until_its_last_chunk_and_no_more() {
        let last = chunk(2, Some(FinishReason::Stop));
        let items = [Some(Ok(chunk(1, None))), Some(Ok(last.clone()))];
        let mut stream = TokenStream::from_source(Prepared(items.into()));
        assert_eq!(stream.try_next(), Some(Ok(chunk(1, None))));
        assert_eq!(poll(&mut stream), Poll::Ready(Some(Ok(last))));
        assert_eq!(poll(&mut stream), Poll::Ready(None));
        assert_eq!(stream.try_next(), None);
        let mut waiting = TokenStream::from_source(Prepared(VecDeque::new()));
        assert!(poll(&mut waiting).is_pending());
        assert_eq!(waiting.try_next(), None);
    }
}
