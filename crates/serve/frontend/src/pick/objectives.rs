//! Priorities that have names.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

/// Priorities by the names of objectives. Clones share what is watched.
#[derive(Clone, Debug, Default)]
pub struct Objectives {
    /// These hold whatever else is said.
    fixed: HashMap<String, i32>,
    watched: Arc<RwLock<HashMap<String, i32>>>,
}

impl Objectives {
    pub fn new(fixed: HashMap<String, i32>) -> Self {
        Self {
            fixed,
            watched: Arc::default(),
        }
    }

    /// Replaces those that may change.
    pub fn watch(&self, priorities: HashMap<String, i32>) {
        *self.watched.write() = priorities;
    }

    pub(super) fn priority(&self, name: &str) -> Option<i32> {
        let fixed = self.fixed.get(name).copied();
        fixed.or_else(|| self.watched.read().get(name).copied())
    }
}
