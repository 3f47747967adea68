//! The task that reads a worker's answer for a client.
//!
//! Each prompt of a request has one. It takes the request to a worker, reads the worker as
//! fast as it sends, keeps the router's books by what the worker does, moves on to another
//! worker if that one fails, and leaves what it read in the [`Reply`]'s buffer.
//!
//! ```text
//! journey: place → first chunk ──► read … ──► finish: slot given back ──► until it is read
//!             ▲                      │
//!             └── another worker ◄── broke off
//! ```
//!
//! # Guarantees
//!
//! - **A slot is held for the worker's time, not the client's.** The placement is dropped when
//!   the worker has said its last, before the client can know.
//! - **The router learns how fast workers are**, by when chunks arrive here, and nothing about
//!   how fast clients read.
//! - **Prompts of one request do not wait for each other to be read.** One that finds no room
//!   waits until a sibling has ended, and so a request of any size is answered, in waves.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use contract::{LinkError, TokenChunk, TokenId, WorkerId};
use router::RouteError;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep};
use tracing::debug;

use crate::admission::Permit;
use crate::books::Books;
use crate::dispatch::{Dispatch, DispatchError, Urgency};
use crate::journey::{Errand, Journey, Leg};
use crate::keys::KeyPermit;
use crate::metrics::{ErrorType, Migration, RequestRecord};
use crate::reply::{Begun, Reply, ReplyError, ReplySender};
use crate::{routing, traced};

/// What all prompts of one request share.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) record: Arc<RequestRecord>,
    /// Whether the answer is to say why its worker was chosen.
    pub(crate) explain: bool,
    pub(crate) siblings: Siblings,
    /// Of the whole request: it is inside until its last prompt's answer has been read.
    pub(crate) _permits: Permits,
}

/// A place inside, and one among the requests of its key.
pub(crate) type Permits = (Permit, Option<KeyPermit>);

/// One prompt on its way.
#[derive(Debug)]
pub(crate) struct Drive {
    /// Dropped first: what they write at the end is written before the request counts as gone.
    books: Books,
    dispatch: Arc<Dispatch>,
    journey: Journey,
    reply: ReplySender,
    common: Arc<Common>,
    /// What has come, for the worker that may have to go on.
    answered: Vec<TokenId>,
    watch: StallWatch,
}

/// How the reading of one worker ended.
enum Ended {
    /// With its last chunk, not yet handed over.
    Finished(TokenChunk),
    BrokeOff(LinkError),
}

impl Dispatch {
    /// Sets out to answer a prompt, from now on and whether anyone reads or not.
    pub(crate) fn serve(
        self: &Arc<Self>,
        errand: Errand,
        urgency: Urgency,
        common: &Arc<Common>,
    ) -> Reply {
        let prompt_tokens = errand.request.prompt.len() as u32;
        let journey = Journey::new(Arc::clone(self), errand, urgency);
        Reply::driven(
            &self.tasks.tracker,
            prompt_tokens,
            self.limits.reader_lag,
            |reply| Drive::new(Arc::clone(self), journey, reply, Arc::clone(common)).run(),
        )
    }
}

impl Drive {
    pub(crate) fn new(
        dispatch: Arc<Dispatch>,
        journey: Journey,
        reply: ReplySender,
        common: Arc<Common>,
    ) -> Self {
        Self {
            watch: StallWatch::new(dispatch.limits.faults.stall_timeout),
            dispatch,
            journey,
            reply,
            common,
            answered: Vec::new(),
            books: Books::default(),
        }
    }

    pub(crate) async fn run(mut self) {
        let driven = self.answer().await;
        self.common.record.answer_ended(&self.books.times);
        let read = match driven {
            Ok(()) => self.reply.read_to_the_end().await,
            Err(error) => Err(error),
        };
        let Err(error) = read else { return };
        if matches!(error, ReplyError::NotRead(_)) {
            let request = &self.journey.request().id;
            let trace_id = traced::logged(self.journey.trace());
            // Counted as well; a line for each would let a client fill the log.
            debug!(%request, trace_id, %error, "answer cancelled");
            self.dispatch.metrics.slow_reader();
            // The holder of the body may never poll it again, so the record is closed here.
            self.common.record.fail(ErrorType::Cancelled);
        }
        self.reply.fail(error);
    }

    /// From the queue to the last chunk, over as many workers as it takes.
    async fn answer(&mut self) -> Result<(), ReplyError> {
        let common = Arc::clone(&self.common);
        let (mut leg, running) = self.first_leg(&common.siblings).await?;
        self.begin(&leg);
        let last = loop {
            let error = match self.read(&mut leg).await? {
                Ended::Finished(last) => break last,
                Ended::BrokeOff(error) => error,
            };
            leg.placement.broke_off(&error);
            traced::failed(&mut leg.exchange, &error);
            drop(leg);
            if !self.journey.broke_off(&error, &self.answered) {
                return Err(ReplyError::BrokeOff(error));
            }
            self.dispatch.metrics.migrated(Migration::OngoingRequest);
            leg = match self.journey.leg().await {
                Ok(leg) => leg,
                Err(gone) => return Err(ReplyError::BrokeOff(lost(&error, gone))),
            };
            // The client's answer began long ago, and what the second worker found cached
            // the first had computed.
            leg.first.started = None;
            self.watch.heard();
            self.books.leg_begins();
        };
        // The worker is done: its slot is free before anyone hears the end.
        drop(leg);
        drop(running);
        self.reply.put(last, self.books.times)
    }

    /// To the first worker that answers. Where there is no room even to wait, a sibling that
    /// has been placed makes some when it ends.
    async fn first_leg<'a>(
        &mut self,
        siblings: &'a Siblings,
    ) -> Result<(Leg, Running<'a>), DispatchError> {
        loop {
            let mut running = siblings.begin();
            match self.journey.leg().await {
                Ok(leg) => {
                    running.placed = true;
                    return Ok((leg, running));
                }
                Err(DispatchError::Route(error @ RouteError::Saturated { .. })) => {
                    drop(running);
                    if !siblings.one_ends().await {
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn begin(&mut self, leg: &Leg) {
        let decision = self.common.explain.then(|| leg.placement.decision());
        self.reply.begin(Begun {
            worker: leg.placement.worker(),
            routing: decision.flatten().as_deref().map(routing::summary),
        });
        let prompt_tokens = self.journey.request().prompt.len() as u32;
        let started = leg.first.started.as_deref();
        self.common.record.prompt(prompt_tokens, started);
        self.books.recorded = self.journey.recorded(self.common.record.arrived);
        self.journey.begun();
        self.watch.heard();
    }

    /// Reads one worker until it has finished or broken off. An error if the client is too far
    /// behind for that.
    async fn read(&mut self, leg: &mut Leg) -> Result<Ended, ReplyError> {
        let worker = leg.placement.worker();
        let mut next = Some(Ok(std::mem::take(&mut leg.first)));
        let mut begins = true;
        let mut reading = leg.exchange.stage(traced::STREAM);
        let mut tokens = 0;
        loop {
            let chunk = match next {
                Some(Ok(chunk)) => chunk,
                Some(Err(error)) => return Ok(Ended::BrokeOff(error)),
                None => {
                    let detail = "the stream ended before the answer".to_owned();
                    return Ok(Ended::BrokeOff(LinkError::Interrupted { worker, detail }));
                }
            };
            self.record_chunk(&chunk, leg, begins);
            begins = false;
            tokens += u64::from(chunk.count());
            reading.describe(|attributes| traced::output(attributes, tokens));
            if chunk.finish.is_some() {
                return Ok(Ended::Finished(chunk));
            }
            self.reply.put(chunk, self.books.times)?;
            next = self.next(leg).await;
        }
    }

    /// The worker's next word, past those that only say that it lives.
    async fn next(&mut self, leg: &mut Leg) -> Option<Result<TokenChunk, LinkError>> {
        let worker = leg.placement.worker();
        let watch = &mut self.watch;
        poll_fn(|context| {
            loop {
                return match leg.stream.poll_next(context) {
                    Poll::Ready(Some(Ok(chunk))) if chunk.is_keep_alive() => {
                        watch.heard();
                        continue;
                    }
                    Poll::Ready(next) => Poll::Ready(next),
                    Poll::Pending => {
                        ready!(watch.poll_stalled(context));
                        Poll::Ready(Some(Err(watch.error(worker))))
                    }
                };
            }
        })
        .await
    }

    fn record_chunk(&mut self, chunk: &TokenChunk, leg: &mut Leg, begins: bool) {
        self.watch.heard();
        if chunk.finish.is_none() {
            self.answered.extend_from_slice(&chunk.tokens);
        }
        let placement = Some(&mut leg.placement);
        self.books
            .record(chunk, begins, &self.common.record, placement);
    }
}

/// What to say of an answer that no other worker could go on with.
fn lost(broken: &LinkError, gone: DispatchError) -> LinkError {
    match gone {
        DispatchError::Failed { source, .. } => source,
        DispatchError::Route(error) => LinkError::Interrupted {
            worker: broken.worker(),
            detail: format!("and no other worker could go on: {error}"),
        },
    }
}

/// The prompts of one request that have been placed, or are about to be.
#[derive(Debug, Default)]
pub(crate) struct Siblings {
    running: AtomicUsize,
    ended: Notify,
}

impl Siblings {
    fn begin(&self) -> Running<'_> {
        self.running.fetch_add(1, Ordering::AcqRel);
        Running {
            siblings: self,
            placed: false,
        }
    }

    /// Waits until one of them has ended; whether there was one to wait for.
    async fn one_ends(&self) -> bool {
        let ended = self.ended.notified();
        let mut ended = std::pin::pin!(ended);
        // First listen, then look: one that ends in between is noticed.
        ended.as_mut().enable();
        if self.running.load(Ordering::Acquire) == 0 {
            return false;
        }
        ended.await;
        true
    }
}

#[derive(Debug)]
struct Running<'a> {
    siblings: &'a Siblings,
    placed: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let others = self.siblings.running.fetch_sub(1, Ordering::AcqRel) - 1;
        // One that found no room leaves none: only the last to try has news, that it is in vain.
        if self.placed || others == 0 {
            self.siblings.ended.notify_waiters();
        }
    }
}

/// Notices when nothing has come for too long. Set once, and again only when it rings, so
/// that a chunk costs a look at the clock and no timer.
#[derive(Debug)]
struct StallWatch {
    limit: Duration,
    heard: Instant,
    alarm: Pin<Box<Sleep>>,
}

impl StallWatch {
    fn new(limit: Duration) -> Self {
        Self {
            limit,
            heard: Instant::now(),
            alarm: Box::pin(tokio::time::sleep(limit)),
        }
    }

    fn heard(&mut self) {
        self.heard = Instant::now();
    }

    fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.alarm.as_mut().poll(context));
            let deadline = self.heard + self.limit;
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            self.alarm.as_mut().reset(deadline);
        }
    }

    fn error(&self, worker: WorkerId) -> LinkError {
        LinkError::Stalled {
            worker,
            quiet: self.limit,
        }
    }
}
