//! The spine: one prepared request from the router to its first chunk.
//!
//! ```text
//! route (reserve) → dispatch → first chunk ──► Reply ──► stream.rs or collect.rs
//!        ▲                         │
//!        └── another worker ◄── failed before the client saw anything
//! ```
//!
//! The first chunk is awaited before the response begins, so that a worker that fails early
//! costs a retry and not a broken stream, and so that errors still have a status line.
//! Dropping the future or the [`Reply`] cancels everything below it.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use contract::{
    BlockHash, Clock, GenerateRequest, LinkError, RequestId, Started, TokenChunk, TokenStream,
    WorkerId, block_chain,
};
use preprocess::Prepared;
use router::{Placement, RouteError, RouteQuery, Router};
use smallvec::SmallVec;
use tracing::warn;

use crate::fleet::Fleet;
use crate::metrics::{FrontendMetrics, Stage};
use crate::routing;

/// Workers tried before a request is given up.
const ATTEMPTS: usize = 3;

/// The router learns a worker's speed from how long so many tokens take: about a second on
/// a busy worker, so that reporting costs next to nothing.
const PROGRESS_TOKENS: u32 = 32;

/// How a request is treated while it waits for a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Urgency {
    /// The higher goes first; 0 is ordinary.
    pub(crate) priority: i32,
    /// Refused at once if it is expected to wait longer.
    pub(crate) deadline: Option<Duration>,
}

/// Why the fleet did not serve a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DispatchError {
    #[error(transparent)]
    Route(#[from] RouteError),
    #[error("{attempts} workers failed")]
    Failed { attempts: usize, source: LinkError },
}

#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) router: Router,
    pub(crate) fleet: Fleet,
    pub(crate) metrics: Arc<FrontendMetrics>,
    pub(crate) clock: Clock,
    pub(crate) block_size: usize,
}

impl Pipeline {
    /// From a prepared request to its first chunk.
    pub(crate) async fn serve(
        &self,
        id: &RequestId,
        prepared: Prepared,
        urgency: Urgency,
    ) -> Result<Reply, DispatchError> {
        let chain = block_chain(&prepared.prompt, self.block_size, prepared.hash_seed);
        let request = GenerateRequest {
            id: id.clone(),
            prompt: prepared.prompt,
            hash_seed: prepared.hash_seed,
            limits: prepared.limits,
            sampling: prepared.sampling,
            logprobs: prepared.logprobs,
        };
        let mut failed = SmallVec::<[WorkerId; ATTEMPTS]>::new();
        let mut last_failure = None;
        loop {
            let placed = self.place(&request, &chain, &failed, urgency).await;
            let placement = match (placed, last_failure.take()) {
                (Ok(placement), _) => placement,
                // Everyone who could have served it has failed: that is the story to tell.
                (Err(RouteError::NoWorker), Some(source)) => {
                    return Err(DispatchError::Failed {
                        attempts: failed.len(),
                        source,
                    });
                }
                (Err(error), _) => return Err(error.into()),
            };
            let worker = placement.worker();
            let source = match self.start(&request, placement).await {
                Ok(reply) => return Ok(reply),
                Err(source) => source,
            };
            warn!(request = %request.id, %worker, error = %source, "worker failed before the first token");
            failed.push(worker);
            if failed.len() == ATTEMPTS {
                return Err(DispatchError::Failed {
                    attempts: ATTEMPTS,
                    source,
                });
            }
            last_failure = Some(source);
            self.metrics.retried();
        }
    }

    /// Waits while every worker is full, in a mode that binds late.
    async fn place(
        &self,
        request: &GenerateRequest,
        chain: &[BlockHash],
        failed: &[WorkerId],
        urgency: Urgency,
    ) -> Result<Placement, RouteError> {
        let began = self.clock.now();
        let query = RouteQuery {
            request: request.id.clone(),
            prompt_tokens: request.prompt.len() as u32,
            chain,
            excluded: failed,
            priority: urgency.priority,
            deadline: urgency.deadline,
        };
        let placement = self.router.route(&query).await;
        self.metrics.stage(Stage::Route, self.clock.now() - began);
        placement
    }

    /// Hands the request to the chosen worker and waits for its first chunk.
    async fn start(
        &self,
        request: &GenerateRequest,
        mut placement: Placement,
    ) -> Result<Reply, LinkError> {
        let worker = placement.worker();
        let link = self
            .fleet
            .link(worker)
            .ok_or_else(|| LinkError::Unreachable {
                worker,
                detail: "it has just left".to_owned(),
            })?;
        let began = self.clock.now();
        let mut stream = link.generate(request.clone()).await?;
        self.metrics
            .stage(Stage::Dispatch, self.clock.now() - began);
        let first = match stream.next().await {
            Some(chunk) => chunk?,
            None => TokenChunk::default(),
        };
        let started = first.started;
        let cached_tokens = started.map_or(0, |started| started.cached_tokens);
        placement.first_token(cached_tokens, self.clock.now());
        Ok(Reply {
            prompt_tokens: request.prompt.len() as u32,
            output_tokens: 0,
            cached_tokens,
            started,
            first: Some(first),
            stream,
            placement,
            clock: self.clock,
            unreported: 0,
        })
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
    pub(crate) started: Option<Started>,
    /// Read before the response began; handed out first.
    first: Option<TokenChunk>,
    stream: TokenStream,
    placement: Placement,
    clock: Clock,
    /// Tokens after the first chunk that the router has not heard of.
    unreported: u32,
}

impl Reply {
    pub(crate) fn worker(&self) -> WorkerId {
        self.placement.worker()
    }

    /// Why it is that worker.
    pub(crate) fn routing(&self) -> Option<openai::Routing> {
        self.placement.decision().as_deref().map(routing::summary)
    }

    /// The next chunk, the first one included; `None` after the last.
    pub(crate) fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<TokenChunk, LinkError>>> {
        if let Some(first) = self.first.take() {
            self.output_tokens += first.tokens.len() as u32;
            return Poll::Ready(Some(Ok(first)));
        }
        let chunk = self.stream.poll_next(context);
        if let Poll::Ready(Some(Ok(chunk))) = &chunk {
            self.output_tokens += chunk.tokens.len() as u32;
            self.unreported += chunk.tokens.len() as u32;
            if self.unreported >= PROGRESS_TOKENS || chunk.finish.is_some() {
                let tokens = std::mem::take(&mut self.unreported);
                self.placement.progress(tokens, self.clock.now());
            }
        }
        chunk
    }
}
