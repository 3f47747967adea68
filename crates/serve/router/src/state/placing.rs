//! A request finds its worker, at once or after waiting for a slot.
//!
//! Both ways end in the same place: the members are surveyed, the policy chooses, and the
//! choice is booked before anyone else can look. A request that waited is judged again when
//! a slot frees, on what is true then.

use std::time::Duration;

use contract::Moment;

use super::State;
use super::requests::Reservation;
use super::survey::{Books, RequestNeeds, has_room, is_trusted};
use crate::decision::{Decision, Outcome, WhyNot};
use crate::learn::{Fleet, Mark};
use crate::load::Share;
use crate::policy::{Candidate, Choice, Reason, RequestView};
use crate::query::{Claim, Placed, RouteError, RouteQuery, Ticket};
use crate::queue::{Queue, Waiting};
use crate::reservations::Key;

/// How often what was learned about the workers is weighed against each other.
const COMPARE_EVERY: Duration = Duration::from_secs(1);

/// Bounds of the retry time that a rejected client gets, as it is only an estimate.
const LEAST_RETRY: Duration = Duration::from_secs(1);
const MOST_RETRY: Duration = Duration::from_secs(60);

/// What a request went through before it was placed.
#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    waited: Duration,
    overtaken: u32,
    queued: bool,
}

impl State {
    /// Chooses a worker and books the request on it, or lets it wait.
    pub fn place(&mut self, query: &RouteQuery<'_>, now: Moment) -> Result<Placed, RouteError> {
        self.compare_outlooks(now);
        self.look(query, now);
        if self.survey.candidates.is_empty() {
            return self.wait(query, now).map(Placed::Waiting);
        }
        Ok(Placed::Now(self.bind(query, Wait::default(), now).0))
    }

    /// Binds a waiting request to a free slot. Call it until `None` whenever room may have
    /// come: after a release, a join, a change of mode, and a first token or a report where
    /// slots are learned.
    pub fn ready(&mut self, now: Moment) -> Option<(Ticket, Claim)> {
        if self.queue.is_empty() {
            return None;
        }
        self.compare_outlooks(now);
        let (ticket, waiting) = self.next_in_turn(now)?;
        let query = waiting.query();
        self.look(&query, now);
        let wait = Wait {
            waited: now.since(waiting.since),
            overtaken: waiting.overtaken,
            queued: true,
        };
        let (claim, prompt_tokens) = self.bind(&query, wait, now);
        let charge = self.queue.charge(&waiting, prompt_tokens);
        if let Some(reservation) = self.reservations.get_mut(claim.key) {
            reservation.charge = Some(charge);
        }
        Some((ticket, claim))
    }

    pub fn is_waiting(&self, ticket: Ticket) -> bool {
        self.queue.get(ticket).is_some()
    }

    /// Takes a request out of the queue if its time is up.
    pub fn time_out(&mut self, ticket: Ticket, now: Moment) -> Option<RouteError> {
        let deadline = self.queue.get(ticket)?.deadline?;
        if now < deadline {
            return None;
        }
        self.queue.take(ticket);
        let retry_after = self.completions.expected_wait(now);
        Some(RouteError::QueueTimeout { retry_after })
    }

    /// The requests that had to make place in a full queue for others with less of it: call it
    /// after a request was let wait, and tell them.
    pub fn displaced(&mut self, now: Moment) -> Vec<(Ticket, RouteError)> {
        if self.displaced.is_empty() {
            return Vec::new();
        }
        let retry_after = self.completions.expected_wait(now);
        let told = |ticket| (ticket, RouteError::Saturated { retry_after });
        self.displaced.drain(..).map(told).collect()
    }

    /// Takes a request out of the queue. Returns whether it was still there.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        self.queue.take(ticket).is_some()
    }

    /// Takes out the requests that nobody is left to serve: call it after a worker left or
    /// began to drain, and tell them.
    pub fn stranded(&mut self) -> Vec<Ticket> {
        if !std::mem::take(&mut self.may_strand) {
            return Vec::new();
        }
        let Self { queue, members, .. } = self;
        queue.take_lost(|waiting| {
            !members
                .iter()
                .any(|(_, member)| !member.draining && waiting.may_go_to(member.worker))
        })
    }

    /// The waiting request that the emptiest worker with room should have; that of the next
    /// emptiest if none may go there.
    fn next_in_turn(&mut self, now: Moment) -> Option<(Ticket, Waiting)> {
        let Self {
            config,
            members,
            index,
            active,
            survey,
            queue,
            open,
            ..
        } = self;
        open.clear();
        for (_, member) in members.iter() {
            if !member.draining && is_trusted(member, now) && has_room(config, member) {
                let load = f64::from(member.in_flight()) / f64::from(member.slots.max(1));
                open.push((load, member.worker));
            }
        }
        open.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
        let books = Books {
            config,
            members,
            index,
            active,
            now,
        };
        let late = config.mode.binds_late();
        let mut take = |queue: &mut Queue, worker| {
            queue.take_for(worker, |waiting| {
                !late || survey.is_home(books, &waiting.query(), worker)
            })
        };
        open.iter().find_map(|&(_, worker)| take(queue, worker))
    }

    fn look(&mut self, query: &RouteQuery<'_>, now: Moment) {
        let Self {
            config,
            members,
            index,
            active,
            survey,
            ..
        } = self;
        let books = Books {
            config,
            members,
            index,
            active,
            now,
        };
        survey.take(books, query);
    }

    /// Lets the policy choose among the candidates of the survey, and books the choice. Also
    /// says how much of the prompt is to be computed there.
    fn bind(&mut self, query: &RouteQuery<'_>, wait: Wait, now: Moment) -> (Claim, u32) {
        let request = RequestView {
            prompt_tokens: query.prompt_tokens,
            chain: query.chain,
            blocks: query.chain.len() as u32,
            block_size: self.config.blocks.size,
            full_holder: self.survey.full_holder,
            session_worker: self.sessions.last_worker(query.identity),
        };
        let Choice { index, reason } =
            self.policy
                .choose(&request, &mut self.survey.candidates, &mut self.draws);
        let chosen = self.survey.candidates[index];
        self.sessions.placed(query.identity, chosen.worker);
        let predicted = chosen.wait_seconds() + chosen.first_token_seconds(&request);
        let hot_spread = reason.passes_over();
        let reason = match wait.queued {
            true => Reason::FromQueue {
                waited_ms: 1e3 * wait.waited.as_secs_f64(),
                overtaken: wait.overtaken,
            },
            false => reason,
        };
        let claim = Claim {
            key: self.reserve(query, &chosen, now),
            worker: chosen.worker,
            predicted_cached_tokens: chosen.cached_tokens,
            at: now,
            predicted_first_token: Duration::try_from_secs_f32(predicted).unwrap_or_default(),
            decision: self.log.next_number(),
            reason,
            waited: wait.waited,
            hot_spread,
        };
        self.record(query, &claim);
        (claim, query.prompt_tokens - chosen.cached_tokens)
    }

    fn reserve(&mut self, query: &RouteQuery<'_>, chosen: &Candidate, now: Moment) -> Key {
        let asked = RequestNeeds::new(&self.config, query);
        let confirmed_tokens = asked.reusable_tokens(chosen.confirmed_blocks);
        let (slot, member) = self
            .members
            .get_mut(chosen.worker)
            .expect("candidates are members");
        let share = Share {
            prefill_tokens: query.prompt_tokens - chosen.cached_tokens,
            partial_block: query.has_partial_block(self.config.blocks.size),
            pending: true,
        };
        member.load.add(share);
        let in_flight = member.in_flight();
        member.profile.occupancy.set(in_flight, now);
        self.active.acquire(slot, query.chain);
        self.reservations.insert(Reservation {
            slot,
            incarnation: member.incarnation,
            shuns: member.shuns,
            chain: query.chain.into(),
            share,
            started: false,
            decision: self.log.next_number(),
            prompt_tokens: query.prompt_tokens,
            confirmed_tokens,
            found_tokens: None,
            pending_before: chosen.pending_prefill_tokens,
            in_flight_before: chosen.in_flight,
            beyond_slots: chosen.in_flight >= chosen.slots,
            mark: Mark::default(),
            output_tokens: 0,
            charge: None,
        })
    }

    /// The survey's candidates go into the record, not a copy of them.
    fn record(&mut self, query: &RouteQuery<'_>, claim: &Claim) {
        let candidates = &mut self.survey.candidates;
        let room = self.log.take_room(candidates.len());
        let candidates = std::mem::replace(candidates, room);
        self.log.push(Decision {
            number: claim.decision,
            at: claim.at,
            request: query.request.clone(),
            mode: self.policy.name(),
            prompt_tokens: query.prompt_tokens,
            blocks: query.chain.len() as u32,
            winner: claim.worker,
            reason: claim.reason,
            candidates,
            excluded: self.survey.excluded.clone(),
            hot_spread: claim.hot_spread,
            queued_ms: 1e3 * claim.waited.as_secs_f64(),
            predicted_ttft_ms: 1e3 * claim.predicted_first_token.as_secs_f64(),
            predicted_cached_tokens: claim.predicted_cached_tokens,
            actual_cached_tokens: None,
            outcome: Outcome::Placed,
            forwarded: None,
            normalized: false,
        });
    }

    /// No worker can take the request that was just surveyed: it waits for a slot, or fails with
    /// the reason.
    fn wait(&mut self, query: &RouteQuery<'_>, now: Moment) -> Result<Ticket, RouteError> {
        // A quarantined worker will be tried again soon, and that is worth waiting for.
        let later = |why: WhyNot| matches!(why, WhyNot::Full | WhyNot::Unsound);
        let workers = self.survey.excluded.iter().filter(|one| later(one.why));
        let workers = workers.count();
        if workers == 0 {
            return Err(RouteError::NoWorker);
        }
        let most = workers.saturating_mul(self.config.queue_limit as usize);
        if !self.config.mode.binds_late() {
            return Err(RouteError::Saturated {
                retry_after: self.completions.expected_wait(now),
            });
        }
        if let Some(deadline) = query.deadline {
            let (expected, left) = (self.expected_wait(query), deadline.since(now));
            if left.is_zero() {
                let retry_after = expected.clamp(LEAST_RETRY, MOST_RETRY);
                return Err(RouteError::QueueTimeout { retry_after });
            }
            if expected > left {
                let retry_after = (expected - left).max(LEAST_RETRY);
                return Err(RouteError::Saturated { retry_after });
            }
        }
        if self.queue.len() >= most {
            let Some(displaced) = self.queue.displace(query.identity) else {
                return Err(RouteError::Saturated {
                    retry_after: self.completions.expected_wait(now),
                });
            };
            self.displaced.push(displaced);
        }
        Ok(self.queue.push(Waiting::new(query, now)))
    }

    /// How long the request would wait: those ahead of it and itself, at the rate at which
    /// the workers that may take it free their slots.
    fn expected_wait(&self, query: &RouteQuery<'_>) -> Duration {
        let mut slots_per_second = 0.0;
        for (_, member) in self.members.iter() {
            if !member.draining && query.excludes(member.worker).is_none() {
                let residence = f64::from(member.outlook.residence_seconds).max(1e-3);
                slots_per_second += f64::from(member.slots) / residence;
            }
        }
        let turn = self.queue.ahead_of(query.priority, query.identity) + 1;
        Duration::try_from_secs_f64(turn as f64 / slots_per_second).unwrap_or(Duration::MAX)
    }

    /// Every second or so, and after each of a worker's first samples, weighs what was learned
    /// about each worker against what all of them show.
    fn compare_outlooks(&mut self, now: Moment) {
        if self
            .compared
            .is_some_and(|at| now.since(at) < COMPARE_EVERY)
        {
            return;
        }
        self.compared = Some(now);
        let learners = self.members.iter();
        let learners = learners.map(|(_, member)| &member.profile.learner);
        if let Some(fleet) = Fleet::of(learners, now) {
            for member in self.members.iter_mut() {
                member.profile.learner.set_fleet(fleet);
                member.outlook = member.profile.learner.outlook_at(now);
            }
        }
    }
}
