//! The running requests.

use std::sync::Arc;

use contract::{BlockHash, Moment, OutputLimits, RequestId, TokenId, TokenStream, WorkerId};
use router::{Claim, Identity};

use super::recorder::RequestTimer;
use crate::ask::Label;

/// One request between being sent and being answered.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: RequestId,
    /// The load's name for it.
    pub(super) tag: usize,
    pub(super) label: Label,
    pub(super) identity: Identity,
    pub(super) prompt: Arc<[TokenId]>,
    pub(super) chain: Box<[BlockHash]>,
    pub(super) limits: OutputLimits,
    pub(super) sampling_seed: u64,
    pub(super) sent: Moment,
    pub(super) watch: RequestTimer,
    pub(super) placed: Option<Placed>,
    /// Workers that failed it.
    pub(super) failed: Vec<WorkerId>,
    pub(super) answer: Vec<TokenId>,
    /// Tokens that were reported to the router.
    pub(super) told_tokens: u32,
}

/// Where a request is.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) claim: Claim,
    /// Index of the worker.
    pub(super) worker: usize,
    pub(super) stream: TokenStream,
    /// Its record, if records are kept.
    pub(super) record: usize,
}

/// What happened to one placement: for comparisons with other ways to run the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub conversation: u64,
    pub turn: u32,
    pub worker: WorkerId,
    pub prompt: Arc<[TokenId]>,
    pub sampling_seed: u64,
    pub sent: Moment,
    pub placed: Moment,
    pub first_token: Option<Moment>,
    pub ended: Option<Moment>,
    pub cached_tokens: u32,
    pub output_tokens: u32,
}

/// Requests by key. Keys are used again.
#[derive(Debug, Default)]
pub(super) struct Requests {
    entries: Vec<Option<Request>>,
    vacant: Vec<usize>,
}

impl Requests {
    pub(super) fn insert(&mut self, request: Request) -> usize {
        if let Some(key) = self.vacant.pop() {
            self.entries[key] = Some(request);
            return key;
        }
        self.entries.push(Some(request));
        self.entries.len() - 1
    }

    pub(super) fn get_mut(&mut self, key: usize) -> &mut Request {
        self.entries[key]
            .as_mut()
            .expect("the request is under way")
    }

    pub(super) fn take(&mut self, key: usize) -> Request {
        self.vacant.push(key);
        self.entries[key].take().expect("the request is under way")
    }

    /// Takes all that are left.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Request> {
        self.vacant.clear();
        std::mem::take(&mut self.entries).into_iter().flatten()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.vacant.len() == self.entries.len()
    }

    /// Keys of the requests on a worker, in ascending order.
    pub(super) fn on_worker(&self, worker: usize) -> Vec<usize> {
        let is_there = |request: &Request| {
            let placed = request.placed.as_ref();
            placed.is_some_and(|placed| placed.worker == worker)
        };
        let entries = self.entries.iter().enumerate();
        entries
            .filter(|(_, entry)| entry.as_ref().is_some_and(is_there))
            .map(|(key, _)| key)
            .collect()
    }
}
