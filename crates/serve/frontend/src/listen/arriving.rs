//! A request's body while it arrives.
//!
//! It is waited for as its [`Allowance`] says. Time that passes because nobody asks for the next
//! piece is not the client's.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::pulse::Pulse;
use crate::allowance::Allowance;

/// Why a body did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the request body arrived too slowly")]
    TooSlow,
    #[error("the server is shutting down")]
    Stopping,
}

/// Whether a body was read to its end.
#[derive(Clone, Debug, Default)]
pub(super) struct Ended(Arc<AtomicBool>);

impl Ended {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A body with a limit to the waiting for it.
pub(super) struct Arriving<B> {
    body: B,
    pulse: Arc<Pulse>,
    ended: Ended,
    allowance: Allowance,
    wait: Option<Wait>,
}

/// Runs while the next piece has not come.
struct Wait {
    began: Instant,
    over: Pin<Box<Sleep>>,
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<B> Arriving<B> {
    pub(super) fn new(body: B, pulse: Arc<Pulse>, ended: Ended) -> Self {
        Self {
            allowance: Allowance::new(pulse.timeouts.read),
            body,
            pulse,
            ended,
            wait: None,
        }
    }

    fn came(&mut self, bytes: usize) {
        if let Some(wait) = self.wait.take() {
            self.allowance.waited(wait.began.elapsed());
        }
        self.allowance.came(bytes);
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Arriving<B>
where
    B::Error: Into<axum::BoxError>,
{
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(frame) => {
                match &frame {
                    Some(Ok(frame)) => this.came(frame.data_ref().map_or(0, Bytes::len)),
                    None => this.ended.0.store(true, Ordering::Release),
                    Some(Err(_)) => {}
                }
                if this.body.is_end_stream() {
                    this.ended.0.store(true, Ordering::Release);
                }
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => {
                let (allowance, pulse) = (this.allowance.left(), &this.pulse);
                let wait = this.wait.get_or_insert_with(|| Wait {
                    began: Instant::now(),
                    over: Box::pin(sleep(allowance)),
                    stopping: Box::pin(pulse.drain.clone().cancelled_owned()),
                });
                if wait.stopping.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Some(Err(BodyError::Stopping.into())));
                }
                let over = wait.over.as_mut().poll(context);
                over.map(|()| Some(Err(BodyError::TooSlow.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
