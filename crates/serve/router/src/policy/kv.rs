//! `kv`: least expected time, for the request and for everyone it disturbs.
//!
//! The caller offers only workers with a free slot, as long as there is one: a batch that
//! is full on one worker while another has room is the most expensive mistake there is, and
//! no saving of prefill is worth it. Of those, the cheapest wins. A cost is a sum of seconds:
//!
//! ```text
//! own first token   steps × step(in flight) + prefill × (pending + uncached)
//! queue             queueing × prefill × (pending + pending requests × uncached)
//! decodes           in flight × (interference × prefill × uncached + crowding × output × step growth)
//! eviction          where the cache is full: evicted × hit rate × prefill × uncached
//!                   where memory is short: (1 + in flight × interference) × prefill × tokens beyond it
//! slot wait         (in flight + 1 − slots) × residence ÷ slots; none where slots are free
//! ```
//!
//! All figures of the worker are learned ([`crate::learn`]); the constants below are pure
//! numbers, weights of one kind of second against another, and belong to no machine. There
//! is no hard bound on a worker's share of the load: the last two products already say what
//! company costs, and a bound on slots is blind where prompts or memory are what is short.
//!
//! Hot prefixes spread by themselves: as soon as the worker that holds one costs more time
//! than computing it elsewhere, elsewhere it is computed, and then two workers hold it. The
//! reason says so, because from outside it looks like a cache miss. It says something else if
//! the worker was left although it is not the busier one: then it has been measured slower.
//!
//! Where the index knows nothing that tells workers apart (an engine without events, a prompt
//! that is more than text), a client that names its session gives a hint: the worker of its last
//! request, if that is dearer by little more than nothing.

use std::cmp::Ordering;

use contract::random::Random as Draws;

use super::{Candidate, Choice, Holder, Policy, Reason, RequestView, Terms};
use crate::mode::ModeName;
use crate::policy::HOME_TOKENS;

/// Weight of the delay that prompts waiting on the same worker cause each other. Those that wait
/// there now are an estimate of those that will wait behind this one, so its own computing
/// counts once for each of them; and the work ahead of it counts once more, because the known
/// work is a lower bound.
///
/// This and the three weights below were chosen among dozens of settings by sweeps over the
/// shipped workloads and a public trace in virtual time, on two simulated profiles.
const QUEUEING: f32 = 1.0;

/// While a prompt is computed, decoding continues in the same steps, only slower. This is the
/// share of the prompt's time that each of those requests loses.
const INTERFERENCE: f32 = 0.15;

/// What one more request costs each of the others, as a share of what its longer steps would
/// cost them over a whole answer.
const CROWDING: f32 = 0.5;

/// Weight of eviction: a stored prompt evicts as many blocks, some of which would have been
/// reused soon.
const EVICTION: f32 = 1.0;

/// What the hint of a session is worth, as a share of the time for what the index says is still to
/// be computed: nothing where all of the prompt is known to be cached.
const SESSION_HINT: f64 = 0.1;

#[derive(Debug)]
pub struct Kv;

impl Policy for Kv {
    fn name(&self) -> &'static str {
        ModeName::Kv.as_str()
    }

    fn choose(
        &mut self,
        request: &RequestView<'_>,
        candidates: &mut [Candidate],
        draws: &mut Draws,
    ) -> Choice {
        for candidate in &mut *candidates {
            let terms = terms(request, candidate);
            candidate.terms = Some(terms);
            candidate.cost = Some(terms.total());
        }
        let index = cheapest(candidates, draws);
        if let Some(index) = session_worker(request, candidates, index) {
            let reason = Reason::SameSession;
            return Choice { index, reason };
        }
        Choice {
            index,
            reason: reason(request, candidates, index),
        }
    }
}

fn terms(request: &RequestView<'_>, candidate: &Candidate) -> Terms {
    let outlook = &candidate.outlook;
    let in_flight = candidate.in_flight as f32;
    let per_token = outlook.prefill_seconds_per_token;
    let prefill = candidate.uncached_tokens(request) as f32 * per_token;
    let pending = candidate.pending_prefill_tokens as f32 * per_token;
    let waiting = candidate.pending_requests as f32;
    let crowd = outlook.output_tokens * outlook.step_growth_seconds;
    let evicted = if candidate.cache_full {
        EVICTION * outlook.hit_rate * prefill
    } else {
        0.0
    };
    // An engine that runs out of memory interrupts a request and computes it again later, beside
    // those that decode.
    let again = candidate.tokens_beyond_memory(request) * per_token;
    let interrupted = again * (1.0 + INTERFERENCE * in_flight);
    Terms {
        ttft_ms: 1e3 * candidate.first_token_seconds(request),
        queue_ms: 1e3 * QUEUEING * (pending + waiting * prefill),
        decode_ms: 1e3 * in_flight * (INTERFERENCE * prefill + CROWDING * crowd),
        eviction_ms: 1e3 * (evicted + interrupted),
        wait_ms: 1e3 * candidate.wait_seconds(),
    }
}

fn cmp_cost(left: &Candidate, right: &Candidate) -> Ordering {
    let cost = |candidate: &Candidate| candidate.cost.expect("every candidate was weighed");
    cost(left)
        .total_cmp(&cost(right))
        .then_with(|| left.cmp_load(right))
}

/// The one that costs least; any of several that are alike.
fn cheapest(candidates: &[Candidate], draws: &mut Draws) -> usize {
    let (mut cheapest, mut alike) = (0, 1);
    for (index, candidate) in candidates.iter().enumerate().skip(1) {
        match cmp_cost(candidate, &candidates[cheapest]) {
            Ordering::Less => (cheapest, alike) = (index, 1),
            Ordering::Greater => {}
            Ordering::Equal => {
                alike += 1;
                // Taking the n-th with probability 1/n makes all of them equally likely.
                if draws.below(alike) == 0 {
                    cheapest = index;
                }
            }
        }
    }
    cheapest
}

/// The session's last worker, where it takes the request from the cheapest one: it holds no less
/// of the prompt and costs hardly more.
fn session_worker(
    request: &RequestView<'_>,
    candidates: &[Candidate],
    cheapest: usize,
) -> Option<usize> {
    let last = request.session_worker?;
    let index = candidates.iter().position(|one| one.worker == last)?;
    let (last, winner) = (&candidates[index], &candidates[cheapest]);
    if index == cheapest || last.cached_tokens < winner.cached_tokens {
        return None;
    }
    let uncached = f64::from(last.uncached_tokens(request));
    let margin = SESSION_HINT * uncached * f64::from(last.outlook.prefill_seconds_per_token) * 1e3;
    let cost = |candidate: &Candidate| candidate.cost.expect("every candidate was weighed");
    (cost(last) <= cost(winner) + margin).then_some(index)
}

fn reason(request: &RequestView, candidates: &[Candidate], index: usize) -> Reason {
    let winner = &candidates[index];
    if let Some(passed) = passed_over(request, candidates, winner) {
        return passed;
    }
    if candidates.len() == 1 {
        return Reason::OnlyOne;
    }
    Reason::Cheapest {
        terms: winner.terms.expect("every candidate was weighed"),
    }
}

/// Why a worker that holds much more of the prompt was passed over, if one was.
fn passed_over(
    request: &RequestView,
    candidates: &[Candidate],
    winner: &Candidate,
) -> Option<Reason> {
    let much = winner.cached_tokens + HOME_TOKENS;
    let open = candidates
        .iter()
        .max_by_key(|candidate| candidate.cached_tokens)
        .filter(|holder| holder.cached_tokens >= much);
    let full = request
        .full_holder
        .filter(|holder| holder.cached_tokens >= much);
    match (open, full) {
        (Some(open), full) if full.is_none_or(|full| full.cached_tokens <= open.cached_tokens) => {
            Some(dearer(open, winner))
        }
        (_, Some(Holder { worker, .. })) => Some(Reason::HotSpread {
            holder: worker,
            dearer: None,
        }),
        (_, None) => None,
    }
}

/// Why the holder costs more: it has more to do, or it does not and is slower.
fn dearer(holder: &Candidate, winner: &Candidate) -> Reason {
    let terms = |candidate: &Candidate| candidate.terms.expect("every candidate was weighed");
    let dearer = terms(holder).beyond(&terms(winner));
    let busier = holder.in_flight > winner.in_flight
        || holder.pending_prefill_tokens > winner.pending_prefill_tokens;
    if busier {
        Reason::HotSpread {
            holder: holder.worker,
            dearer: Some(dearer),
        }
    } else {
        Reason::FasterElsewhere {
            holder: holder.worker,
            more_tokens: holder.cached_tokens - winner.cached_tokens,
            dearer,
        }
    }
}

#[cfg(test)]
mod tests;
