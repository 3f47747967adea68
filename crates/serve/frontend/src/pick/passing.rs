//! A request that a proxy carries, from the pick to the end of its answer.
//!
//! The slot is held until the engine has said its last word, or until the proxy lets go. Whatever the
//! answer says of the engine goes where it would go had we fetched it ourselves.

use std::net::SocketAddr;
use std::sync::Arc;

use contract::{GenerateRequest, LinkError, Moment, RequestId, TokenChunk, TraceContext, WorkerId};
use futures_util::FutureExt as _;
use http::StatusCode;
use router::{Excluded, Placement, WhyNot};
use spans::{RequestTrace, Stage};
use transport::Overheard;

use super::understand::{Understood, query};
use crate::admission::Permit;
use crate::books::{self, Books};
use crate::dispatch::Urgency;
use crate::error;
use crate::forward::empty_request;
use crate::metrics::RequestRecord;
use crate::model::ServedModel;
use crate::recorded::{Prompt, Recorded};
use crate::traced;

/// What a picked request holds.
#[derive(Debug)]
pub(super) struct Passing {
    pub(super) model: Arc<ServedModel>,
    pub(super) id: RequestId,
    pub(super) understood: Option<Understood>,
    /// `None` for what takes no slot.
    pub(super) placement: Option<Placement>,
    /// Best first. Not empty.
    pub(super) endpoints: Vec<SocketAddr>,
    /// `None` for an endpoint that is not counted.
    pub(super) record: Option<Arc<RequestRecord>>,
    pub(super) urgency: Urgency,
    /// A place inside.
    pub(super) permit: Option<Permit>,
    pub(super) trace: RequestTrace,
}

/// A request that was given an endpoint, until its answer has ended. Dropping it gives the place back
/// and, before the end, counts a client that went away.
#[derive(Debug)]
pub struct Pick {
    /// Dropped first: what they write at the end is written before the request counts as gone.
    books: Books,
    passing: Passing,
    overheard: Option<Box<dyn Overheard>>,
    sent: Moment,
    begun: bool,
    /// The answer is one that refuses.
    refused: bool,
    /// Until the first token, then until the last.
    phase: Stage,
    /// The whole exchange with the endpoint.
    exchange: Stage,
    tokens: u64,
}

impl Pick {
    pub(super) fn new(passing: Passing) -> Self {
        let sent = passing.model.dispatch.clock.now();
        let worker = passing.placement.as_ref().map(Placement::worker);
        let overheard = worker.and_then(|worker| passing.overhear(worker));
        let exchange = worker.map(|worker| traced::exchange(&passing.trace, worker));
        let exchange = exchange.unwrap_or_default();
        Self {
            phase: exchange.stage(traced::FIRST_TOKEN),
            exchange,
            tokens: 0,
            passing,
            overheard,
            books: Books::default(),
            sent,
            begun: false,
            refused: false,
        }
    }

    /// Where the request is to go, best first. Never empty.
    pub fn endpoints(&self) -> &[SocketAddr] {
        &self.passing.endpoints
    }

    /// Under which span the endpoint's own are to be, if the request's are recorded.
    pub fn asks(&self) -> Option<TraceContext> {
        self.exchange.context()
    }

    /// The answer begins: with this status, from the endpoint that the proxy says it took.
    pub fn begins(&mut self, status: StatusCode, served: Option<SocketAddr>) {
        traced::responded(&self.passing.trace, status.as_u16());
        if let Some(served) = served
            && self.passing.endpoints.first() != Some(&served)
        {
            self.moved(served);
        }
        if !status.is_success() {
            self.failed(status);
        }
    }

    /// Bytes of the answer pass by.
    pub fn read(&mut self, bytes: &[u8]) {
        if self.refused {
            return;
        }
        let after = self.passing.model.dispatch.clock.now() - self.sent;
        if let Some(overheard) = &mut self.overheard {
            overheard.push(bytes, after);
            self.take_chunks();
        }
    }

    /// The answer ended in good order.
    pub fn completes(mut self) {
        if self.refused {
            return;
        }
        let after = self.passing.model.dispatch.clock.now() - self.sent;
        if let Some(overheard) = &mut self.overheard {
            overheard.end(after);
            self.take_chunks();
        }
        if let Some(record) = &self.passing.record {
            record.answer_ended(&self.books.times);
            record.finish();
        }
        self.passing.trace.end(|| None);
    }

    fn take_chunks(&mut self) {
        let Some(overheard) = &mut self.overheard else {
            return;
        };
        let mut chunks = Vec::new();
        while let Some(chunk) = overheard.pop() {
            chunks.push(chunk);
        }
        for chunk in chunks {
            self.record(&chunk);
        }
    }

    fn record(&mut self, chunk: &TokenChunk) {
        if chunk.is_keep_alive() {
            return;
        }
        let Passing {
            model,
            id,
            understood,
            placement,
            record,
            urgency,
            ..
        } = &mut self.passing;
        let begins = !std::mem::replace(&mut self.begun, true);
        if begins {
            self.phase = self.exchange.stage(traced::STREAM);
            traced::started(&mut self.exchange, chunk.started.as_deref());
        }
        self.tokens += u64::from(chunk.count());
        let tokens = self.tokens;
        self.phase
            .describe(|attributes| traced::output(attributes, tokens));
        if begins && let Some(placement) = placement {
            books::begins(placement, chunk, model.dispatch.clock.now());
        }
        if let Some(record) = record {
            if begins && let Some(understood) = understood {
                record.prompt(understood.prompt_tokens(), chunk.started.as_deref());
                let prompt = Prompt {
                    request: id,
                    tokens: &understood.prompt,
                    chain: &understood.chain,
                    seed: understood.seed,
                    identity: urgency.identity,
                    arrived: record.arrived,
                };
                self.books.recorded = Recorded::begin(&model.dispatch, prompt);
            }
            self.books.record(chunk, begins, record, placement.as_mut());
        }
        if chunk.finish.is_some() {
            // The engine is done: its slot is free before the client knows.
            self.passing.placement = None;
            self.phase = Stage::default();
        }
    }

    /// The proxy went on to another endpoint: the first has failed it.
    fn moved(&mut self, served: SocketAddr) {
        let Some(mut placement) = self.passing.placement.take() else {
            return;
        };
        let failed = placement.worker();
        let error = LinkError::Unreachable {
            worker: failed,
            detail: "the proxy went on to another endpoint".to_owned(),
        };
        placement.broke_off(&error);
        drop(placement);
        self.overheard = None;
        let mut moving = traced::moves(&self.passing.trace, &error, 0);
        traced::failed(&mut self.exchange, &error);
        self.phase = Stage::default();
        self.exchange = Stage::default();
        let known = self.passing.model.dispatch.fleet.addresses();
        let Some((worker, _)) = known.into_iter().find(|(_, address)| *address == served) else {
            return;
        };
        traced::moved(&mut moving, worker);
        self.exchange = traced::exchange(&self.passing.trace, worker);
        self.phase = self.exchange.stage(traced::FIRST_TOKEN);
        self.passing.placement = self.passing.reserve(worker, failed);
        self.overheard = self.passing.overhear(worker);
    }

    fn failed(&mut self, status: StatusCode) {
        self.refused = true;
        if let Some(placement) = &mut self.passing.placement {
            let error = error::blamed(placement.worker(), status);
            placement.broke_off(&error);
            traced::failed(&mut self.exchange, &error);
        }
        self.phase = Stage::default();
        self.passing.placement = None;
        self.overheard = None;
        let counted = error::counted_as(status);
        if let Some(record) = &self.passing.record {
            record.fail(counted);
        }
        self.passing.trace.end(|| Some(traced::failure(counted)));
    }
}

impl Passing {
    /// Listens to what the worker's engine will answer, if it is an answer that can be read.
    fn overhear(&self, worker: WorkerId) -> Option<Box<dyn Overheard>> {
        let understood = self.understood.as_ref()?;
        let link = self.model.dispatch.fleet.link(worker)?;
        let forwarder = link.forwarder()?;
        let request = GenerateRequest {
            prompt: Arc::clone(&understood.prompt),
            hash_seed: understood.seed,
            ..empty_request(&self.id)
        };
        Some(forwarder.overhear(&request, &understood.forward))
    }

    /// A place on the worker that has the request already, if there is one at once.
    fn reserve(&self, worker: WorkerId, failed: WorkerId) -> Option<Placement> {
        let router = &self.model.dispatch.router;
        let others = router.members().into_iter().filter(|one| *one != worker);
        let excluded: Vec<Excluded> = others
            .map(|worker| match worker == failed {
                true => Excluded::tried(worker),
                false => Excluded {
                    worker,
                    why: WhyNot::NotOffered,
                },
            })
            .collect();
        let query = query(&self.id, self.understood.as_ref(), &excluded, self.urgency);
        router.route(&query).now_or_never()?.ok()
    }
}
