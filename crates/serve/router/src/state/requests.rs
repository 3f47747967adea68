//! The life of a placed request: first token, progress, end.
//!
//! Each step settles the books and teaches: what the request was expected to do is compared
//! with what it does.

use std::time::Duration;

use contract::{BlockHash, Moment};

use super::State;
use super::members::Member;
use crate::decision::Handling;
use crate::learn::{FirstToken, Mark};
use crate::load::Share;
use crate::query::Claim;
use crate::queue::Charge;

/// So many requests in a row must find much less in a worker's cache than its events had
/// confirmed before the events are doubted. Evictions on the way explain a few.
const CONTRADICTIONS: u32 = 8;
/// Requests with fewer confirmed tokens are not counted as contradictions.
const LEAST_CONFIRMED: u32 = 256;
/// A first token that takes so many times longer than expected has waited in the engine.
const LATE: u32 = 4;

/// What one claim stands for.
#[derive(Debug)]
pub(super) struct Reservation {
    pub(super) slot: usize,
    pub(super) incarnation: u64,
    /// [`Member::shuns`] when it was placed.
    pub(super) shuns: u32,
    pub(super) chain: Box<[BlockHash]>,
    pub(super) share: Share,
    pub(super) started: bool,
    pub(super) decision: u64,
    pub(super) prompt_tokens: u32,
    /// Prompt tokens that the worker's events had confirmed.
    pub(super) confirmed_tokens: u32,
    /// Prompt tokens that the worker found cached, as last reported.
    pub(super) found_tokens: Option<u32>,
    /// What was on the worker at dispatch.
    pub(super) pending_before: u64,
    pub(super) in_flight_before: u32,
    /// All slots were taken, so it waited in the engine.
    pub(super) beyond_slots: bool,
    /// When progress was last reported.
    pub(super) mark: Mark,
    /// Tokens after the first.
    pub(super) output_tokens: u32,
    /// What its tenant was charged, if it had to wait.
    pub(super) charge: Option<Charge>,
}

/// What the beginning of an answer says about its worker's speed.
#[derive(Clone, Copy, Debug)]
enum Learn {
    FirstToken,
    Nothing,
}

impl State {
    /// The request's first token is out: its prompt is no longer pending. Returns whether this was
    /// news.
    pub fn first_token(&mut self, claim: &Claim, cached_tokens: u32, now: Moment) -> bool {
        self.started(claim, cached_tokens, now, Learn::FirstToken)
    }

    /// The whole answer is out in one piece: when its first token was is not known, and nothing
    /// is learned of the worker's speed.
    pub fn whole_answer(&mut self, claim: &Claim, cached_tokens: u32, now: Moment) {
        self.started(claim, cached_tokens, now, Learn::Nothing);
    }

    /// Records what was decided about the request before it was routed.
    pub fn handled(&mut self, claim: &Claim, handling: &Handling) {
        self.log.amend(claim.decision, |decision| {
            decision.forwarded.clone_from(&handling.forwarded);
            decision.normalized = handling.normalized;
        });
    }

    fn started(&mut self, claim: &Claim, cached_tokens: u32, now: Moment, learn: Learn) -> bool {
        let Some(reservation) = self.reservations.get_mut(claim.key) else {
            return false;
        };
        if std::mem::replace(&mut reservation.started, true) {
            return false;
        }
        if let Some(member) = self
            .members
            .tenant(reservation.slot, reservation.incarnation)
        {
            member.load.first_token(&mut reservation.share);
            member.health.served(member.slots);
            member.profile.progressed = now;
            reservation.mark = member.profile.occupancy.mark(now);
            match learn {
                Learn::FirstToken => {
                    learn_first_token(member, reservation, claim, cached_tokens, now);
                    if member.profile.learner.is_new() {
                        self.compared = None;
                    }
                }
                Learn::Nothing => {}
            }
        }
        reservation.found_tokens = Some(cached_tokens);
        self.log.amend(reservation.decision, |decision| {
            decision.record_first_token(cached_tokens, now);
        });
        true
    }

    /// Takes a late report of the cached tokens that differs from the one with the first token.
    pub fn found_cached(&mut self, claim: &Claim, cached_tokens: u32) {
        let Some(reservation) = self.reservations.get_mut(claim.key) else {
            return;
        };
        reservation.found_tokens = Some(cached_tokens);
        self.log.amend(reservation.decision, |decision| {
            decision.actual_cached_tokens = Some(cached_tokens);
        });
    }

    /// So many tokens have come since the first token or the last call. To be called now and
    /// then, every second or every few dozen tokens, and before the end.
    pub fn progress(&mut self, claim: &Claim, tokens: u32, now: Moment) {
        let Some(reservation) = self.reservations.get_mut(claim.key) else {
            return;
        };
        reservation.output_tokens += tokens;
        if !reservation.started {
            return;
        }
        if let Some(member) = self
            .members
            .tenant(reservation.slot, reservation.incarnation)
        {
            let during = member.profile.occupancy.since(reservation.mark, now);
            reservation.mark = member.profile.occupancy.mark(now);
            member.profile.learner.progress(tokens, during, now);
            if tokens > 0 {
                member.profile.progressed = now;
            }
            member.apply_learned();
        }
    }

    /// The request has failed for a reason that lies with its worker. The claim is still to be
    /// released.
    pub fn failed(&mut self, claim: &Claim, now: Moment) {
        if let Some(reservation) = self.reservations.get_mut(claim.key)
            && let Some(member) = self
                .members
                .tenant(reservation.slot, reservation.incarnation)
        {
            member.blame(now);
        }
    }

    /// Nothing has come for the request for `quiet`. That lies with the worker if nobody else
    /// got anything either, for the second half of that time at least: what others get is heard
    /// of with some delay.
    pub fn stalled(&mut self, claim: &Claim, quiet: Duration, now: Moment) {
        if let Some(reservation) = self.reservations.get_mut(claim.key)
            && let Some(member) = self
                .members
                .tenant(reservation.slot, reservation.incarnation)
            && now.since(member.profile.progressed) >= quiet / 2
        {
            member.blame(now);
        }
    }

    /// Gives the place back, however the request ended. Returns whether the claim was still open.
    pub fn release(&mut self, claim: &Claim, now: Moment) -> bool {
        let Some(reservation) = self.reservations.take(claim.key) else {
            return false;
        };
        let Reservation {
            slot,
            incarnation,
            chain,
            share,
            decision,
            ..
        } = &reservation;
        let answered = reservation.output_tokens + u32::from(reservation.started);
        if reservation.output_tokens > 0 {
            self.queue.heed_output(answered);
        }
        if let Some(charge) = reservation.charge {
            self.queue.settle(charge, answered);
        }
        if let Some(member) = self.members.tenant(*slot, *incarnation) {
            member.load.remove(*share);
            if reservation.shuns != member.shuns {
                member.veterans = member.veterans.saturating_sub(1);
            }
            self.active.release(*slot, chain);
            if member.load.in_flight == 0 {
                // Nothing can be in use. Usually nothing is left; see `active_blocks` for
                // the one case in which something may be.
                self.active.forget(*slot);
            }
            let in_flight = member.in_flight();
            member.profile.occupancy.set(in_flight, now);
            if reservation.started && reservation.output_tokens > 0 {
                let residence = now.since(claim.at);
                let tokens = reservation.output_tokens + 1;
                member.profile.learner.ended(tokens, residence, now);
                member.apply_learned();
            }
            // At the end, because some engines say only then what they found.
            if let Some(found) = reservation.found_tokens {
                doubt_feed(member, &reservation, found);
            }
            self.completions.record(now);
        }
        self.log
            .amend(*decision, |decision| decision.record_end(now));
        true
    }
}

fn learn_first_token(
    member: &mut Member,
    reservation: &Reservation,
    claim: &Claim,
    cached_tokens: u32,
    now: Moment,
) {
    let after = now.since(claim.at);
    let uncached = reservation.prompt_tokens.saturating_sub(cached_tokens);
    let in_flight = reservation.in_flight_before;
    // Where slots are only believed, a late first token is how one finds out.
    let late = after > claim.predicted_first_token * LATE;
    let mut waited = reservation.beyond_slots;
    if let Some(slots) = &mut member.profile.slots {
        waited |= slots.first_token(in_flight, late);
    }
    let seen = FirstToken {
        after,
        in_flight,
        work_tokens: reservation.pending_before + u64::from(uncached),
        prompt_tokens: reservation.prompt_tokens,
        cached_tokens,
        waited,
    };
    member.profile.learner.first_token(&seen, now);
    member.apply_learned();
}

/// Notices when a worker does not have the blocks that its events reported.
fn doubt_feed(member: &mut Member, reservation: &Reservation, cached_tokens: u32) {
    let confirmed = reservation.confirmed_tokens;
    if confirmed < LEAST_CONFIRMED {
        return;
    }
    if cached_tokens >= confirmed / 2 {
        member.profile.contradictions = 0;
        return;
    }
    member.profile.contradictions += 1;
    if member.profile.contradictions == CONTRADICTIONS {
        member.profile.contradictions = 0;
        member.profile.feed.doubt();
    }
}
