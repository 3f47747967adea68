//! A router in steady state: workers with filled caches, requests coming and going.

use std::collections::VecDeque;
use std::time::Duration;

use contract::{
    Abilities, BlockFormat, GpuSpec, KvBatch, ModelName, Moment, RequestId, WorkerCard, WorkerId,
};
use router::{Claim, Identity, Placed, RouteQuery, RouterConfig, State};

use crate::scene::Scene;

pub(crate) const BLOCK_SIZE: u32 = 32;

/// Running requests on each worker, on average.
const IN_FLIGHT: usize = 8;
const SLOTS: u32 = 64;
const BETWEEN_PICKS: Duration = Duration::from_millis(1);

/// A router that is asked again and again.
#[derive(Debug)]
pub(crate) struct Fleet {
    state: State,
    scene: Scene,
    requests: Vec<RequestId>,
    under_way: VecDeque<Claim>,
    most_under_way: usize,
    asked: usize,
    now: Moment,
}

impl Fleet {
    /// All workers have joined and reported what they hold, and as many requests are running
    /// as there will be from now on.
    pub(crate) fn new(mut scene: Scene) -> Self {
        let mut state = State::new(RouterConfig::new(BLOCK_SIZE));
        for worker in 0..scene.workers {
            state
                .join(card(worker))
                .expect("the block size is the router's");
        }
        let mut sequences = vec![0; scene.workers];
        for (worker, event) in scene.events.drain(..) {
            let _ = state.observe(&KvBatch {
                worker: WorkerId(worker as u64),
                epoch: 0,
                sequence: sequences[worker],
                events: vec![event],
            });
            sequences[worker] += 1;
        }
        let requests = (0..scene.prompts.len())
            .map(|number| RequestId::new(&format!("request-{number}")))
            .collect();
        let mut fleet = Self {
            state,
            requests,
            under_way: VecDeque::new(),
            most_under_way: IN_FLIGHT * scene.workers,
            scene,
            asked: 0,
            now: Moment::ZERO,
        };
        for _ in 0..2 * fleet.most_under_way {
            fleet.pick();
            fleet.settle();
        }
        fleet
    }

    /// Places the next request.
    pub(crate) fn pick(&mut self) {
        let at = self.asked % self.scene.prompts.len();
        self.asked += 1;
        self.now += BETWEEN_PICKS;
        let chain = &self.scene.prompts[at].chain;
        let query = RouteQuery {
            request: self.requests[at].clone(),
            prompt_tokens: chain.len() as u32 * BLOCK_SIZE,
            chain,
            excluded: &[],
            identity: Identity::default(),
            priority: 0,
            deadline: None,
        };
        if let Ok(Placed::Now(claim)) = self.state.place(&query, self.now) {
            self.under_way.push_back(claim);
        }
    }

    /// Lets the oldest requests go on, so that as many are under way as before the pick.
    pub(crate) fn settle(&mut self) {
        if let Some(young) = self.under_way.get(self.under_way.len() / 2) {
            let cached = young.predicted_cached_tokens;
            self.state.first_token(young, cached, self.now);
        }
        while self.under_way.len() > self.most_under_way {
            if let Some(old) = self.under_way.pop_front() {
                self.state.progress(&old, 100, self.now);
                self.state.release(&old, self.now);
            }
        }
    }
}

fn card(worker: usize) -> WorkerCard {
    WorkerCard {
        id: WorkerId(worker as u64),
        name: format!("worker-{worker}"),
        model: ModelName::new("bench"),
        blocks: BlockFormat {
            size: BLOCK_SIZE,
            hashing: contract::Hashing::default(),
        },
        total_blocks: 8192,
        slots: SLOTS,
        max_step_tokens: 8192,
        max_context_tokens: 8192,
        gpu: GpuSpec {
            kind: "none".to_owned(),
            count: 0,
            memory_bytes: 0,
        },
        engine: "bench".to_owned(),
        simulated: true,
        abilities: Abilities::default(),
        speculation: "none".to_owned(),
        forwards: Vec::new(),
        adapters: Vec::new(),
    }
}
