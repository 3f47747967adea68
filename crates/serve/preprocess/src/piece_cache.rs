//! Remembers the tokens of pieces of text.
//!
//! Bounded in bytes and split into shards, each behind a short lock of its own. A shard has
//! two generations: what is used moves to the young one, and when the young one is full it
//! becomes the old one and the old one is forgotten whole. That is recency eviction without
//! a list to maintain: everything used lately survives, each operation is constant time, and
//! what is forgotten is dropped outside the lock.
//!
//! # Guarantees
//!
//! - **Exact.** A hit compares the text itself; the hash only picks the place.
//! - **Bounded.** Text, tokens and their overhead never exceed the limit.
//! - **Deterministic results.** A miss and a hit give the same tokens, so eviction shows in
//!   time only.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use contract::TokenId;
use hashbrown::HashTable;
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

const SHARDS: usize = 16;
/// What an entry costs beside its text and tokens: the entry itself in a table that is at
/// worst half empty, two allocations and a reference count.
const ENTRY_OVERHEAD: usize = 160;

/// Tokens by piece of text.
#[derive(Debug)]
pub struct PieceCache {
    shards: [Mutex<Shard>; SHARDS],
    hits: AtomicU64,
    misses: AtomicU64,
}

/// How well the cache does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    pub hits: u64,
    pub misses: u64,
    pub entries: usize,
    pub bytes: usize,
}

#[derive(Debug)]
struct Shard {
    /// Bytes that each generation may hold.
    limit: usize,
    young: Generation,
    old: Generation,
}

#[derive(Debug, Default)]
struct Generation {
    entries: HashTable<Entry>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    hash: u64,
    text: Box<str>,
    tokens: Arc<[TokenId]>,
}

impl Entry {
    fn bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.tokens) + ENTRY_OVERHEAD
    }
}

impl PieceCache {
    /// A cache of at most `limit_bytes`; 0 remembers nothing.
    pub fn new(limit_bytes: usize) -> Self {
        let limit = limit_bytes / SHARDS / 2;
        let shard = || Shard {
            limit,
            young: Generation::default(),
            old: Generation::default(),
        };
        Self {
            shards: std::array::from_fn(|_| Mutex::new(shard())),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The tokens of `text`, from memory or else from `encode`.
    ///
    /// Two threads that miss at once both encode: the lock is not held meanwhile.
    pub fn get_or_encode<E>(
        &self,
        text: &str,
        encode: impl FnOnce(&str) -> Result<Arc<[TokenId]>, E>,
    ) -> Result<Arc<[TokenId]>, E> {
        let hash = xxh3_64(text.as_bytes());
        // The table uses the low and the topmost bits, so the shard takes some between.
        let shard = &self.shards[(hash >> 32) as usize % SHARDS];
        let mut forgotten = Generation::default();
        let found = shard.lock().get(hash, text, &mut forgotten);
        if let Some(tokens) = found {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(tokens);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let tokens = encode(text)?;
        let entry = Entry {
            hash,
            text: text.into(),
            tokens: Arc::clone(&tokens),
        };
        shard.lock().insert(entry, &mut forgotten);
        Ok(tokens)
    }

    pub fn stats(&self) -> CacheStats {
        let mut stats = CacheStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            ..CacheStats::default()
        };
        for shard in &self.shards {
            let shard = shard.lock();
            stats.entries += shard.young.entries.len() + shard.old.entries.len();
            stats.bytes += shard.young.bytes + shard.old.bytes;
        }
        stats
    }
}

impl Shard {
    /// `forgotten` receives what was evicted, for the caller to drop after unlocking.
    fn get(&mut self, hash: u64, text: &str, forgotten: &mut Generation) -> Option<Arc<[TokenId]>> {
        if let Some(entry) = self.young.find(hash, text) {
            return Some(Arc::clone(&entry.tokens));
        }
        let entry = self.old.take(hash, text)?;
        let tokens = Arc::clone(&entry.tokens);
        self.insert(entry, forgotten);
        Some(tokens)
    }

    fn insert(&mut self, entry: Entry, forgotten: &mut Generation) {
        let bytes = entry.bytes();
        // The second test is for the thread that missed at the same time and came first.
        if bytes > self.limit || self.young.find(entry.hash, &entry.text).is_some() {
            return;
        }
        if self.young.bytes + bytes > self.limit {
            let full = std::mem::take(&mut self.young);
            *forgotten = std::mem::replace(&mut self.old, full);
        }
        self.young.bytes += bytes;
        self.young
            .entries
            .insert_unique(entry.hash, entry, |entry| entry.hash);
    }
}

impl Generation {
    fn find(&self, hash: u64, text: &str) -> Option<&Entry> {
        self.entries
            .find(hash, |entry| entry.hash == hash && *entry.text == *text)
    }

    fn take(&mut self, hash: u64, text: &str) -> Option<Entry> {
        let found = self
            .entries
            .find_entry(hash, |entry| entry.hash == hash && *entry.text == *text);
        let (entry, _) = found.ok()?.remove();
        self.bytes -= entry.bytes();
        Some(entry)
    }
}
