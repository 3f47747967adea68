//! Which workers may take the current request, and the figures by which each is judged.
//!
//! Every member is looked at once. Those that may not take it are kept with the reason,
//! because a decision is only explained if it says who was passed over.

use contract::{Moment, WorkerId};

use super::members::{Member, Members};
use crate::active_blocks::ActiveBlocks;
use crate::config::RouterConfig;
use crate::decision::{Excluded, WhyNot};
use crate::policy::HOME_TOKENS;
use crate::policy::{Candidate, Holder};
use crate::prefix_index::PrefixIndex;
use crate::query::RouteQuery;

/// The share of its blocks at which a cache counts as full. Engines keep it there once it
/// has filled up, less what their events have not said yet.
const FULL_CACHE: f64 = 0.95;

/// The members, sorted for one request. Kept between requests for its memory only.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) candidates: Vec<Candidate>,
    pub(super) excluded: Vec<Excluded>,
    /// Of those that are full, the one with most of the prompt.
    pub(super) full_holder: Option<Holder>,
    /// Leading blocks of the prompt that are held, by slot.
    held: Vec<u32>,
    /// Leading blocks of the prompt that are in use, by slot.
    used: Vec<u32>,
}

/// The state that a survey reads.
#[derive(Clone, Copy)]
pub(super) struct Books<'a> {
    pub(super) config: &'a RouterConfig,
    pub(super) members: &'a Members,
    pub(super) index: &'a PrefixIndex,
    pub(super) active: &'a ActiveBlocks,
    pub(super) now: Moment,
}

impl Survey {
    pub(super) fn reserve_slots(&mut self, slots: usize) {
        self.held.resize(slots, 0);
        self.used.resize(slots, 0);
    }

    pub(super) fn take(&mut self, books: Books<'_>, query: &RouteQuery<'_>) {
        self.candidates.clear();
        self.excluded.clear();
        self.full_holder = None;
        books.index.overlap(query.chain, &mut self.held);
        books.active.overlap(query.chain, &mut self.used);
        let asked = RequestNeeds::new(books.config, query);
        for (slot, member) in books.members.iter() {
            let why = why_not(books, member, query);
            if let Some(why) = why {
                let worker = member.worker;
                self.excluded.push(Excluded { worker, why });
                if why == WhyNot::Full {
                    self.note_full_holder(worker, self.cached_tokens(slot, &asked));
                }
                continue;
            }
            let known = WorkerOverlap {
                held: self.held[slot],
                used: self.used[slot],
                in_use: blocks_in_use(books.active, slot, member),
                indexed: books.index.held(slot),
            };
            self.candidates.push(asked.candidate(member, known));
        }
    }

    /// Whether `home` is among the best places for the request, free or not: it would have
    /// to compute at most [`HOME_TOKENS`] more there than anywhere.
    pub(super) fn is_home(
        &mut self,
        books: Books<'_>,
        query: &RouteQuery<'_>,
        home: WorkerId,
    ) -> bool {
        books.index.overlap(query.chain, &mut self.held);
        books.active.overlap(query.chain, &mut self.used);
        let asked = RequestNeeds::new(books.config, query);
        let (mut here, mut most) = (0, 0);
        for (slot, member) in books.members.iter() {
            if member.draining || query.excludes(member.worker).is_some() {
                continue;
            }
            let cached = self.cached_tokens(slot, &asked);
            most = most.max(cached);
            if member.worker == home {
                here = cached;
            }
        }
        here + HOME_TOKENS >= most
    }

    fn note_full_holder(&mut self, worker: WorkerId, cached_tokens: u32) {
        let holder = &mut self.full_holder;
        if holder.is_none_or(|holder| holder.cached_tokens < cached_tokens) {
            *holder = Some(Holder {
                worker,
                cached_tokens,
            });
        }
    }

    /// Prompt tokens that the worker in that slot would reuse.
    fn cached_tokens(&self, slot: usize, asked: &RequestNeeds) -> u32 {
        // Both are depths into the same chain, so the union of the two is the deeper one.
        asked.reusable_tokens(self.held[slot].max(self.used[slot]))
    }
}

/// What the index and the reservations say about one worker.
#[derive(Clone, Copy)]
struct WorkerOverlap {
    /// Leading blocks of the prompt that its events confirmed.
    held: u32,
    /// Leading blocks of the prompt that its running requests use.
    used: u32,
    /// All blocks that its running requests use.
    in_use: u32,
    /// All blocks that its events confirmed.
    indexed: usize,
}

/// What a request needs on every worker, computed once: divisions are expensive.
pub(super) struct RequestNeeds {
    prompt_tokens: u32,
    blocks: u32,
    block_size: u32,
    partial_block: bool,
    most_reusable_blocks: u32,
}

impl RequestNeeds {
    pub(super) fn new(config: &RouterConfig, query: &RouteQuery<'_>) -> Self {
        let block_size = config.blocks.size;
        Self {
            prompt_tokens: query.prompt_tokens,
            blocks: query.chain.len() as u32,
            block_size,
            partial_block: query.has_partial_block(block_size),
            // An engine computes at least the last token, so a prompt that ends with a block
            // never reuses that block.
            most_reusable_blocks: query.prompt_tokens.saturating_sub(1) / block_size,
        }
    }

    /// How much of the prompt a worker reuses that holds so many of its leading blocks.
    pub(super) fn reusable_tokens(&self, blocks: u32) -> u32 {
        blocks.min(self.most_reusable_blocks) * self.block_size
    }

    fn candidate(&self, member: &Member, known: WorkerOverlap) -> Candidate {
        let overlap_blocks = known.held.max(known.used);
        let cached_tokens = self.reusable_tokens(overlap_blocks);
        let pending_prefill_tokens =
            member.load.pending_prefill_tokens + member.others.pending_prefill_tokens;
        let uncached_tokens = u64::from(self.prompt_tokens.saturating_sub(cached_tokens));
        let prefill_tokens = pending_prefill_tokens + uncached_tokens;
        Candidate {
            worker: member.worker,
            slots: member.slots,
            in_flight: member.in_flight(),
            overlap_blocks,
            cached_tokens,
            pending_prefill_tokens,
            pending_requests: member.load.pending_requests + member.others.pending_requests,
            prefill_blocks: prefill_tokens as f64 / f64::from(self.block_size),
            decode_blocks: known.in_use,
            new_blocks: self.blocks - known.used + u32::from(self.partial_block),
            total_blocks: member.total_blocks,
            confirmed_blocks: known.held,
            cache_full: member.total_blocks > 0
                && known.indexed as f64 >= FULL_CACHE * f64::from(member.total_blocks),
            outlook: member.outlook,
            terms: None,
            cost: None,
        }
    }
}

/// Whether a worker may be sent another request. Where requests wait in the router, it
/// needs a free slot; elsewhere, a place in the engine's queue will do.
pub(super) fn has_room(config: &RouterConfig, member: &Member) -> bool {
    match (config.mode.binds_late(), member.lease) {
        // The worker divides its slots among frontends, so that together they never exceed
        // them however late they hear of each other.
        (true, Some(lease)) => member.load.in_flight < lease.slots,
        (true, None) => member.in_flight() < member.slots,
        (false, _) => member.in_flight() < member.slots.saturating_add(config.queue_limit),
    }
}

/// Whether its past lets it have another request.
pub(super) fn is_trusted(member: &Member, now: Moment) -> bool {
    let most = member.health.most(now);
    let since = member.load.in_flight.saturating_sub(member.veterans);
    most.is_none_or(|most| since < most)
}

/// Blocks that a worker's running requests use, shared ones counted once.
pub(super) fn blocks_in_use(active: &ActiveBlocks, slot: usize, member: &Member) -> u32 {
    active.count(slot) as u32 + member.load.partial_blocks + member.others.active_blocks
}

fn why_not(books: Books<'_>, member: &Member, query: &RouteQuery<'_>) -> Option<WhyNot> {
    if member.draining {
        Some(WhyNot::Draining)
    } else if let Some(why) = query.excludes(member.worker) {
        Some(why)
    } else if !is_trusted(member, books.now) {
        Some(WhyNot::Unsound)
    } else if !has_room(books.config, member) {
        Some(WhyNot::Full)
    } else {
        None
    }
}
