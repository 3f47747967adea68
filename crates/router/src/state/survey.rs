//! Who may take the request at hand, and on which figures each is judged.
//!
//! Every member is looked at once. Those that may not take it are kept with the reason,
//! because a decision is only explained if it says who was passed over.

use super::members::{Member, Members};
use crate::active_blocks::ActiveBlocks;
use crate::config::RouterConfig;
use crate::decision::{Excluded, WhyNot};
use crate::policy::Candidate;
use crate::prefix_index::PrefixIndex;
use crate::query::RouteQuery;

/// The members, sorted for one request. Kept between requests for its memory only.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) candidates: Vec<Candidate>,
    pub(super) excluded: Vec<Excluded>,
    /// Leading blocks of the prompt that are held, by slot.
    held: Vec<u32>,
    /// Leading blocks of the prompt that are in use, by slot.
    used: Vec<u32>,
}

/// The books that a survey reads.
#[derive(Clone, Copy)]
pub(super) struct Books<'a> {
    pub(super) config: &'a RouterConfig,
    pub(super) members: &'a Members,
    pub(super) index: &'a PrefixIndex,
    pub(super) active: &'a ActiveBlocks,
}

impl Survey {
    pub(super) fn reserve_slots(&mut self, slots: usize) {
        self.held.resize(slots, 0);
        self.used.resize(slots, 0);
    }

    pub(super) fn take(&mut self, books: Books<'_>, query: &RouteQuery<'_>) {
        self.candidates.clear();
        self.excluded.clear();
        books.index.overlap(query.chain, &mut self.held);
        books.active.overlap(query.chain, &mut self.used);
        for (slot, member) in books.members.iter() {
            if let Some(why) = why_not(books.config, member, query) {
                self.excluded.push(Excluded {
                    worker: member.worker,
                    why,
                });
                continue;
            }
            let known = Known {
                held: self.held[slot],
                used: self.used[slot],
                in_use: blocks_in_use(books.active, slot, member),
            };
            self.candidates
                .push(candidate(books.config, member, query, known));
        }
    }
}

/// What the index and the books say about one worker.
#[derive(Clone, Copy)]
struct Known {
    /// Leading blocks of the prompt that its events confirmed.
    held: u32,
    /// Leading blocks of the prompt that its requests under way use.
    used: u32,
    /// All blocks that its requests under way use.
    in_use: u32,
}

/// Blocks that a worker's requests under way use, shared ones counted once.
pub(super) fn blocks_in_use(active: &ActiveBlocks, slot: usize, member: &Member) -> u32 {
    active.count(slot) as u32 + member.load.partial_blocks
}

fn why_not(config: &RouterConfig, member: &Member, query: &RouteQuery<'_>) -> Option<WhyNot> {
    if member.draining {
        Some(WhyNot::Draining)
    } else if query.excluded.contains(&member.worker) {
        Some(WhyNot::Tried)
    } else if member.load.in_flight >= member.slots.saturating_add(config.queue_limit) {
        Some(WhyNot::Full)
    } else {
        None
    }
}

fn candidate(
    config: &RouterConfig,
    member: &Member,
    query: &RouteQuery<'_>,
    known: Known,
) -> Candidate {
    let block_size = config.block_size;
    let blocks = query.chain.len() as u32;
    // Both are depths into the same chain, so the union of the two is the deeper one.
    let overlap_blocks = known.held.max(known.used);
    // An engine computes at least the last token, so a prompt that ends with a block never
    // reuses that block.
    let reusable_blocks = query.prompt_tokens.saturating_sub(1) / block_size;
    let cached_tokens = overlap_blocks.min(reusable_blocks) * block_size;
    let pending_prefill_tokens = member.load.pending_prefill_tokens;
    let uncached_tokens = u64::from(query.prompt_tokens.saturating_sub(cached_tokens));
    Candidate {
        worker: member.worker,
        slots: member.slots,
        in_flight: member.load.in_flight,
        overlap_blocks,
        cached_tokens,
        pending_prefill_tokens,
        prefill_blocks: (pending_prefill_tokens + uncached_tokens) as f64 / f64::from(block_size),
        decode_blocks: known.in_use,
        new_blocks: blocks - known.used + u32::from(query.has_partial_block(block_size)),
        cost: None,
    }
}
