//! What is learned from an answer's chunks as they come: for the metrics, for the router, and for the
//! request trace.

use contract::{Moment, TokenChunk};
use router::Placement;

use crate::metrics::{RequestRecord, TokenTimes};
use crate::recorded::Recorded;

/// The router learns a worker's speed from how long so many tokens take: about a second on
/// a busy worker, so that reporting costs next to nothing.
const PROGRESS_TOKENS: u32 = 32;

/// The books of one answer.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) times: TokenTimes,
    /// Tokens after a leg's first chunk that were not reported to the router yet.
    unreported: u32,
    /// Written with the end of the books.
    pub(crate) recorded: Recorded,
}

/// Tells the router that a worker has begun to answer.
pub(crate) fn begins(placement: &mut Placement, first: &TokenChunk, now: Moment) {
    let started = first.started.as_ref();
    let cached_tokens = started.map_or(0, |started| started.cached_tokens);
    match first.is_whole_answer() {
        true => placement.whole_answer(cached_tokens, now),
        false => placement.first_token(cached_tokens, now),
    }
}

impl Books {
    /// Another worker goes on with the answer.
    pub(crate) fn leg_begins(&mut self) {
        self.unreported = 0;
    }

    /// A chunk has come, with which a worker begins or goes on. Without a placement the router is not
    /// told.
    pub(crate) fn record(
        &mut self,
        chunk: &TokenChunk,
        begins: bool,
        record: &RequestRecord,
        placement: Option<&mut Placement>,
    ) {
        let tokens = chunk.count();
        let now = match chunk.is_whole_answer() && begins {
            true => record.whole_answer(tokens),
            false => record.tokens(&mut self.times, tokens),
        };
        self.recorded.chunk(chunk, now);
        let Some(placement) = placement else { return };
        // How long a leg's first chunk took says how fast prompts are computed, not tokens.
        if !begins {
            self.unreported += tokens;
            // Some engines say only at the end what they found cached.
            if let Some(started) = &chunk.started {
                placement.found_cached(started.cached_tokens);
            }
        }
        if self.unreported >= PROGRESS_TOKENS || chunk.finish.is_some() {
            let tokens = std::mem::take(&mut self.unreported);
            placement.progress(tokens, now);
        }
    }
}
