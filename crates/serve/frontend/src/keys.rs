//! The keys that clients may use, and what each gives the right to.
//!
//! A key stands for a tenant: it has a name for people, a share, a highest priority, a limit of
//! requests inside at once, and perhaps a cache of its own. The file is read elsewhere
//! ([`file`] parses its text); here keys are found, replaced while the server runs, and counted.
//!
//! # Guarantees
//!
//! - **Key material is never shown**: not by `Debug`, not in errors, not as a label. Names are.
//! - **Looking up a key reveals nothing about the others**: it is found by a hash with a secret
//!   of this process, and then compared in constant time.
//! - **A request counts against its key until it ends**, however often the file is replaced.

pub(crate) mod file;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use contract::HashSeed;
use contract::access::equal_in_constant_time;
use parking_lot::RwLock;

pub use self::file::KeyFileError;

/// Of `--max-requests`, what a key may have inside that states no limit of its own, where there
/// are several keys.
const DEFAULT_PART: usize = 2;

/// One key and its rights.
pub(crate) struct Key {
    pub(crate) name: String,
    secret: String,
    /// Highest priority; `None` if the file does not say.
    pub(crate) priority: Option<i32>,
    /// Weight beside other keys when all wait.
    pub(crate) share: u32,
    max_requests: Option<usize>,
    /// What keeps its cache apart from others'.
    cache_salt: Option<String>,
    inside: Arc<AtomicUsize>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Key {
    /// A request's seed, apart from other keys' if this one asks for it.
    pub(crate) fn seed(&self, request: HashSeed) -> HashSeed {
        match &self.cache_salt {
            Some(salt) => request.within(salt),
            None => request,
        }
    }

    /// Counts a request, if there is room for it; otherwise says how many there may be.
    pub(crate) fn enter(&self, limit: usize) -> Result<KeyPermit, usize> {
        let permit = KeyPermit {
            inside: Arc::clone(&self.inside),
        };
        // Counted first and checked after, as at the door.
        let before = self.inside.fetch_add(1, Ordering::AcqRel);
        if before >= limit {
            return Err(limit);
        }
        Ok(permit)
    }
}

/// A place among a key's requests, given back on drop.
#[derive(Debug)]
pub(crate) struct KeyPermit {
    inside: Arc<AtomicUsize>,
}

impl Drop for KeyPermit {
    fn drop(&mut self) {
        self.inside.fetch_sub(1, Ordering::AcqRel);
    }
}

/// All keys of a file.
pub struct ApiKeys {
    keys: Vec<Arc<Key>>,
    /// Indices by hash, with this process's own secret.
    by_hash: HashMap<u64, Vec<usize>>,
    secret: RandomState,
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKeys({})", self.keys.len())
    }
}

impl ApiKeys {
    /// From the text of a file: TOML, JSON, or one key a line.
    pub fn parse(text: &str) -> Result<Self, KeyFileError> {
        Ok(Self::new(file::parse(text)?))
    }

    fn new(keys: Vec<Key>) -> Self {
        let secret = RandomState::new();
        let mut by_hash: HashMap<u64, Vec<usize>> = HashMap::new();
        for (index, key) in keys.iter().enumerate() {
            let hash = secret.hash_one(key.secret.as_bytes());
            by_hash.entry(hash).or_default().push(index);
        }
        Self {
            keys: keys.into_iter().map(Arc::new).collect(),
            by_hash,
            secret,
        }
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The names, in the file's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.name.as_str())
    }

    fn find(&self, authorization: Option<&[u8]>) -> Option<&Arc<Key>> {
        let sent = authorization?.strip_prefix(b"Bearer ")?;
        let alike = self.by_hash.get(&self.secret.hash_one(sent))?;
        let mut keys = alike.iter().map(|&index| &self.keys[index]);
        keys.find(|key| equal_in_constant_time(sent, key.secret.as_bytes()))
    }
}

/// The keys in force. Cheap to clone; all clones change together.
#[derive(Clone, Debug)]
pub struct KeyRing {
    keys: Arc<RwLock<Arc<ApiKeys>>>,
}

impl KeyRing {
    pub fn new(keys: ApiKeys) -> Self {
        Self {
            keys: Arc::new(RwLock::new(Arc::new(keys))),
        }
    }

    /// Other keys from now on. Those with the same name go on where they are: what they have
    /// inside still counts.
    pub fn replace(&self, mut keys: ApiKeys) {
        let before = self.keys();
        for key in &mut keys.keys {
            let same = before.keys.iter().find(|old| old.name == key.name);
            if let (Some(old), Some(key)) = (same, Arc::get_mut(key)) {
                key.inside = Arc::clone(&old.inside);
            }
        }
        *self.keys.write() = Arc::new(keys);
    }

    pub fn keys(&self) -> Arc<ApiKeys> {
        Arc::clone(&self.keys.read())
    }

    /// Whether a request's `authorization` header carries one of the keys.
    pub fn allow(&self, authorization: Option<&[u8]>) -> bool {
        self.keys.read().find(authorization).is_some()
    }

    /// The key that a request carries, and how many requests it may have inside.
    pub(crate) fn find(
        &self,
        authorization: Option<&[u8]>,
        max_requests: usize,
    ) -> Option<(Arc<Key>, usize)> {
        let keys = self.keys.read();
        let key = keys.find(authorization)?;
        let otherwise = match keys.len() {
            1 => max_requests,
            _ => (max_requests / DEFAULT_PART).max(1),
        };
        Some((Arc::clone(key), key.max_requests.unwrap_or(otherwise)))
    }
}
