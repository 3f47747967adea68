//! The spine: a prepared request becomes a reply, and a reply goes on until its end.
//!
//! The first chunk is awaited before the response begins, so that a worker that fails early
//! costs a retry and not a broken stream, and so that errors still have a status line. When a
//! worker fails later, the reply moves: it asks [`Journey`] for another leg, with the tokens
//! that the client has, and the client sees a pause and no seam. Dropping the future or the
//! [`Reply`] cancels everything below it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use contract::{
    Clock, GenerateRequest, Hashing, LinkError, RequestId, RequestSpeculation, Started, TokenChunk,
    TokenId, WorkerId,
};
use preprocess::Prepared;
use router::{Identity, RouteError, Router};
use tokio::time::{Instant, Sleep};

use crate::fleet::Fleet;
use crate::journey::{Journey, Leg};
use crate::metrics::{FrontendMetrics, Migration};
use crate::routing;

/// The router learns a worker's speed from how long so many tokens take: about a second on
/// a busy worker, so that reporting costs next to nothing.
const PROGRESS_TOKENS: u32 = 32;

/// How a request is treated while it waits for a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Urgency {
    /// Who waits, among others who do.
    pub(crate) identity: Identity,
    /// The higher goes first; 0 is ordinary.
    pub(crate) priority: i32,
    /// How long it may still wait, all its waits together: what a worker that failed it took is
    /// not counted.
    pub(crate) patience: Option<Duration>,
}

/// Why the fleet did not serve a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DispatchError {
    #[error(transparent)]
    Route(#[from] RouteError),
    #[error("{attempts} workers failed")]
    Failed { attempts: u32, source: LinkError },
}

/// What bounds a journey.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Failures after which a request is not sent to yet another worker.
    pub(crate) migrations: u32,
    pub(crate) first_token_timeout: Duration,
    /// Longest pause between two chunks.
    pub(crate) stall_timeout: Duration,
    pub(crate) block_size: usize,
    pub(crate) hashing: Hashing,
}

#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) router: Router,
    pub(crate) fleet: Fleet,
    pub(crate) metrics: Arc<FrontendMetrics>,
    pub(crate) clock: Clock,
    pub(crate) limits: Limits,
}

impl Pipeline {
    /// From a prepared request to its first chunk.
    pub(crate) async fn serve(
        self: &Arc<Self>,
        id: &RequestId,
        prepared: Prepared,
        urgency: Urgency,
    ) -> Result<Reply, DispatchError> {
        let request = GenerateRequest {
            id: id.clone(),
            prompt: prepared.prompt,
            answered: Arc::default(),
            hash_seed: prepared.hash_seed,
            limits: prepared.limits,
            sampling: prepared.sampling,
            logprobs: prepared.logprobs,
        };
        let mut journey = Journey::new(Arc::clone(self), request, urgency);
        let leg = journey.leg().await?;
        Ok(Reply::new(Arc::clone(self), journey, leg))
    }
}

/// A request that a worker has begun to answer. Dropping it cancels the rest and gives the
/// reservation back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) prompt_tokens: u32,
    pub(crate) output_tokens: u32,
    /// The engine's own figure.
    pub(crate) cached_tokens: u32,
    /// What all its workers have told; each does at its end.
    pub(crate) speculation: RequestSpeculation,
    pub(crate) started: Option<Started>,
    worker: WorkerId,
    pipeline: Arc<Pipeline>,
    state: State,
    /// What the client has got, for the worker that may have to go on.
    answered: Vec<TokenId>,
    /// Tokens after a leg's first chunk that the router has not heard of.
    unreported: u32,
    watch: StallWatch,
}

#[derive(Debug)]
enum State {
    Going {
        /// Read before it was known that the worker answers; handed out first.
        first: Option<TokenChunk>,
        leg: Box<Leg>,
        journey: Box<Journey>,
    },
    Moving(Move),
    /// A finish or an error has been handed out.
    Over,
}

/// The journey comes back with the outcome: there may be more legs.
type Arrival = (Box<Journey>, Result<Leg, DispatchError>);

/// A reply between two workers.
struct Move(Pin<Box<dyn Future<Output = Arrival> + Send>>);

impl std::fmt::Debug for Move {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Move")
    }
}

impl Reply {
    fn new(pipeline: Arc<Pipeline>, journey: Journey, mut leg: Leg) -> Self {
        let first = std::mem::take(&mut leg.first);
        let started = first.started;
        Self {
            prompt_tokens: journey.request().prompt.len() as u32,
            output_tokens: 0,
            cached_tokens: started.map_or(0, |started| started.cached_tokens),
            speculation: RequestSpeculation::default(),
            started,
            worker: leg.placement.worker(),
            watch: StallWatch::new(pipeline.limits.stall_timeout),
            pipeline,
            state: State::Going {
                first: Some(first),
                leg: Box::new(leg),
                journey: Box::new(journey),
            },
            answered: Vec::new(),
            unreported: 0,
        }
    }

    /// The worker that answers now, or did last.
    pub(crate) fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Why it is that worker.
    pub(crate) fn routing(&self) -> Option<openai::Routing> {
        match &self.state {
            State::Going { leg, .. } => leg.placement.decision().as_deref().map(routing::summary),
            State::Moving(_) | State::Over => None,
        }
    }

    /// The next chunk, the first one included; `None` after the last.
    pub(crate) fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<TokenChunk, LinkError>>> {
        loop {
            let error = match &mut self.state {
                State::Over => return Poll::Ready(None),
                State::Moving(moving) => {
                    let (journey, leg) = ready!(moving.0.as_mut().poll(context));
                    match leg {
                        Ok(leg) => self.arrived(journey, leg),
                        Err(error) => {
                            self.state = State::Over;
                            return Poll::Ready(Some(Err(self.lost(error))));
                        }
                    }
                    continue;
                }
                State::Going { first, leg, .. } => {
                    let begins = first.is_some();
                    let chunk = match first.take() {
                        Some(first) => Some(Ok(first)),
                        None => match leg.stream.poll_next(context) {
                            Poll::Ready(chunk) => chunk,
                            Poll::Pending => {
                                ready!(self.watch.poll_stalled(context));
                                Some(Err(self.watch.error(self.worker)))
                            }
                        },
                    };
                    match chunk {
                        Some(Ok(chunk)) => {
                            self.take_in(&chunk, begins);
                            return Poll::Ready(Some(Ok(chunk)));
                        }
                        Some(Err(error)) => error,
                        None => return Poll::Ready(None),
                    }
                }
            };
            if !self.move_on(&error) {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }

    fn take_in(&mut self, chunk: &TokenChunk, begins: bool) {
        let tokens = chunk.tokens.len() as u32;
        self.watch.heard();
        self.output_tokens += tokens;
        self.speculation.add(chunk.speculation.unwrap_or_default());
        if chunk.finish.is_none() {
            self.answered.extend_from_slice(&chunk.tokens);
        }
        // How long a leg's first chunk took says how fast prompts are computed, not tokens.
        if !begins {
            self.unreported += tokens;
            self.correct(chunk);
        }
        if self.unreported >= PROGRESS_TOKENS || chunk.finish.is_some() {
            let tokens = std::mem::take(&mut self.unreported);
            if let State::Going { leg, .. } = &mut self.state {
                leg.placement.progress(tokens, self.pipeline.clock.now());
            }
        }
    }

    /// Some engines say only at the end what they found cached. Of an answer that has moved,
    /// the first worker's figure stays: the second found what the first had computed.
    fn correct(&mut self, chunk: &TokenChunk) {
        let (Some(started), State::Going { leg, journey, .. }) = (chunk.started, &mut self.state)
        else {
            return;
        };
        if journey.request().answered.is_empty() {
            self.cached_tokens = started.cached_tokens;
            leg.placement.found_cached(started.cached_tokens);
        }
    }

    /// Leaves a worker that broke off. Whether there is somewhere to go.
    fn move_on(&mut self, error: &LinkError) -> bool {
        let State::Going {
            mut leg,
            mut journey,
            ..
        } = std::mem::replace(&mut self.state, State::Over)
        else {
            return false;
        };
        if error.blames_worker() {
            leg.placement.failed();
        }
        drop(leg);
        if !journey.broke_off(error, &self.answered) {
            return false;
        }
        self.pipeline.metrics.migrated(Migration::OngoingRequest);
        self.state = State::Moving(Move(Box::pin(async move {
            let leg = journey.leg().await;
            (journey, leg)
        })));
        true
    }

    fn arrived(&mut self, journey: Box<Journey>, mut leg: Leg) {
        self.worker = leg.placement.worker();
        self.watch.heard();
        self.unreported = 0;
        let mut first = std::mem::take(&mut leg.first);
        // The client's answer began long ago.
        first.started = None;
        self.state = State::Going {
            first: Some(first),
            leg: Box::new(leg),
            journey,
        };
    }

    fn lost(&self, error: DispatchError) -> LinkError {
        match error {
            DispatchError::Failed { source, .. } => source,
            DispatchError::Route(error) => LinkError::Interrupted {
                worker: self.worker,
                detail: format!("and no other worker could go on: {error}"),
            },
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
        LinkError::Interrupted {
            worker,
            detail: format!("nothing came for {:?}", self.limit),
        }
    }
}
