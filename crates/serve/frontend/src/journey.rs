//! One request's way over the workers: to the first that answers, and on to another if that
//! one fails.
//!
//! ```text
//! route (reserve) → dispatch → first chunk ──► Leg
//!        ▲                         │
//!        └── another worker ◄── failed
//! ```
//!
//! A journey does not care how much of the answer the client already has: a new request and one
//! that continues after a worker broke off take the same way, and the next worker gets the
//! tokens that it need not generate again. Only an answer in an engine's own words ends with its
//! worker. Failures that the request may have
//! caused are counted over the whole journey, so one that kills its workers ends; workers that
//! were lost before they took it are not, since a fleet can lose many at once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use contract::{
    BlockHash, ForwardRequest, GenerateRequest, LinkError, Moment, TokenChunk, TokenId,
    TokenStream, WorkerId,
};
use router::{Excluded, Handling, Placement, RouteError, RouteQuery, WhyNot};
use smallvec::SmallVec;
use spans::{RequestTrace, Stage as Traced};
use tracing::{debug, warn};

use crate::books;
use crate::dispatch::{Dispatch, DispatchError, Urgency};
use crate::metrics::{Migration, Stage};
use crate::recorded::{Prompt, Recorded};
use crate::traced;

/// How often to look for a worker when there was one a moment ago.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a request waits for one altogether: a restart, a dropped connection or a machine
/// that stood still is often over by then.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a request sets out with.
#[derive(Debug)]
pub(crate) struct Errand {
    pub(crate) request: GenerateRequest,
    /// For the decision's record.
    pub(crate) handling: Handling,
    /// In the client's own words, for the engine's own server.
    pub(crate) forward: Option<ForwardRequest>,
    /// How much context it needs, at least.
    pub(crate) context_tokens: u32,
    pub(crate) trace: RequestTrace,
}

/// How long an engine's own server may take for an answer in one piece. One that is gone is noticed
/// by its health long before.
const WHOLE_ANSWER: Duration = Duration::from_secs(3600);

/// A request, and where it has been.
#[derive(Debug)]
pub(crate) struct Journey {
    dispatch: Arc<Dispatch>,
    request: GenerateRequest,
    handling: Handling,
    forward: Option<ForwardRequest>,
    context_tokens: u32,
    /// Of the prompt and of what has been answered.
    chain: Vec<BlockHash>,
    urgency: Urgency,
    /// Workers that failed this request; it is not sent there again while others are left.
    failed: SmallVec<[WorkerId; 4]>,
    failures: u32,
    /// Failures of workers that had taken the request, or may have.
    moves: u32,
    /// Failures that the request itself probably caused.
    not_computed: u32,
    /// Time spent without any worker to go to.
    waited: Duration,
    trace: RequestTrace,
    /// Its move to another worker, until that one answers.
    moving: Traced,
}

/// One worker's part of the answer.
#[derive(Debug)]
pub(crate) struct Leg {
    pub(crate) placement: Placement,
    /// Read to know that the worker answers; to be handed out first.
    pub(crate) first: TokenChunk,
    pub(crate) stream: TokenStream,
    /// The whole exchange with the worker.
    pub(crate) exchange: Traced,
}

impl Journey {
    pub(crate) fn new(dispatch: Arc<Dispatch>, errand: Errand, urgency: Urgency) -> Self {
        let mut journey = Self {
            chain: Vec::new(),
            dispatch,
            request: errand.request,
            handling: errand.handling,
            forward: errand.forward,
            context_tokens: errand.context_tokens,
            urgency,
            failed: SmallVec::new(),
            failures: 0,
            moves: 0,
            not_computed: 0,
            waited: Duration::ZERO,
            trace: errand.trace,
            moving: Traced::default(),
        };
        journey.chain = journey.chain_of(&journey.request.prompt);
        journey
    }

    pub(crate) fn request(&self) -> &GenerateRequest {
        &self.request
    }

    pub(crate) fn trace(&self) -> &RequestTrace {
        &self.trace
    }

    /// A line of the request trace, for a prompt that came then and whose answer begins.
    pub(crate) fn recorded(&self, arrived: Moment) -> Recorded {
        let prompt = Prompt {
            request: &self.request.id,
            tokens: &self.request.prompt,
            chain: &self.chain,
            seed: self.request.hash_seed,
            identity: self.urgency.identity,
            arrived,
        };
        Recorded::begin(&self.dispatch, prompt)
    }

    /// The client has a part of the answer. An engine's own words cannot be continued by another,
    /// so that they need not be kept.
    pub(crate) fn begun(&mut self) {
        if let Some(forward) = &mut self.forward {
            forward.body = Bytes::new();
        }
    }

    /// Records that the worker broke off after the client got these tokens. Returns whether the
    /// request should continue on another worker, which then gets these tokens.
    pub(crate) fn broke_off(&mut self, error: &LinkError, answered: &[TokenId]) -> bool {
        let (request, trace_id) = (&self.request.id, traced::logged(&self.trace));
        warn!(%request, trace_id, %error, tokens = answered.len(), "worker broke off");
        self.record_failure(error);
        if self.is_over(error) || self.forward.is_some() {
            return false;
        }
        self.moving = traced::moves(&self.trace, error, answered.len());
        self.request.answered = answered.into();
        let known = [&self.request.prompt[..], answered].concat();
        self.chain = self.chain_of(&known);
        true
    }

    /// Goes to the worker that the router chooses, or to the next if it fails.
    pub(crate) async fn leg(&mut self) -> Result<Leg, DispatchError> {
        let mut last_failure = None;
        loop {
            let placement = match (self.place().await, last_failure.take()) {
                (Ok(placement), _) => placement,
                (Err(error), failure) if self.may_still_be_placed(error, failure.as_ref()) => {
                    self.failed.clear();
                    tokio::time::sleep(LOOK_EVERY).await;
                    self.waited += LOOK_EVERY;
                    last_failure = failure;
                    continue;
                }
                (Err(RouteError::NoWorker), Some(source)) => return Err(self.given_up(source)),
                (Err(error), _) => return Err(error.into()),
            };
            let error = match self.start(placement).await {
                Ok(leg) => return Ok(leg),
                Err(error) => error,
            };
            let (request, trace_id) = (&self.request.id, traced::logged(&self.trace));
            match error.is_of_request() {
                true => debug!(%request, trace_id, %error, "request refused by its worker"),
                false => warn!(%request, trace_id, %error, "worker failed before its first token"),
            }
            self.record_failure(&error);
            traced::failed(&mut self.moving, &error);
            if self.is_over(&error) {
                return Err(self.given_up(error));
            }
            self.moving = traced::moves(&self.trace, &error, self.request.answered.len());
            self.dispatch.metrics.migrated(Migration::NewRequest);
            last_failure = Some(error);
        }
    }

    /// Whether a worker may yet come for a request that nobody can take now: everyone who
    /// could has failed it, or is left alone for having failed.
    fn may_still_be_placed(&self, error: RouteError, failure: Option<&LinkError>) -> bool {
        let may_come = match error {
            RouteError::NoWorker => self.failures > 0,
            RouteError::Saturated { .. } => failure.is_some_and(LinkError::blames_worker),
            RouteError::QueueTimeout { .. } => false,
        };
        may_come && self.waited < PATIENCE
    }

    fn record_failure(&mut self, error: &LinkError) {
        let worker = error.worker();
        self.failures += 1;
        self.moves += u32::from(!matches!(error, LinkError::Lost { .. }));
        self.not_computed += u32::from(matches!(error, LinkError::Failed { .. }));
        if !self.failed.contains(&worker) {
            self.failed.push(worker);
        }
    }

    fn is_over(&self, error: &LinkError) -> bool {
        let hopeless = match error {
            LinkError::TooLarge { .. } | LinkError::Refused { .. } => true,
            LinkError::Failed { .. } => self.not_computed > 1,
            LinkError::Unreachable { .. }
            | LinkError::Lost { .. }
            | LinkError::Draining { .. }
            | LinkError::Overloaded { .. }
            | LinkError::Stalled { .. }
            | LinkError::Interrupted { .. } => false,
        };
        hopeless || self.moves > self.dispatch.limits.faults.migrations
    }

    fn given_up(&self, source: LinkError) -> DispatchError {
        DispatchError::Failed {
            attempts: self.failures,
            source,
        }
    }

    fn chain_of(&self, tokens: &[TokenId]) -> Vec<BlockHash> {
        let blocks = self.dispatch.limits.blocks;
        blocks.chain(tokens, self.request.hash_seed)
    }

    /// Where it must not go.
    fn excluded(&self) -> SmallVec<[Excluded; 4]> {
        let fleet = &self.dispatch.fleet;
        let adapter = self.forward.as_ref().and_then(|one| one.adapter.as_deref());
        let lacking = adapter.map(|name| fleet.without_adapter(name));
        let lacking = lacking.into_iter().flatten();
        let known = self.request.prompt.len() + self.request.answered.len();
        let known = u32::try_from(known).unwrap_or(u32::MAX).saturating_add(1);
        let short = fleet.with_shorter_context(self.context_tokens.max(known));
        let failed = self.failed.iter().copied().map(Excluded::tried);
        failed
            .chain(lacking.map(|worker| Excluded {
                worker,
                why: WhyNot::NoAdapter,
            }))
            .chain(short.into_iter().map(|worker| Excluded {
                worker,
                why: WhyNot::ShortContext,
            }))
            .collect()
    }

    /// The request as a worker with this context gets it: one that leaves the answer's length open
    /// never asks for more than there is room for.
    fn request_within(&self, context_tokens: u32) -> GenerateRequest {
        let mut request = self.request.clone();
        let prompt = u32::try_from(request.prompt.len()).unwrap_or(u32::MAX);
        let room = context_tokens.saturating_sub(prompt).max(1);
        request.limits.max_tokens = request.limits.max_tokens.min(room);
        request
    }

    /// Waits while every worker is full, in a mode that binds late.
    async fn place(&mut self) -> Result<Placement, RouteError> {
        let Dispatch {
            router,
            metrics,
            clock,
            ..
        } = &*self.dispatch;
        let began = clock.now();
        let stage = self.trace.stage(traced::ROUTE);
        let excluded = self.excluded();
        let query = RouteQuery {
            request: self.request.id.clone(),
            prompt_tokens: (self.request.prompt.len() + self.request.answered.len()) as u32,
            chain: &self.chain,
            excluded: &excluded,
            identity: self.urgency.identity,
            priority: self.urgency.priority,
            deadline: self.urgency.patience.map(|patience| began + patience),
        };
        let placement = router.route(&query).await;
        let now = clock.now();
        let waited = now - began;
        traced::routed(stage, placement.as_ref(), began, now);
        metrics.stage(Stage::Route, waited);
        let left = self
            .urgency
            .patience
            .map(|left| left.saturating_sub(waited));
        self.urgency.patience = left;
        placement
    }

    /// Hands the request to the chosen worker and waits for its first chunk.
    async fn start(&mut self, mut placement: Placement) -> Result<Leg, LinkError> {
        if self.handling != Handling::default() {
            placement.handled(&self.handling);
        }
        let mut exchange = traced::exchange(&self.trace, placement.worker());
        let asks = exchange.context();
        self.request.trace = asks.or_else(|| self.trace.context().cloned());
        let answered = self.dispatch(&placement, &exchange).await;
        let (stream, first) = match answered {
            Ok(answered) => answered,
            Err(error) => {
                traced::failed(&mut exchange, &error);
                placement.broke_off(&error);
                return Err(error);
            }
        };
        traced::started(&mut exchange, first.started.as_deref());
        traced::moved(&mut self.moving, placement.worker());
        self.moving = Traced::default();
        books::begins(&mut placement, &first, self.dispatch.clock.now());
        Ok(Leg {
            placement,
            first,
            stream,
            exchange,
        })
    }

    async fn dispatch(
        &self,
        placement: &Placement,
        exchange: &Traced,
    ) -> Result<(TokenStream, TokenChunk), LinkError> {
        let Dispatch {
            fleet,
            metrics,
            clock,
            limits,
            ..
        } = &*self.dispatch;
        let worker = placement.worker();
        let (link, context) = fleet.reach(worker).ok_or(LinkError::Lost { worker })?;
        let began = clock.now();
        let sending = exchange.stage(traced::DISPATCH);
        let started = async {
            let stream = match &self.forward {
                None => link.generate(self.request_within(context)).await?,
                Some(forward) => {
                    let forwarder = link.forwarder().ok_or_else(|| LinkError::Refused {
                        worker,
                        detail: "its engine has no server of its own".to_owned(),
                    })?;
                    forwarder.forward(&self.request, forward).await?
                }
            };
            metrics.stage(Stage::Dispatch, clock.now() - began);
            Ok(stream)
        };
        let patience = match &self.forward {
            // Nothing comes before the last token.
            Some(forward) if !forward.stream => limits.faults.first_token_timeout.max(WHOLE_ANSWER),
            Some(_) | None => limits.faults.first_token_timeout,
        };
        let silent = |_| LinkError::Stalled {
            worker,
            quiet: patience,
        };
        let mut stream = tokio::time::timeout(patience, started)
            .await
            .map_err(silent)??;
        drop(sending);
        let _waiting = exchange.stage(traced::FIRST_TOKEN);
        // A worker that says that the request is alive may take its time.
        loop {
            let next = tokio::time::timeout(patience, stream.next()).await;
            let first = match next.map_err(silent)? {
                Some(chunk) => chunk?,
                None => return Ok((stream, TokenChunk::default())),
            };
            if !first.is_keep_alive() {
                return Ok((stream, first));
            }
        }
    }
}
