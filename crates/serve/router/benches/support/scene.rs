//! What the benchmarks feed to an index: a stream of cache events, and prompts to look up.
//!
//! Everything follows from seeds, so two programs that build a scene build the same one.
//! Events are what engines publish: blocks are stored after their parents and evicted leaf
//! first. Hashes are chained as the contract says.

#![allow(
    dead_code,
    reason = "each benchmark includes this file and uses a part of it"
)]

use std::collections::{BTreeMap, HashMap};

use contract::random::{Random, mix};
use contract::{BlockHash, KvEvent, LocalHash, StoredBlock};

/// A prompt as routers see it: the hashes of its full blocks, own and chained.
#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    pub(crate) local: Vec<LocalHash>,
    pub(crate) chain: Vec<BlockHash>,
}

impl Prompt {
    /// The prompt whose block `i` has the content `content(i)`.
    fn new(blocks: usize, content: impl Fn(u64) -> u64) -> Self {
        let local: Vec<LocalHash> = (0..blocks as u64)
            .map(|at| LocalHash(content(at)))
            .collect();
        let mut chain: Vec<BlockHash> = Vec::with_capacity(blocks);
        for &own in &local {
            chain.push(BlockHash::after(chain.last().copied(), own));
        }
        Self { local, chain }
    }

    fn first(&self, blocks: usize) -> Self {
        Self {
            local: self.local[..blocks].to_vec(),
            chain: self.chain[..blocks].to_vec(),
        }
    }

    fn stored(&self, from: usize, to: usize) -> KvEvent {
        let block = |at| StoredBlock {
            hash: self.chain[at],
            local: self.local[at],
        };
        KvEvent::Stored {
            parent: from.checked_sub(1).map(|before| self.chain[before]),
            blocks: (from..to).map(block).collect(),
        }
    }
}

/// Events to apply in order, then prompts to look up.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) workers: usize,
    pub(crate) events: Vec<(usize, KvEvent)>,
    pub(crate) prompts: Vec<Prompt>,
}

impl Scene {
    /// Blocks stored and removed by the events.
    pub(crate) fn block_operations(&self) -> usize {
        self.events.iter().map(block_operations).sum()
    }

    /// Unrelated prompts, each held in full by one worker, to a half by a second and to a
    /// quarter by a third.
    pub(crate) fn held_by_three(workers: usize, blocks: usize, prompts: usize) -> Self {
        let prompts: Vec<Prompt> = (0..prompts as u64)
            .map(|number| Prompt::new(blocks, |at| mix(1, number, at)))
            .collect();
        let mut events = Vec::new();
        for (number, prompt) in prompts.iter().enumerate() {
            for (holder, depth) in [blocks, blocks / 2, blocks / 4].into_iter().enumerate() {
                events.push(((number + holder) % workers, prompt.stored(0, depth)));
            }
        }
        Self {
            workers,
            events,
            prompts,
        }
    }

    /// The same events, but nobody holds any block of the prompts.
    pub(crate) fn missed(mut self) -> Self {
        let blocks = self.prompts.first().map_or(0, |prompt| prompt.chain.len());
        for (number, prompt) in self.prompts.iter_mut().enumerate() {
            *prompt = Prompt::new(blocks, |at| mix(2, number as u64, at));
        }
        self
    }

    /// Conversations that start from a few shared texts, grow turn by turn on a worker of
    /// their own and now and then move, until the caches are full and evict.
    pub(crate) fn conversations(workers: usize, cache_blocks: usize, prompts: usize) -> Self {
        let mut town = Town::new(workers, cache_blocks);
        // Twice the caches' size, so that most of what was stored has been evicted again.
        while town.stored < 2 * workers * cache_blocks {
            town.turn();
        }
        let prompts = town.next_prompts(prompts);
        Self {
            workers,
            events: town.events,
            prompts,
        }
    }
}

/// Blocks that an event stores or removes.
pub(crate) fn block_operations((_, event): &(usize, KvEvent)) -> usize {
    match event {
        KvEvent::Stored { blocks, .. } => blocks.len(),
        KvEvent::Removed { blocks } => blocks.len(),
        KvEvent::Cleared => 0,
    }
}

/// 4,000 tokens in blocks of 32.
pub(crate) const PROMPT_BLOCKS: usize = 125;

const STARTERS: u64 = 20;
const STARTER_BLOCKS: u64 = 30;
const LONGEST_TURN: usize = 20;
const LONGEST_CONVERSATION: usize = 160;
/// Of a cache, what running conversations take: less than it has, so that ended ones stay.
const BLOCKS_PER_LIVE_CONVERSATION: usize = 136;
/// One turn in so many is served by another worker than the turn before.
const MOVES: usize = 20;

struct Conversation {
    number: u64,
    home: usize,
    length: usize,
    prompt: Prompt,
}

impl Conversation {
    fn new(number: u64, random: &mut Random, workers: usize) -> Self {
        let starter = random.next_u64() % STARTERS;
        let content = |at| match at {
            0..STARTER_BLOCKS => mix(3, starter, at),
            _ => mix(4, number, at),
        };
        Self {
            number,
            home: random.below(workers),
            length: STARTER_BLOCKS as usize,
            prompt: Prompt::new(LONGEST_CONVERSATION + LONGEST_TURN, content),
        }
    }
}

/// What one worker's cache holds: conversations by last use, blocks by conversations.
#[derive(Default)]
struct Cache {
    by_use: BTreeMap<usize, Resident>,
    last_use: HashMap<u64, usize>,
    users: HashMap<BlockHash, u32>,
}

struct Resident {
    conversation: u64,
    chain: Vec<BlockHash>,
}

impl Cache {
    /// How many leading blocks of the chain are held, before it becomes resident.
    fn admit(&mut self, conversation: u64, chain: &[BlockHash], now: usize) -> usize {
        let before = self.last_use.insert(conversation, now);
        let known = before
            .and_then(|used| self.by_use.remove(&used))
            .map_or(0, |resident| resident.chain.len());
        let mut held = known;
        for &block in &chain[known..] {
            let users = self.users.entry(block).or_insert(0);
            held += usize::from(*users > 0);
            *users += 1;
        }
        let chain = chain.to_vec();
        let resident = Resident {
            conversation,
            chain,
        };
        self.by_use.insert(now, resident);
        held
    }

    /// Drops the conversation that was used longest ago; the blocks freed, leaf first.
    fn evict(&mut self) -> Vec<BlockHash> {
        let Some((_, resident)) = self.by_use.pop_first() else {
            return Vec::new();
        };
        self.last_use.remove(&resident.conversation);
        let mut freed = Vec::new();
        for &block in resident.chain.iter().rev() {
            let users = self
                .users
                .get_mut(&block)
                .expect("resident blocks are counted");
            *users -= 1;
            if *users == 0 {
                self.users.remove(&block);
                freed.push(block);
            }
        }
        freed
    }
}

struct Town {
    random: Random,
    conversations: Vec<Conversation>,
    founded: u64,
    caches: Vec<Cache>,
    cache_blocks: usize,
    turns: usize,
    stored: usize,
    events: Vec<(usize, KvEvent)>,
}

impl Town {
    fn new(workers: usize, cache_blocks: usize) -> Self {
        let mut random = Random::new(5);
        let founded = (workers * cache_blocks.div_ceil(BLOCKS_PER_LIVE_CONVERSATION)) as u64;
        Self {
            conversations: (0..founded)
                .map(|number| Conversation::new(number, &mut random, workers))
                .collect(),
            random,
            founded,
            caches: (0..workers).map(|_| Cache::default()).collect(),
            cache_blocks,
            turns: 0,
            stored: 0,
            events: Vec::new(),
        }
    }

    fn turn(&mut self) {
        let workers = self.caches.len();
        let random = &mut self.random;
        let drawn = random.below(self.conversations.len());
        let conversation = &mut self.conversations[drawn];
        if conversation.length >= LONGEST_CONVERSATION {
            *conversation = Conversation::new(self.founded, random, workers);
            self.founded += 1;
        }
        conversation.length += 1 + random.below(LONGEST_TURN);
        if random.below(MOVES) == 0 {
            conversation.home = random.below(workers);
        }
        self.turns += 1;
        let (worker, length) = (conversation.home, conversation.length);
        let cache = &mut self.caches[worker];
        let chain = &conversation.prompt.chain[..length];
        let held = cache.admit(conversation.number, chain, self.turns);
        if held < length {
            self.stored += length - held;
            self.events
                .push((worker, conversation.prompt.stored(held, length)));
        }
        while cache.users.len() > self.cache_blocks {
            let blocks = cache.evict();
            if !blocks.is_empty() {
                self.events.push((worker, KvEvent::Removed { blocks }));
            }
        }
    }

    /// What conversations that have come far enough would ask next.
    fn next_prompts(&self, count: usize) -> Vec<Prompt> {
        let near = |one: &&Conversation| {
            one.length < PROMPT_BLOCKS && one.length + LONGEST_TURN >= PROMPT_BLOCKS
        };
        let asked = self.conversations.iter().filter(near);
        asked
            .take(count)
            .map(|one| one.prompt.first(PROMPT_BLOCKS))
            .collect()
    }
}
