//! `kv`: least expected time, for the request and for everyone it disturbs.
//!
//! The caller offers only workers with a free slot, as long as there is one: a batch that
//! is full on one worker while another has room is the most expensive mistake there is, and
//! no saving of prefill is worth it. Of those, the ones that are not crowded compared with
//! the fleet take part, and the cheapest wins. A cost is a sum of seconds:
//!
//! ```text
//! own first token   steps × step(in flight) + prefill × (pending + uncached)
//! decodes           in flight × (interference × prefill × uncached + crowding × output × step growth)
//! eviction          where the cache is full: evicted × hit rate × prefill × uncached
//! slot wait         (in flight + 1 − slots) × residence ÷ slots; none where slots are free
//! ```
//!
//! All figures of the worker are learned ([`crate::learn`]); the constants below are pure
//! numbers, weights of one kind of second against another, and belong to no machine.
//!
//! Hot prefixes spread by themselves: as soon as the worker that holds one costs more time
//! than computing it elsewhere, elsewhere it is computed, and then two workers hold it. The
//! reason says so, because from outside it looks like a cache miss.

use std::cmp::Ordering;

use contract::random::Random as Draws;

use super::{Candidate, Choice, Holder, Policy, Reason, RequestView, Terms};
use crate::mode::ModeName;
use crate::queue::HOME_TOKENS;

/// While a prompt is computed, decoding goes on in the same steps, only slower. The share of
/// the prompt's time that each of those requests loses.
///
/// This and [`CROWDING`] were chosen among some thirty settings by sweeps over the shipped
/// workloads in virtual time, on one simulated profile and one seed: on the specification's
/// workload no latency is worse than round robin's by more than 3 %.
const INTERFERENCE: f32 = 0.25;

/// What one request more costs each of the others, of what longer steps would cost them over
/// a whole answer.
const CROWDING: f32 = 1.0;

/// What is stored evicts as much, some of it about to be asked for, by several requests. From
/// a simulation study of another engine model; not fitted here.
const EVICTION: f32 = 3.0;

/// A worker with at most this share of its slots taken is never crowded. From the same study,
/// like the two bounds below.
const FREE_SHARE: f64 = 0.75;
/// How far above the fleet's share of taken slots a worker may be, relatively and in slots.
const ABOVE_FLEET: f64 = 1.10;
const ABOVE_FLEET_SLOTS: f64 = 2.0;

#[derive(Debug)]
pub struct Kv;

impl Policy for Kv {
    fn name(&self) -> &'static str {
        ModeName::Kv.as_str()
    }

    fn choose(
        &mut self,
        request: &RequestView,
        candidates: &mut [Candidate],
        draws: &mut Draws,
    ) -> Choice {
        for candidate in &mut *candidates {
            let terms = terms(request, candidate);
            candidate.terms = Some(terms);
            candidate.cost = Some(terms.total());
        }
        let share = (request.fleet.in_flight + 1) as f64 / request.fleet.slots.max(1) as f64;
        let bounded = |candidate: &&Candidate| !is_crowded(candidate, share);
        let (index, bounded) = match best(candidates, bounded, cmp_cost, draws) {
            Some(index) => (index, true),
            None => {
                let least_loaded = best(candidates, |_| true, Candidate::cmp_load, draws);
                (least_loaded.expect("there is a candidate"), false)
            }
        };
        Choice {
            index,
            reason: reason(request, candidates, index, bounded),
        }
    }
}

fn terms(request: &RequestView, candidate: &Candidate) -> Terms {
    let outlook = &candidate.outlook;
    let in_flight = candidate.in_flight as f32;
    let prefill = candidate.uncached_tokens(request) as f32 * outlook.prefill_seconds_per_token;
    let crowd = outlook.output_tokens * outlook.step_growth_seconds;
    let eviction = if candidate.cache_full {
        EVICTION * outlook.hit_rate * prefill
    } else {
        0.0
    };
    Terms {
        ttft_ms: 1e3 * candidate.first_token_seconds(request),
        decode_ms: 1e3 * in_flight * (INTERFERENCE * prefill + CROWDING * crowd),
        eviction_ms: 1e3 * eviction,
        wait_ms: 1e3 * candidate.wait_seconds(),
    }
}

/// Whether a worker would have a larger share of its slots taken than is fair.
fn is_crowded(candidate: &Candidate, share: f64) -> bool {
    let slots = f64::from(candidate.slots);
    let fair = share * slots;
    let limit = (FREE_SHARE * slots)
        .max(ABOVE_FLEET * fair)
        .max(fair + ABOVE_FLEET_SLOTS);
    f64::from(candidate.in_flight + 1) > limit
}

fn cmp_cost(left: &Candidate, right: &Candidate) -> Ordering {
    let cost = |candidate: &Candidate| candidate.cost.expect("every candidate was weighed");
    cost(left)
        .total_cmp(&cost(right))
        .then_with(|| left.cmp_load(right))
}

/// The least of those that take part; any of several that are alike.
fn best(
    candidates: &[Candidate],
    takes_part: impl Fn(&&Candidate) -> bool,
    compare: impl Fn(&Candidate, &Candidate) -> Ordering,
    draws: &mut Draws,
) -> Option<usize> {
    let mut best: Option<(usize, usize)> = None;
    let part = candidates.iter().enumerate();
    for (index, candidate) in part.filter(|(_, candidate)| takes_part(candidate)) {
        best = match best {
            None => Some((index, 1)),
            Some((held, alike)) => match compare(candidate, &candidates[held]) {
                Ordering::Less => Some((index, 1)),
                Ordering::Greater => Some((held, alike)),
                // Taking the n-th with probability 1/n makes all of them equally likely.
                Ordering::Equal if draws.below(alike + 1) == 0 => Some((index, alike + 1)),
                Ordering::Equal => Some((held, alike + 1)),
            },
        };
    }
    best.map(|(index, _)| index)
}

fn reason(request: &RequestView, candidates: &[Candidate], index: usize, bounded: bool) -> Reason {
    let winner = &candidates[index];
    if let Some(spread) = hot_spread(request, candidates, winner) {
        return spread;
    }
    if candidates.len() == 1 {
        return Reason::OnlyOne;
    }
    if !bounded {
        return Reason::LeastLoaded {
            in_flight: winner.in_flight,
            slots: winner.slots,
        };
    }
    Reason::Cheapest {
        terms: winner.terms.expect("every candidate was weighed"),
    }
}

/// Whether somebody who holds much more of the prompt was passed over.
fn hot_spread(
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
        .fleet
        .full_holder
        .filter(|holder| holder.cached_tokens >= much);
    let cost = |candidate: &Candidate| candidate.cost.expect("every candidate was weighed");
    match (open, full) {
        (Some(open), full) if full.is_none_or(|full| full.cached_tokens <= open.cached_tokens) => {
            Some(Reason::HotSpread {
                holder: open.worker,
                dearer_ms: Some(cost(open) - cost(winner)),
            })
        }
        (_, Some(Holder { worker, .. })) => Some(Reason::HotSpread {
            holder: worker,
            dearer_ms: None,
        }),
        (_, None) => None,
    }
}

#[cfg(test)]
mod tests;
