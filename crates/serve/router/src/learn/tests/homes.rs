//! Conversations with idle engines of known speed, one request at a time, through the whole
//! router: who leaves the worker that holds its prompt, and for what.

use std::time::Duration;

use contract::random::Random;
use contract::{Moment, RequestId, WorkerCard, WorkerId};

use crate::config::RouterConfig;
use crate::query::{Identity, RouteQuery};
use crate::state::State;
use crate::state::tests::{card, chain, placed_now, stored};

const BLOCK_SIZE: u32 = 32;
const SEEDS: u64 = 30;

/// What an engine is really like.
#[derive(Clone, Copy, Debug)]
struct Engine {
    tokens_per_second: f64,
    /// Of the time to first token.
    fixed: f64,
    step: f64,
    /// How many times longer the first request takes to its first token.
    warm_up: f64,
}

/// llama.cpp on a processor.
const LLAMA: Engine = Engine {
    tokens_per_second: 90.0,
    fixed: 0.3,
    step: 0.08,
    warm_up: 1.0,
};
/// A slow engine that computes little besides tokens.
const SLOWEST: Engine = Engine {
    tokens_per_second: 50.0,
    fixed: 0.1,
    step: 0.2,
    warm_up: 3.0,
};
/// vLLM on a processor.
const PROCESSOR: Engine = Engine {
    tokens_per_second: 830.0,
    fixed: 0.057,
    step: 0.05,
    warm_up: 1.0,
};
/// vLLM on an accelerator, which compiles during its first request.
const ACCELERATOR: Engine = Engine {
    tokens_per_second: 6000.0,
    fixed: 0.060,
    step: 0.012,
    warm_up: 7.3,
};

const FAST: Engine = Engine {
    tokens_per_second: 20_000.0,
    fixed: 0.03,
    step: 0.015,
    warm_up: 8.0,
};
/// What a cached prompt saves here is less than what times vary by.
const FASTEST: Engine = Engine {
    tokens_per_second: 50_000.0,
    fixed: 0.060,
    step: 0.010,
    warm_up: 10.0,
};

impl Engine {
    fn slowed(self, times: f64) -> Self {
        Self {
            tokens_per_second: self.tokens_per_second / times,
            fixed: self.fixed * times,
            step: self.step * times,
            ..self
        }
    }

    fn first_token(&self, tokens: u32) -> f64 {
        self.fixed + f64::from(tokens) / self.tokens_per_second
    }
}

#[derive(Debug)]
struct Worker {
    engine: Engine,
    served: u32,
    batches: u64,
}

#[derive(Debug)]
struct Conversation {
    name: u64,
    prompt_tokens: u32,
    home: Option<WorkerId>,
}

/// A router and its engines.
struct Fleet {
    state: State,
    workers: Vec<Worker>,
    now: Moment,
    random: Random,
    conversations: u64,
    /// Seconds between two requests, at most.
    pause: f64,
    turns: u32,
    /// The worker of each turn.
    chosen: Vec<u64>,
    /// Explained decisions for turns that went elsewhere than the one before.
    left: Vec<String>,
}

impl Fleet {
    fn new(engines: &[Engine], pause: f64, seed: u64) -> Self {
        let mut state = State::new(RouterConfig {
            mode: "kv".parse().unwrap(),
            seed,
            ..RouterConfig::new(BLOCK_SIZE)
        });
        for number in 0..engines.len() as u64 {
            let card = WorkerCard {
                total_blocks: 0,
                ..card(number)
            };
            state.join(card).unwrap();
        }
        let worker = |&engine| Worker {
            engine,
            served: 0,
            batches: 0,
        };
        Self {
            state,
            workers: engines.iter().map(worker).collect(),
            now: Moment::ZERO,
            random: Random::new(seed),
            conversations: 0,
            pause,
            turns: 0,
            chosen: Vec::new(),
            left: Vec::new(),
        }
    }

    /// Up to a fifth off, and one in fifty three times too long.
    fn noise(&mut self) -> f64 {
        let outlier = if self.random.below(50) == 0 { 3.0 } else { 1.0 };
        (0.8 + 0.4 * self.random.unit()) * outlier
    }

    fn between(&mut self, least: u32, most: u32) -> u32 {
        least + self.random.below((most - least + 1) as usize) as u32
    }

    fn passes(&mut self, seconds: f64) {
        self.now += Duration::from_secs_f64(seconds);
    }

    fn open(&mut self) -> Conversation {
        self.conversations += 1;
        Conversation {
            name: self.conversations,
            prompt_tokens: self.between(300, 500),
            home: None,
        }
    }

    fn turn(&mut self, conversation: &mut Conversation) {
        let asked = conversation.prompt_tokens;
        let blocks = chain(conversation.name, (asked / BLOCK_SIZE) as usize);
        let query = RouteQuery {
            request: RequestId::new("r"),
            prompt_tokens: asked,
            chain: &blocks,
            excluded: &[],
            identity: Identity::default(),
            priority: 0,
            deadline: None,
        };
        let claim = placed_now(self.state.place(&query, self.now).unwrap());
        self.turns += 1;
        self.chosen.push(claim.worker.0);
        if conversation.home.is_some_and(|home| home != claim.worker) {
            self.left.push(self.state.decisions(1)[0].explain());
        }
        conversation.home = Some(claim.worker);
        let cached = claim.predicted_cached_tokens;
        let number = claim.worker.0 as usize;
        let Engine { step, warm_up, .. } = self.workers[number].engine;
        let mut first = self.workers[number].engine.first_token(asked - cached) * self.noise();
        if self.workers[number].served == 0 {
            first *= warm_up;
        }
        self.passes(first);
        self.state.first_token(&claim, cached, self.now);
        let answer = self.between(24, 48);
        for part in [answer / 2, answer - answer / 2] {
            let seconds = step * f64::from(part) * self.noise();
            self.passes(seconds);
            self.state.progress(&claim, part, self.now);
        }
        self.state.release(&claim, self.now);
        let known = chain(conversation.name, ((asked + answer) / BLOCK_SIZE) as usize);
        let worker = &mut self.workers[number];
        worker.served += 1;
        let batch = stored(claim.worker.0, worker.batches, &known);
        worker.batches += 1;
        self.state.observe(&batch);
        conversation.prompt_tokens = asked + answer + self.between(10, 40);
        let pause = self.pause * self.random.unit();
        self.passes(pause);
    }

    /// Several conversations at once, turn by turn, until so many requests are through.
    fn run(&mut self, requests: u32) {
        let most = self.turns + requests;
        let mut open: Vec<Conversation> = Vec::new();
        while self.turns < most {
            if open.len() < 4 {
                let conversation = self.open();
                open.push(conversation);
            }
            let next = self.random.below(open.len());
            self.turn(&mut open[next]);
            if self.random.below(5) == 0 {
                open.swap_remove(next);
            }
        }
    }

    /// What is believed of a worker: seconds to a first token after so many tokens.
    fn believed(&self, worker: usize, tokens: u32) -> f64 {
        let learned = &self.state.workers(self.now)[worker].learned;
        learned.first_token_fixed_ms / 1e3 + f64::from(tokens) / learned.prefill_tokens_per_second
    }

    /// The share of the last turns that went to a worker.
    fn share(&self, worker: u64, turns: usize) -> f64 {
        let last = &self.chosen[self.chosen.len() - turns..];
        let there = last.iter().filter(|&&chosen| chosen == worker);
        there.count() as f64 / turns as f64
    }
}

#[track_caller]
fn check_nobody_leaves(engine: Engine) {
    for (workers, pause) in [(2, 0.0), (2, 3.0), (2, 60.0), (4, 0.0), (4, 3.0), (4, 60.0)] {
        for seed in 0..SEEDS {
            let mut fleet = Fleet::new(&vec![engine; workers], pause, seed);
            fleet.run(150);
            let left = &fleet.left;
            assert!(left.is_empty(), "{workers}, {pause}, {seed}: {left:#?}");
        }
    }
}

#[test]
fn nobody_leaves_an_idle_home_for_its_equal() {
    for engine in [LLAMA, SLOWEST, PROCESSOR, ACCELERATOR, FAST, FASTEST] {
        check_nobody_leaves(engine);
    }
}

#[test]
fn a_worker_whose_first_requests_compile_keeps_its_conversation() {
    // One that has served for long, and one that joins it.
    for seed in 0..SEEDS {
        let mut fleet = Fleet::new(&[ACCELERATOR], 1.0, seed);
        fleet.run(60);
        let newcomer = WorkerCard {
            total_blocks: 0,
            ..card(1)
        };
        fleet.state.join(newcomer).unwrap();
        fleet.workers.push(Worker {
            engine: ACCELERATOR,
            served: 0,
            batches: 0,
        });
        fleet.run(100);
        assert!(fleet.left.is_empty(), "{seed}: {:#?}", fleet.left);
        assert!(fleet.share(1, 100) > 0.0, "{seed}: it is used");
    }
}

#[test]
fn a_few_requests_tell_a_machines_class() {
    // Prompts of some hundred tokens, most of them cached, as in any conversation.
    for engine in [LLAMA, SLOWEST, PROCESSOR, ACCELERATOR] {
        for seed in 0..SEEDS {
            let mut fleet = Fleet::new(&[engine; 2], 3.0, seed);
            fleet.run(26);
            for worker in 0..2 {
                for tokens in [40, 400] {
                    let ratio = fleet.believed(worker, tokens) / engine.first_token(tokens);
                    let told = format!("{engine:?}, {seed}: {ratio} after {tokens}");
                    assert!((0.4..2.5).contains(&ratio), "{told}");
                }
            }
        }
    }
}

#[test]
fn a_slow_worker_is_left_where_that_is_faster() {
    for seed in 0..SEEDS {
        let mut fleet = Fleet::new(&[ACCELERATOR.slowed(4.0), ACCELERATOR], 0.5, seed);
        fleet.run(200);
        let share = fleet.share(0, 150);
        assert!(share < 0.35, "{seed}: {share} on the slow one");
        for left in &fleet.left {
            assert!(left.contains("faster elsewhere"), "{left}");
        }
        // Where computing a prompt again takes longer still, its conversation stays.
        let mut fleet = Fleet::new(&[LLAMA.slowed(2.0), LLAMA], 0.5, seed);
        fleet.run(150);
        assert!(fleet.left.is_empty(), "{seed}: {:#?}", fleet.left);
    }
}

#[test]
fn a_worker_that_slows_down_is_left_and_one_that_recovers_is_used() {
    for seed in 0..SEEDS {
        let mut fleet = Fleet::new(&[ACCELERATOR; 2], 0.5, seed);
        fleet.run(100);
        fleet.workers[0].engine = ACCELERATOR.slowed(5.0);
        fleet.run(150);
        let share = fleet.share(0, 100);
        assert!(share < 0.35, "{seed}: {share} on the slow one");
        fleet.workers[0].engine = ACCELERATOR;
        fleet.run(400);
        let share = fleet.share(0, 200);
        assert!(share > 0.05, "{seed}: {share} on the one that recovered");
    }
}
