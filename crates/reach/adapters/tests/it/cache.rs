//! The stand-ins' prefix cache: blocks by a hash of its own kind, least recently used out
//! first. It shares no code with what is tested.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// What a cache did, as an engine would tell it.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    Stored {
        parent: Option<u64>,
        hashes: Vec<u64>,
        tokens: Vec<u32>,
        salt: Option<String>,
    },
    Removed(Vec<u64>),
    Cleared,
}

#[derive(Debug)]
pub(crate) struct Cache {
    pub(crate) block_size: usize,
    most: usize,
    used: HashMap<u64, u64>,
    now: u64,
}

impl Cache {
    pub(crate) fn new(block_size: usize, most: usize) -> Self {
        Self {
            block_size,
            most,
            used: HashMap::new(),
            now: 0,
        }
    }

    /// Tokens of a prompt that need not be computed.
    pub(crate) fn cached(&self, prompt: &[u32], salt: Option<&str>) -> usize {
        let reusable = prompt.len().saturating_sub(1) / self.block_size;
        let chain = self.chain(prompt, salt);
        let held = chain
            .iter()
            .take(reusable)
            .take_while(|hash| self.used.contains_key(hash));
        held.count() * self.block_size
    }

    /// Keeps the blocks of a text.
    pub(crate) fn keep(&mut self, tokens: &[u32], salt: Option<&str>) -> Vec<Told> {
        let chain = self.chain(tokens, salt);
        let known = chain
            .iter()
            .take_while(|hash| self.used.contains_key(hash))
            .count();
        for hash in chain.iter().rev() {
            self.now += 1;
            self.used.insert(*hash, self.now);
        }
        let mut told = Vec::new();
        let mut gone = Vec::new();
        while self.used.len() > self.most {
            let oldest = *self.used.iter().min_by_key(|(_, used)| **used).unwrap().0;
            self.used.remove(&oldest);
            gone.push(oldest);
        }
        if !gone.is_empty() {
            told.push(Told::Removed(gone));
        }
        if known < chain.len() {
            told.push(Told::Stored {
                parent: known.checked_sub(1).map(|last| chain[last]),
                hashes: chain[known..].to_vec(),
                tokens: tokens[known * self.block_size..chain.len() * self.block_size].to_vec(),
                salt: salt.filter(|_| known == 0).map(str::to_owned),
            });
        }
        told
    }

    pub(crate) fn clear(&mut self) -> Told {
        self.used.clear();
        Told::Cleared
    }

    fn chain(&self, tokens: &[u32], salt: Option<&str>) -> Vec<u64> {
        let mut parent = None::<u64>;
        let hash = |block: &[u32]| {
            let mut hasher = DefaultHasher::new();
            (parent, block, salt).hash(&mut hasher);
            parent = Some(hasher.finish());
            hasher.finish()
        };
        tokens.chunks_exact(self.block_size).map(hash).collect()
    }
}
