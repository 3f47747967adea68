//! Random lives of a small fleet, with every figure recomputed from scratch.
//!
//! The model keeps lists and sets and counts them each time. Workers in it are engines that
//! store chains and evict leaf first, over a feed that loses batches; requests may end
//! before or after their worker, or give up while they wait for one.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::decision::Excluded;
use crate::query::Ticket;

const WORKERS: u64 = 4;
const SMALL_BLOCK: u32 = 4;
const SLOTS: u32 = 2;
const QUEUE_LIMIT: u32 = 2;

type Path = Vec<u8>;

fn block(path: &[u8]) -> BlockHash {
    BlockHash(
        path.iter()
            .fold(1, |parent, &step| mix(7, parent, u64::from(step))),
    )
}

fn blocks(path: &[u8]) -> Vec<BlockHash> {
    (1..=path.len())
        .map(|depth| block(&path[..depth]))
        .collect()
}

/// The leading blocks of `path` that are in `set`.
fn depth(set: &BTreeSet<Path>, path: &[u8]) -> usize {
    (1..=path.len())
        .take_while(|&depth| set.contains(&path[..depth]))
        .count()
}

/// A request before it has a place.
#[derive(Clone, Debug)]
struct Asked {
    path: Path,
    /// Tokens after the last full block.
    prompt_tail: u32,
    tried: Option<u64>,
    tenant: u64,
    priority: i32,
}

impl Asked {
    fn prompt_tokens(&self) -> u32 {
        (self.path.len() as u32 * SMALL_BLOCK + self.prompt_tail).max(1)
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Join {
        worker: u64,
        restarted: bool,
    },
    Leave {
        worker: u64,
    },
    Drain {
        worker: u64,
    },
    Place(Asked),
    FirstToken {
        request: Index,
    },
    Progress {
        request: Index,
        tokens: u32,
    },
    Release {
        request: Index,
    },
    Cancel {
        waiting: Index,
    },
    Store {
        worker: u64,
        path: Path,
        lost: bool,
    },
    Evict {
        worker: u64,
        leaf: Index,
        lost: bool,
    },
    Restore {
        worker: u64,
    },
    SetMode {
        mode: ModeName,
    },
}

fn operations() -> impl Strategy<Value = Operation> {
    let worker = || 0..WORKERS;
    let path = || prop::collection::vec(0_u8..2, 0..7);
    let lost = || prop::bool::weighted(0.1);
    let request = || any::<Index>();
    prop_oneof![
        2 => (worker(), any::<bool>())
            .prop_map(|(worker, restarted)| Operation::Join { worker, restarted }),
        1 => worker().prop_map(|worker| Operation::Leave { worker }),
        1 => worker().prop_map(|worker| Operation::Drain { worker }),
        8 => (path(), 0..SMALL_BLOCK, prop::option::weighted(0.2, worker()), 0..2, 0..3_u64)
            .prop_map(|(path, tail, tried, priority, tenant)| Operation::Place(Asked {
                path,
                prompt_tail: tail,
                tried,
                tenant,
                priority,
            })),
        4 => request().prop_map(|request| Operation::FirstToken { request }),
        2 => (request(), 0_u32..100)
            .prop_map(|(request, tokens)| Operation::Progress { request, tokens }),
        5 => request().prop_map(|request| Operation::Release { request }),
        1 => any::<Index>().prop_map(|waiting| Operation::Cancel { waiting }),
        4 => (worker(), path(), lost())
            .prop_map(|(worker, path, lost)| Operation::Store { worker, path, lost }),
        4 => (worker(), any::<Index>(), lost())
            .prop_map(|(worker, leaf, lost)| Operation::Evict { worker, leaf, lost }),
        3 => worker().prop_map(|worker| Operation::Restore { worker }),
        1 => prop::sample::select(ModeName::ALL.to_vec())
            .prop_map(|mode| Operation::SetMode { mode }),
    ]
}

/// A worker process, member or not.
#[derive(Debug, Default)]
struct Engine {
    epoch: u64,
    sequence: u64,
    held: BTreeSet<Path>,
    /// Which membership is meant, when it is one.
    member: Option<usize>,
    draining: bool,
    /// A batch was lost, so the router may believe something else than `held`.
    disturbed: bool,
}

#[derive(Debug)]
struct Request {
    claim: Claim,
    worker: u64,
    member: Option<usize>,
    path: Path,
    partial: bool,
    pending: u32,
}

struct World {
    state: State,
    engines: BTreeMap<u64, Engine>,
    requests: Vec<Request>,
    waiting: BTreeMap<Ticket, Asked>,
    memberships: usize,
}

impl World {
    fn new() -> Self {
        let config = RouterConfig {
            queue_limit: QUEUE_LIMIT,
            ..RouterConfig::new(SMALL_BLOCK)
        };
        let engines = (0..WORKERS)
            .map(|worker| (worker, Engine::default()))
            .collect();
        Self {
            state: State::new(config),
            engines,
            requests: Vec::new(),
            waiting: BTreeMap::new(),
            memberships: 0,
        }
    }

    fn requests_on(&self, worker: u64) -> impl Iterator<Item = &Request> {
        let member = self.engines[&worker].member;
        self.requests.iter().filter(move |request| {
            request.worker == worker && request.member == member && member.is_some()
        })
    }

    fn used(&self, worker: u64) -> BTreeSet<Path> {
        self.requests_on(worker)
            .flat_map(|request| (1..=request.path.len()).map(|n| request.path[..n].to_vec()))
            .collect()
    }

    fn may_take(&self, worker: u64, tried: Option<u64>) -> Option<WhyNot> {
        let late = self.state.mode().binds_late();
        let places = if late { SLOTS } else { SLOTS + QUEUE_LIMIT };
        let full = self.requests_on(worker).count() as u32 >= places;
        let engine = &self.engines[&worker];
        [
            (engine.draining, WhyNot::Draining),
            (tried == Some(worker), WhyNot::Tried),
            (full, WhyNot::Full),
        ]
        .into_iter()
        .find_map(|(applies, why)| applies.then_some(why))
    }

    fn publish(&mut self, worker: u64, event: KvEvent, lost: bool) {
        let engine = self.engines.get_mut(&worker).unwrap();
        let batch = KvBatch {
            worker: WorkerId(worker),
            epoch: engine.epoch,
            sequence: engine.sequence,
            events: vec![event],
        };
        engine.sequence += 1;
        if lost {
            engine.disturbed = true;
        } else {
            let observed = self.state.observe(&batch).observed;
            assert_eq!(observed == Observed::Unknown, engine.member.is_none());
            if observed != Observed::Applied {
                assert!(engine.disturbed || engine.member.is_none(), "{observed:?}");
            }
        }
    }

    fn join(&mut self, worker: u64, restarted: bool) {
        self.state
            .join(WorkerCard {
                blocks: BlockFormat::new(SMALL_BLOCK),
                slots: SLOTS,
                ..card(worker)
            })
            .unwrap();
        self.memberships += 1;
        let engine = self.engines.get_mut(&worker).unwrap();
        if restarted {
            engine.epoch += 1;
            engine.sequence = 0;
            engine.held.clear();
        }
        engine.member = Some(self.memberships);
        engine.draining = false;
        // Met in the middle of an epoch, a worker is unknown until its snapshot.
        engine.disturbed = engine.sequence > 0;
    }

    fn members(&self) -> impl Iterator<Item = u64> {
        (0..WORKERS).filter(|worker| self.engines[worker].member.is_some())
    }

    /// Why each member may not take a request, if so.
    fn why_not(&self, tried: Option<u64>) -> BTreeMap<u64, Option<WhyNot>> {
        self.members()
            .map(|worker| (worker, self.may_take(worker, tried)))
            .collect()
    }

    fn place(&mut self, asked: Asked) {
        let excluded = asked.tried.map(|id| Excluded::tried(WorkerId(id)));
        let query = RouteQuery {
            request: RequestId::new("r"),
            prompt_tokens: asked.prompt_tokens(),
            chain: &blocks(&asked.path),
            excluded: excluded.as_slice(),
            identity: Identity {
                tenant: asked.tenant,
                ..Identity::default()
            },
            priority: asked.priority,
            deadline: None,
        };
        let why_not = self.why_not(asked.tried);
        let full = why_not
            .values()
            .filter(|why| **why == Some(WhyNot::Full))
            .count();
        match self.state.place(&query, at(0)) {
            Ok(Placed::Now(claim)) => self.placed(asked, claim, &why_not),
            Ok(Placed::Waiting(ticket)) => {
                assert!(self.state.mode().binds_late());
                assert!(full > 0 && why_not.values().all(Option::is_some));
                for (displaced, error) in self.state.displaced(at(0)) {
                    assert!(matches!(error, RouteError::Saturated { .. }));
                    let displaced = self.waiting.remove(&displaced).expect("it waited");
                    assert_ne!(displaced.tenant, asked.tenant);
                }
                self.waiting.insert(ticket, asked);
                assert_eq!(self.state.waiting(), self.waiting.len());
            }
            Err(error) => {
                assert!(why_not.values().all(Option::is_some));
                let saturated = matches!(error, RouteError::Saturated { .. });
                assert_eq!(saturated, full > 0);
                if saturated && self.state.mode().binds_late() {
                    assert!(self.waiting.len() >= full * QUEUE_LIMIT as usize);
                }
            }
        }
    }

    fn placed(&mut self, asked: Asked, claim: Claim, why_not: &BTreeMap<u64, Option<WhyNot>>) {
        let prompt_tokens = asked.prompt_tokens();
        let decision = &self.state.decisions(1)[0];
        let candidates: Vec<u64> = decision.candidates.iter().map(|row| row.worker.0).collect();
        let open = why_not.iter().filter(|(_, why)| why.is_none());
        let expected: Vec<u64> = open.map(|(&worker, _)| worker).collect();
        assert_eq!(candidates, expected);
        for row in &decision.candidates {
            self.check_row(row, &asked.path, prompt_tokens);
        }
        let worker = claim.worker.0;
        if self.state.mode().binds_late() {
            let before = self.requests_on(worker).count() as u32;
            assert!(before < SLOTS, "sent to a full worker");
        }
        self.requests.push(Request {
            claim,
            worker,
            member: self.engines[&worker].member,
            path: asked.path,
            partial: !prompt_tokens.is_multiple_of(SMALL_BLOCK),
            pending: prompt_tokens - claim.predicted_cached_tokens,
        });
    }

    /// Lets those who wait have what there is, as an owner of a state has to.
    fn serve(&mut self) {
        while let Some((ticket, claim)) = self.state.ready(at(0)) {
            let asked = self.waiting.remove(&ticket).expect("it waited");
            let why_not = self.why_not(asked.tried);
            self.placed(asked, claim, &why_not);
        }
        for ticket in self.state.stranded() {
            let asked = self.waiting.remove(&ticket).expect("it waited");
            let left = self.why_not(asked.tried);
            assert!(
                left.values()
                    .all(|why| matches!(why, Some(why) if *why != WhyNot::Full))
            );
        }
        for asked in self.waiting.values() {
            let left = self.why_not(asked.tried);
            assert!(left.values().all(Option::is_some), "room is left unused");
            assert!(
                left.values().any(|why| *why == Some(WhyNot::Full)),
                "stranded"
            );
        }
    }

    fn check_row(&self, row: &Candidate, path: &[u8], prompt_tokens: u32) {
        let engine = &self.engines[&row.worker.0];
        let used = depth(&self.used(row.worker.0), path) as u32;
        let partial = u32::from(!prompt_tokens.is_multiple_of(SMALL_BLOCK));
        assert_eq!(row.new_blocks, path.len() as u32 - used + partial);
        assert_eq!(
            row.in_flight as usize,
            self.requests_on(row.worker.0).count()
        );
        if !engine.disturbed {
            let overlap = used.max(depth(&engine.held, path) as u32);
            assert_eq!(row.overlap_blocks, overlap);
            let cached = overlap.min((prompt_tokens - 1) / SMALL_BLOCK) * SMALL_BLOCK;
            assert_eq!(row.cached_tokens, cached);
        }
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Join { worker, restarted } => self.join(worker, restarted),
            Operation::Leave { worker } => {
                let engine = self.engines.get_mut(&worker).unwrap();
                let was_member = engine.member.take().is_some();
                assert_eq!(self.state.leave(WorkerId(worker)), was_member);
            }
            Operation::Drain { worker } => {
                self.engines.get_mut(&worker).unwrap().draining = true;
                self.state.drain(WorkerId(worker));
            }
            Operation::Place(asked) => self.place(asked),
            Operation::FirstToken { request } => {
                if !self.requests.is_empty() {
                    let request = request.get_mut(&mut self.requests);
                    let news = self.state.first_token(&request.claim, 0, at(0));
                    assert_eq!(news, request.pending > 0);
                    request.pending = 0;
                }
            }
            Operation::Progress { request, tokens } => {
                if !self.requests.is_empty() {
                    let request = request.get(&self.requests);
                    self.state.progress(&request.claim, tokens, at(1));
                }
            }
            Operation::Cancel { waiting } => {
                if !self.waiting.is_empty() {
                    let position = waiting.index(self.waiting.len());
                    let (&ticket, _) = self.waiting.iter().nth(position).unwrap();
                    self.waiting.remove(&ticket);
                    assert!(self.state.cancel(ticket));
                    assert!(!self.state.cancel(ticket));
                }
            }
            Operation::Release { request } => {
                if !self.requests.is_empty() {
                    let ended = self
                        .requests
                        .swap_remove(request.index(self.requests.len()));
                    assert!(self.state.release(&ended.claim, at(0)));
                    assert!(!self.state.release(&ended.claim, at(0)));
                }
            }
            Operation::Store { worker, path, lost } => {
                let held = &mut self.engines.get_mut(&worker).unwrap().held;
                held.extend((1..=path.len()).map(|depth| path[..depth].to_vec()));
                let KvBatch { mut events, .. } = stored(worker, 0, &blocks(&path));
                self.publish(worker, events.remove(0), lost);
            }
            Operation::Evict { worker, leaf, lost } => self.evict(worker, leaf, lost),
            Operation::Restore { worker } => self.restore(worker),
            Operation::SetMode { mode } => {
                self.state
                    .set_mode(Mode::new(mode, BlockWeights::default()));
            }
        }
    }

    fn evict(&mut self, worker: u64, leaf: Index, lost: bool) {
        let held = &mut self.engines.get_mut(&worker).unwrap().held;
        let is_leaf = |path: &&Path| {
            !held
                .iter()
                .any(|other| other.len() > path.len() && other.starts_with(path))
        };
        let leaves: Vec<Path> = held.iter().filter(is_leaf).cloned().collect();
        if leaves.is_empty() {
            return;
        }
        let path = leaf.get(&leaves);
        held.remove(path);
        self.publish(
            worker,
            KvEvent::Removed {
                blocks: vec![block(path)],
            },
            lost,
        );
    }

    fn restore(&mut self, worker: u64) {
        let engine = self.engines.get_mut(&worker).unwrap();
        let snapshot = KvSnapshot {
            epoch: engine.epoch,
            next_sequence: engine.sequence,
            blocks: engine.held.iter().map(|path| block(path)).collect(),
        };
        let mut observed = self.state.restore(WorkerId(worker), &snapshot).observed;
        if observed == Observed::NeedsSnapshot {
            observed = self.state.restore(WorkerId(worker), &snapshot).observed;
        }
        match engine.member {
            Some(_) => {
                assert_eq!(observed, Observed::Applied);
                engine.disturbed = false;
            }
            None => assert_eq!(observed, Observed::Unknown),
        }
    }

    fn check(&self) {
        assert_eq!(self.state.in_flight(), self.requests.len());
        assert_eq!(self.state.waiting(), self.waiting.len());
        let views = self.state.workers(Moment::ZERO);
        let members = self
            .engines
            .values()
            .filter(|engine| engine.member.is_some());
        assert_eq!(views.len(), members.count());
        for view in views {
            let worker = view.card.id.0;
            let engine = &self.engines[&worker];
            let in_flight = self.requests_on(worker).count();
            let pending: u64 = self
                .requests_on(worker)
                .map(|request| u64::from(request.pending))
                .sum();
            let partial = self
                .requests_on(worker)
                .filter(|request| request.partial)
                .count();
            assert_eq!(view.in_flight as usize, in_flight);
            assert_eq!(view.pending_prefill_tokens, pending);
            assert_eq!(
                view.active_blocks as usize,
                self.used(worker).len() + partial
            );
            assert_eq!(view.draining, engine.draining);
            if !engine.disturbed {
                assert_eq!(view.indexed_blocks as usize, engine.held.len());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_books_agree_with_a_recount_and_return_to_zero(
        operations in prop::collection::vec(operations(), 1..80),
    ) {
        let mut world = World::new();
        world.join(0, true);
        world.join(1, true);
        for operation in operations {
            world.apply(operation);
            world.serve();
            world.check();
        }
        while let Some(request) = world.requests.pop() {
            world.state.release(&request.claim, at(0));
            world.serve();
        }
        // Requests that still wait do so for workers that do not take anything.
        for &ticket in world.waiting.keys() {
            prop_assert!(world.state.cancel(ticket));
        }
        world.waiting.clear();
        world.check();
        let (_, expected) = world.state.known_blocks();
        prop_assert_eq!(expected, 0);
        for worker in 0..WORKERS {
            world.state.leave(WorkerId(worker));
        }
        prop_assert_eq!(world.state.known_blocks(), (0, 0));
    }
}
