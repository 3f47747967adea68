//! How a request gets to a worker and leaves its place again.
//!
//! Room is handed to those who wait for it whenever there may be some, exactly where the
//! router's asynchronous shell does so.

use contract::{GenerateRequest, HashSeed, RequestId, Sampling, token_stream};
use loadgen::{Ending, Failure};
use router::{Claim, Excluded, RouteQuery};

use super::requests::{Placed, Record, Request};
use super::worker::{Parcel, VirtualWorker};
use super::{Cluster, EventKind};
use crate::ask::Ask;

impl Cluster {
    /// Gives a slot back, and to the request that waited for it.
    pub(super) fn release(&mut self, placed: &Placed) {
        self.gateway.release(&placed.claim, self.now);
        // A worker's requests end in the moment in which it dies, so this is not yet the one
        // that may return.
        if let Some(worker) = &mut self.workers[placed.worker] {
            worker.in_flight -= 1;
        }
        self.serve_waiting();
    }

    /// Hands the room there is to those who wait for it. Called whenever there may be some,
    /// as the router's shell does.
    pub(super) fn serve_waiting(&mut self) {
        if self.gateway.waiting() == 0 {
            return;
        }
        while let Some((key, claim)) = self.gateway.ready(self.now) {
            self.dispatch(key, claim);
        }
        for key in self.gateway.stranded() {
            self.give_up(key, Ending::Failed, no_worker());
        }
    }

    /// Sends everything that is due and sees to being called again.
    pub(super) fn send_due(&mut self) {
        while let Some(ask) = self.load.next(self.now) {
            self.send(ask);
        }
        if let Some(due) = self.load.next_due(self.now)
            && self.arrival.is_none_or(|arrival| due < arrival)
        {
            self.arrival = Some(due);
            self.push(due, EventKind::Arrival, 0, 0);
        }
    }

    fn send(&mut self, ask: Ask) {
        let Ask {
            tag,
            label,
            identity,
            prompt,
            chain,
            limits,
            sampling_seed,
        } = ask;
        self.sent += 1;
        let watch = self.recorder.send(label, prompt.len(), self.now);
        let key = self.requests.insert(Request {
            id: RequestId::new(&self.sent.to_string()),
            tag,
            label,
            identity,
            prompt,
            chain,
            answer: Vec::with_capacity(limits.max_tokens as usize),
            limits,
            sampling_seed,
            sent: self.now,
            watch,
            placed: None,
            failed: Vec::new(),
            told_tokens: 0,
        });
        self.place(key);
    }

    pub(super) fn place(&mut self, key: usize) {
        let request = self.requests.get_mut(key);
        let failed = request.failed.iter().copied().map(Excluded::tried);
        let excluded: Vec<Excluded> = failed.collect();
        let query = RouteQuery {
            request: request.id.clone(),
            prompt_tokens: request.prompt.len() as u32,
            chain: &request.chain,
            excluded: &excluded,
            identity: request.identity,
            priority: 0,
            deadline: None,
        };
        match self.gateway.place(key, &query, self.now) {
            Ok(Some(claim)) => self.dispatch(key, claim),
            Ok(None) => {
                for displaced in self.gateway.displaced(self.now) {
                    let failure = Failure::refused(429, "all workers and their queues are full");
                    self.give_up(displaced, Ending::Failed, failure);
                }
            }
            Err(_) => self.give_up(key, Ending::Failed, no_worker()),
        }
    }

    fn dispatch(&mut self, key: usize, claim: Claim) {
        let index = claim.worker.0 as usize;
        let request = self.requests.get_mut(key);
        let may_take = |worker: &&VirtualWorker| !request.failed.contains(&worker.id);
        let has_room = |worker: &VirtualWorker| !worker.is_full();
        let another_has_room = self.workers.iter().flatten().filter(may_take).any(has_room);
        let worker = self.workers[index].as_mut().expect("claims are on members");
        self.dispatched_past_slots += u64::from(worker.is_full() && another_has_room);
        worker.in_flight += 1;
        let (sender, stream) = token_stream(claim.worker);
        let accepted = worker.accept(Parcel {
            key,
            request: GenerateRequest {
                id: request.id.clone(),
                nonce: 0,
                trace: None,
                prompt: request.prompt.clone(),
                answered: std::sync::Arc::default(),
                hash_seed: HashSeed::BASE,
                limits: request.limits.clone(),
                sampling: Sampling {
                    seed: Some(request.sampling_seed),
                    ..Sampling::default()
                },
                logprobs: None,
                grammar: None,
            },
            sender,
            arrival: self.now,
        });
        let wakes = std::mem::take(&mut worker.rests).then_some(worker.epoch);
        let placed = Placed {
            claim,
            worker: index,
            stream,
            record: self.records.as_ref().map_or(0, Vec::len),
        };
        if let Some(records) = &mut self.records {
            records.push(Record {
                conversation: request.label.conversation,
                turn: request.label.turn,
                worker: claim.worker,
                prompt: request.prompt.clone(),
                sampling_seed: request.sampling_seed,
                sent: request.sent,
                placed: self.now,
                first_token: None,
                ended: None,
                cached_tokens: 0,
                output_tokens: 0,
            });
        }
        if let Some(epoch) = wakes {
            self.push(self.now, EventKind::Wakes, index, epoch);
        }
        if accepted.is_ok() {
            self.requests.get_mut(key).placed = Some(placed);
        } else {
            self.release(&placed);
            let failure = Failure::refused(400, "it fits no worker");
            self.give_up(key, Ending::Impossible, failure);
        }
    }
}

/// As the frontend refuses when nobody can serve.
fn no_worker() -> Failure {
    Failure::refused(503, "no worker can take it")
}
