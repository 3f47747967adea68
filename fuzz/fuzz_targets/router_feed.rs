//! The router's state under any order of everything that happens to it.
//!
//! Workers come and go, and send batches, heads, snapshots, loads, leases and reports with any
//! numbers in them; requests are placed, wait, make progress and end in between. Asserts that
//! no claim and no waiting request is lost or counted twice, that a worker is not said to hold
//! more blocks than were ever named, and that the books are empty once every request has ended
//! and every worker has left.

#![no_main]

use std::collections::HashSet;
use std::time::Duration;

use contract::{
    BlockFormat, BlockHash, FrontendId, FrontendLoad, GpuSpec, KvBatch, KvEvent, KvSnapshot, Lease,
    LocalHash, ModelName, Moment, RequestId, StoredBlock, WorkerCard, WorkerId, WorkerStatus,
};
use homing_fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use router::{
    BlockWeights, Claim, Excluded, Identity, Mode, ModeName, Placed, RouteQuery, RouterConfig,
    State, Ticket,
};

const BLOCK_SIZE: u32 = 16;
const OWN: FrontendId = FrontendId(0);
/// Chains begin in this many ways, part into as many at [`PARTING`], and end at [`LONGEST`].
const WAYS: u8 = 4;
const PARTING: u8 = 8;
const LONGEST: u8 = 24;
/// As many blocks as there are.
const BLOCKS: u64 = WAYS as u64 * (PARTING as u64 + WAYS as u64 * (LONGEST - PARTING) as u64);

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let mut play = Play::new();
    while !input.is_empty() {
        play.step(&mut input);
        play.check();
    }
    play.end();
});

struct Play {
    state: State,
    now: Moment,
    claims: Vec<Claim>,
    tickets: HashSet<Ticket>,
}

impl Play {
    fn new() -> Self {
        let mut state = State::new(RouterConfig {
            queue_limit: 4,
            decisions_kept: 8,
            ..RouterConfig::new(BLOCK_SIZE)
        });
        for worker in 0..2 {
            state.join(card(worker, 2, 100)).expect("a card that fits");
        }
        Self {
            state,
            now: Moment::ZERO,
            claims: Vec::new(),
            tickets: HashSet::new(),
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 16 {
            0 | 1 => drop(self.state.observe(&batch(input))),
            2 => drop(
                self.state
                    .head(worker(input), input.number(), input.number()),
            ),
            3 => {
                let worker = worker(input);
                let _ = self.state.restore(worker, &snapshot(input));
            }
            4 => self
                .state
                .share(worker(input), OWN, &loads(input), self.now),
            5 => self.state.lease(worker(input), lease(input)),
            6 => self.state.report(worker(input), status(input), self.now),
            7 => self.membership(input),
            8 | 9 => self.place(input),
            10 => self.progress(input),
            11 | 12 => self.release(usize::from(input.byte())),
            13 => self.cancel(usize::from(input.byte())),
            14 => {
                let name = ModeName::ALL[usize::from(input.byte()) % ModeName::ALL.len()];
                self.state
                    .set_mode(Mode::new(name, BlockWeights::default()));
            }
            _ => self.now += Duration::from_millis(input.number()),
        }
        self.bind_waiting();
    }

    fn membership(&mut self, input: &mut Input<'_>) {
        let what = input.byte() % 4;
        let worker = worker(input);
        match what {
            0 => drop(self.state.leave(worker)),
            1 => drop(self.state.lose(worker)),
            2 => drop(self.state.drain(worker)),
            _ => {
                let card = card(worker.0, input.small_number(), input.small_number());
                self.state.join(card).expect("a card that fits");
            }
        }
    }

    fn place(&mut self, input: &mut Input<'_>) {
        let blocks = input.byte() % (LONGEST + 1);
        let way = input.byte();
        let chain: Vec<BlockHash> = (0..blocks).map(|depth| block(way, depth)).collect();
        let rest = u32::from(input.byte());
        let excluded = [Excluded::tried(worker(input))];
        let query = RouteQuery {
            request: RequestId::new("request"),
            // Tokens after the last full block; a prompt has at least one.
            prompt_tokens: (u32::from(blocks) * BLOCK_SIZE + rest % BLOCK_SIZE).max(1),
            chain: &chain,
            excluded: &excluded[..usize::from(rest >> 7 != 0)],
            identity: Identity {
                tenant: u64::from(way % 3),
                share: 1 + u32::from(way % 4),
                session: u64::from(way % 5),
            },
            priority: (rest >> 4 & 3) as i32,
            deadline: (rest >> 6 & 1 != 0)
                .then(|| self.now + Duration::from_millis(input.number())),
        };
        match self.state.place(&query, self.now) {
            Ok(Placed::Now(claim)) => self.claims.push(claim),
            Ok(Placed::Waiting(ticket)) => {
                assert!(self.tickets.insert(ticket));
                for (ticket, _) in self.state.displaced(self.now) {
                    assert!(self.tickets.remove(&ticket));
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }

    fn progress(&mut self, input: &mut Input<'_>) {
        let which = usize::from(input.byte());
        let Some(claim) = self.claims.get(which % self.claims.len().max(1)) else {
            return;
        };
        match input.byte() % 4 {
            0 | 1 => drop(
                self.state
                    .first_token(claim, input.small_number(), self.now),
            ),
            2 => self
                .state
                .progress(claim, u32::from(input.byte()), self.now),
            _ => self.state.failed(claim, self.now),
        }
    }

    fn release(&mut self, which: usize) {
        if self.claims.is_empty() {
            return;
        }
        let claim = self.claims.swap_remove(which % self.claims.len());
        assert!(self.state.release(&claim, self.now), "an open claim");
        assert!(!self.state.release(&claim, self.now), "a claim twice");
        assert!(
            !self.state.first_token(&claim, 0, self.now),
            "after its end"
        );
    }

    fn cancel(&mut self, which: usize) {
        let Some(ticket) = self.tickets.iter().copied().nth(which) else {
            return;
        };
        self.tickets.remove(&ticket);
        assert!(self.state.cancel(ticket), "a waiting request");
        assert!(!self.state.cancel(ticket), "a ticket twice");
    }

    fn bind_waiting(&mut self) {
        while let Some((ticket, claim)) = self.state.ready(self.now) {
            assert!(self.tickets.remove(&ticket), "a ticket that nobody has");
            self.claims.push(claim);
        }
        for ticket in self.state.stranded() {
            assert!(self.tickets.remove(&ticket), "a ticket that nobody has");
        }
    }

    fn check(&self) {
        assert_eq!(self.state.in_flight(), self.claims.len());
        assert_eq!(self.state.waiting(), self.tickets.len());
        let workers = self.state.workers(self.now);
        let booked: u32 = workers.iter().map(|worker| worker.in_flight).sum();
        assert!(booked as usize <= self.claims.len());
        assert!(workers.iter().all(|worker| worker.indexed_blocks <= BLOCKS));
        let (indexed, active) = self.state.known_blocks();
        assert!(indexed as u64 <= BLOCKS && active as u64 <= BLOCKS);
        let _ = (
            self.state.loads(),
            self.state.spread(),
            self.state.total_queued(),
        );
        let _ = self.state.decisions(1);
    }

    fn end(mut self) {
        for ticket in std::mem::take(&mut self.tickets) {
            assert!(self.state.cancel(ticket));
        }
        while !self.claims.is_empty() {
            self.release(0);
        }
        self.check();
        for router::WorkerLoad { worker, load, .. } in self.state.loads() {
            let lease = load.lease;
            let nothing = FrontendLoad {
                lease,
                ..FrontendLoad::default()
            };
            assert_eq!(load, nothing, "on worker {worker}");
        }
        assert_eq!(self.state.known_blocks().1, 0);
        for worker in self.state.workers(self.now) {
            assert!(self.state.leave(worker.card.id));
        }
        assert_eq!(self.state.known_blocks(), (0, 0));
    }
}

fn worker(input: &mut Input<'_>) -> WorkerId {
    WorkerId(u64::from(input.byte() % 4))
}

/// A hash commits to the blocks before it, so chains that have parted share nothing more.
fn block(way: u8, depth: u8) -> BlockHash {
    let (begin, depth) = (way % WAYS, depth % LONGEST);
    let parted = if depth < PARTING {
        0
    } else {
        way / WAYS % WAYS
    };
    BlockHash(u64::from_be_bytes([0, 0, 0, 0, 1, begin, parted, depth]))
}

fn card(worker: u64, slots: u32, total_blocks: u32) -> WorkerCard {
    WorkerCard {
        id: WorkerId(worker),
        name: String::new(),
        model: ModelName::new("model"),
        blocks: BlockFormat::new(BLOCK_SIZE),
        total_blocks,
        slots,
        max_step_tokens: 64,
        max_context_tokens: 4096,
        gpu: GpuSpec {
            kind: String::new(),
            count: 0,
            memory_bytes: 0,
        },
        engine: String::new(),
        simulated: true,
        abilities: contract::Abilities::default(),
        forwards: Vec::new(),
        adapters: Vec::new(),
        speculation: String::new(),
    }
}

fn batch(input: &mut Input<'_>) -> KvBatch {
    let events = input.byte();
    KvBatch {
        worker: worker(input),
        epoch: input.number(),
        sequence: input.number(),
        events: (0..events % 4).map(|_| event(input)).collect(),
    }
}

fn event(input: &mut Input<'_>) -> KvEvent {
    let kind = input.byte();
    let (way, first) = (input.byte(), input.byte());
    let blocks = (0..kind >> 3).map(|place| block(way, first.wrapping_add(place)));
    match kind % 8 {
        0 => KvEvent::Cleared,
        1..=3 => KvEvent::Removed {
            blocks: blocks.collect(),
        },
        _ => KvEvent::Stored {
            parent: None,
            blocks: blocks
                .map(|hash| StoredBlock {
                    hash,
                    local: LocalHash(hash.0),
                })
                .collect(),
        },
    }
}

fn snapshot(input: &mut Input<'_>) -> KvSnapshot {
    KvSnapshot {
        epoch: input.number(),
        next_sequence: input.number(),
        blocks: (0..input.byte() % 32)
            .map(|_| block(input.byte(), input.byte()))
            .collect(),
    }
}

/// Levels as they leave the wire, for as many frontends as the input says.
fn loads(input: &mut Input<'_>) -> Vec<(FrontendId, FrontendLoad)> {
    let frontends = u64::from(input.byte()) * 2;
    let load = remote::wire::from_load(&remote::wire::Load {
        in_flight: input.small_number(),
        pending_prefill_tokens: input.number(),
        pending_requests: input.small_number(),
        active_blocks: input.small_number(),
        waiting: input.small_number(),
        lease: None,
    });
    (0..frontends)
        .map(|number| (FrontendId(number), load))
        .collect()
}

fn lease(input: &mut Input<'_>) -> Lease {
    Lease {
        number: input.small_number(),
        slots: input.small_number(),
    }
}

fn status(input: &mut Input<'_>) -> WorkerStatus {
    WorkerStatus {
        running: input.small_number(),
        waiting: input.small_number(),
        ..WorkerStatus::default()
    }
}
