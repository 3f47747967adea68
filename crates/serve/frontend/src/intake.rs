//! Bounds what a request costs before it is parsed: its body, and the work on it.
//!
//! Bodies are as large as clients want, up to a limit, so the bytes of all large ones together
//! have a limit too: memory is bounded however many arrive at once. Bytes count when they
//! arrive, not when they are announced, so that an announcement blocks nothing. Small bodies
//! are bounded by the number of requests alone.
//!
//! Parsing and tokenising a large body takes milliseconds, which other streams would notice,
//! so it is done on threads of its own, and on few of them at once. Whatever the work on a
//! request does, it ends in an answer: a panic in it, ours or a library's, is caught here.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tracing::error;

use crate::admission::Refusal;
use crate::error::ApiError;
use crate::listen::BodyError;

/// Bodies above this size take milliseconds to parse and to tokenise.
const LARGE_BODY: usize = 256 << 10;
/// In which bytes are counted, so that their number fits a semaphore.
const UNIT: usize = 1 << 10;
/// How long a body may wait in all for others to be done with.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reads bodies and works on them, within limits.
#[derive(Debug)]
pub(crate) struct Intake {
    max_body_bytes: usize,
    /// Units that large bodies may still take.
    room: Arc<Semaphore>,
    /// Large bodies that may still be worked on.
    hands: Semaphore,
}

/// A body, and its claim on memory.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) bytes: Bytes,
    pub(crate) claim: Claim,
}

/// A body as it arrives.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    bytes: BytesMut,
    claim: Claim,
    announced: usize,
}

impl Arriving {
    pub(crate) fn taken(self) -> Taken {
        Taken {
            bytes: self.bytes.freeze(),
            claim: self.claim,
        }
    }
}

/// Memory that a request takes until it is prepared; given back on drop.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    bytes: usize,
    room: Option<OwnedSemaphorePermit>,
    /// How long the request waited for room.
    waited: Duration,
}

impl Intake {
    /// Reads bodies of up to `max_body_bytes`, large ones of up to `max_buffered_bytes` together.
    pub(crate) fn new(max_body_bytes: usize, max_buffered_bytes: usize) -> Self {
        let units = max_buffered_bytes.max(max_body_bytes).div_ceil(UNIT);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            max_body_bytes,
            // A unit in addition: the last one of a body is seldom full.
            room: Arc::new(Semaphore::new((units + 1).min(Semaphore::MAX_PERMITS))),
            hands: Semaphore::new((processors / 2).max(1)),
        }
    }

    pub(crate) fn max_body_bytes(&self) -> usize {
        self.max_body_bytes
    }

    /// Reads a body to its end.
    pub(crate) async fn read(&self, body: Body) -> Result<Taken, ApiError> {
        let announced = body.size_hint().exact();
        let announced = announced.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let mut arriving = self.begin(announced)?;
        let mut body = pin!(body);
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(|error| unreadable(&error))?.into_data() {
                self.add(&mut arriving, &data).await?;
            }
        }
        Ok(arriving.taken())
    }

    /// Begins to take in a body, of so many bytes if that is known.
    pub(crate) fn begin(&self, announced: Option<usize>) -> Result<Arriving, ApiError> {
        let announced = announced.unwrap_or(0);
        if announced > self.max_body_bytes {
            return Err(ApiError::too_large(self.max_body_bytes));
        }
        Ok(Arriving {
            announced,
            ..Arriving::default()
        })
    }

    /// Takes in some more of a body.
    pub(crate) async fn add(&self, body: &mut Arriving, data: &[u8]) -> Result<(), ApiError> {
        let Arriving {
            bytes,
            claim,
            announced,
        } = body;
        claim.bytes += data.len();
        if claim.bytes > self.max_body_bytes {
            return Err(ApiError::too_large(self.max_body_bytes));
        }
        if claim.bytes > LARGE_BODY {
            self.extend(claim).await?;
            // All that is still to come, now that it has begun to.
            bytes.reserve(announced.saturating_sub(bytes.len()));
        }
        bytes.extend_from_slice(data);
        Ok(())
    }

    /// Claims room for all bytes of a body. Bodies that hold some and wait for more could wait
    /// for each other, so nobody waits for long.
    async fn extend(&self, claim: &mut Claim) -> Result<(), ApiError> {
        let held = claim.room.as_ref().map_or(0, |room| room.num_permits());
        let wanted = claim.bytes.div_ceil(UNIT).saturating_sub(held);
        let wanted = u32::try_from(wanted).map_err(|_| Refusal::NoMemory)?;
        let more = Arc::clone(&self.room).acquire_many_owned(wanted);
        let began = Instant::now();
        let Ok(Ok(more)) = timeout(PATIENCE.saturating_sub(claim.waited), more).await else {
            return Err(Refusal::NoMemory.into());
        };
        claim.waited += began.elapsed();
        match &mut claim.room {
            Some(room) => room.merge(more),
            None => claim.room = Some(more),
        }
        Ok(())
    }

    /// Does some work on a request: here, or elsewhere if its body was large.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        claim: &Claim,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let done = if claim.bytes > LARGE_BODY {
            let _hand = self.hands.acquire().await;
            let done = tokio::task::spawn_blocking(work).await;
            done.map_err(|error| error.to_string())
        } else {
            catch_unwind(AssertUnwindSafe(work)).map_err(|_| "panicked".to_owned())
        };
        done.map_err(|error| {
            error!(error, "processing a request failed");
            ApiError::internal()
        })
    }
}

/// Why a body could not be read to its end.
fn unreadable(error: &axum::Error) -> ApiError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref() {
            Some(BodyError::TooSlow) => return ApiError::too_slow(),
            Some(BodyError::Stopping) => return Refusal::Draining.into(),
            None => cause = error.source(),
        }
    }
    ApiError::hung_up(error)
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http::StatusCode;

    use super::*;
    use crate::metrics::ErrorType;

    const LIMIT: usize = 1 << 20;

    fn body(pieces: usize, piece: usize) -> Body {
        let piece = Bytes::from(vec![b' '; piece]);
        let pieces = (0..pieces).map(move |_| Ok::<_, axum::Error>(piece.clone()));
        Body::from_stream(stream::iter(pieces))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_too_large_is_refused_announced_or_not() {
        let intake = Intake::new(LIMIT, LIMIT);
        for (body, expected) in [
            (Body::from(vec![0; LIMIT]), Ok(LIMIT)),
            (
                Body::from(vec![0; LIMIT + 1]),
                Err(StatusCode::PAYLOAD_TOO_LARGE),
            ),
            (body(16, 1 << 16), Ok(LIMIT)),
            (body(17, 1 << 16), Err(StatusCode::PAYLOAD_TOO_LARGE)),
        ] {
            let read = intake.read(body).await;
            let read = read.map(|taken| taken.bytes.len());
            assert_eq!(read.map_err(|error| error.status()), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_share_a_limit_and_give_it_back() {
        let intake = Intake::new(LIMIT, 2 * LIMIT);
        let first = intake.read(body(16, 1 << 16)).await.unwrap();
        let second = intake.read(body(16, 1 << 16)).await.unwrap();
        let refused = intake.read(body(16, 1 << 16)).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        // Small ones still come through.
        let small = intake.read(body(1, LARGE_BODY)).await.unwrap();
        drop((first, small));
        let third = intake.read(body(16, 1 << 16)).await.unwrap();
        drop((second, third));
        assert_eq!(intake.room.available_permits(), 2 * LIMIT / UNIT + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_wait_for_each_other_do_not_wait_for_ever() {
        let intake = Intake::new(LIMIT, LIMIT);
        let reads = (0..4).map(|_| async {
            let pieces = (0..16).map(|_| Ok::<_, axum::Error>(Bytes::from(vec![0; 1 << 16])));
            let slowly = futures_util::StreamExt::then(stream::iter(pieces), async |piece| {
                tokio::time::sleep(Duration::from_millis(10)).await;
                piece
            });
            intake.read(Body::from_stream(slowly)).await
        });
        let read = futures_util::future::join_all(reads).await;
        assert!(read.iter().any(Result::is_ok));
        assert!(read.iter().any(Result::is_err));
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_an_error_of_ours_and_nobody_is_cut_off() {
        let intake = Intake::new(LIMIT, LIMIT);
        for bytes in [1, LARGE_BODY + 1] {
            let claim = Claim {
                bytes,
                ..Claim::default()
            };
            let failed = intake.work(&claim, || -> () { panic!("as a library does") });
            let error = failed.await.unwrap_err();
            assert_eq!(error.status(), StatusCode::INTERNAL_SERVER_ERROR);
            assert_eq!(error.error_type(), ErrorType::Internal);
            assert_eq!(intake.work(&claim, || 5).await.unwrap(), 5);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_hangs_up_in_the_middle_is_counted_as_gone() {
        let intake = Intake::new(LIMIT, LIMIT);
        for (error, status, counted) in [
            (
                axum::Error::new(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)),
                StatusCode::BAD_REQUEST,
                ErrorType::Cancelled,
            ),
            (
                axum::Error::new(BodyError::TooSlow),
                StatusCode::REQUEST_TIMEOUT,
                ErrorType::Validation,
            ),
            (
                axum::Error::new(BodyError::Stopping),
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorType::Unavailable,
            ),
        ] {
            let pieces = [Ok(Bytes::from_static(b"{")), Err(error)];
            let refused = intake.read(Body::from_stream(stream::iter(pieces))).await;
            let refused = refused.unwrap_err();
            assert_eq!((refused.status(), refused.error_type()), (status, counted));
        }
    }
}
