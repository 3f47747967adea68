//! Which worker each session's last request went to: a hint for prompts of which the index knows
//! nothing.
//!
//! Clients name their sessions as they like, so the memory is bounded: two generations, of which
//! the older is dropped when the younger is full. A session that goes on stays.

use std::collections::HashMap;

use contract::WorkerId;

use crate::query::Identity;

/// Sessions of a generation.
const GENERATION: usize = 8192;

/// By tenant and session.
type Key = (u64, u64);

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    young: HashMap<Key, WorkerId>,
    old: HashMap<Key, WorkerId>,
}

impl Sessions {
    /// Where the session's last request went. `None` for a request that names no session.
    pub(crate) fn last_worker(&self, identity: Identity) -> Option<WorkerId> {
        let key = key(identity)?;
        let found = self.young.get(&key).or_else(|| self.old.get(&key));
        found.copied()
    }

    /// Its next one has gone to `worker`.
    pub(crate) fn placed(&mut self, identity: Identity, worker: WorkerId) {
        let Some(key) = key(identity) else {
            return;
        };
        if self.young.len() >= GENERATION && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, worker);
    }
}

fn key(identity: Identity) -> Option<Key> {
    let Identity {
        tenant, session, ..
    } = identity;
    (session != 0).then_some((tenant, session))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(session: u64) -> Identity {
        Identity {
            session,
            ..Identity::default()
        }
    }

    #[test]
    fn the_last_worker_of_each_tenants_session() {
        let mut sessions = Sessions::default();
        let other = Identity {
            tenant: 5,
            ..session(7)
        };
        sessions.placed(session(7), WorkerId(1));
        sessions.placed(other, WorkerId(2));
        assert_eq!(sessions.last_worker(session(7)), Some(WorkerId(1)));
        assert_eq!(sessions.last_worker(other), Some(WorkerId(2)));
        assert_eq!(sessions.last_worker(session(8)), None);
        sessions.placed(session(7), WorkerId(3));
        assert_eq!(sessions.last_worker(session(7)), Some(WorkerId(3)));
    }

    #[test]
    fn requests_without_a_session_leave_nothing() {
        let mut sessions = Sessions::default();
        sessions.placed(session(0), WorkerId(1));
        assert_eq!(sessions.last_worker(session(0)), None);
        assert!(sessions.young.is_empty());
    }

    #[test]
    fn a_new_session_with_every_request_costs_bounded_memory_and_not_those_that_go_on() {
        let mut sessions = Sessions::default();
        for number in 1..=10 * GENERATION as u64 {
            sessions.placed(session(number), WorkerId(1));
            if number % 1000 == 0 {
                sessions.placed(session(u64::MAX), WorkerId(2));
            }
        }
        assert!(sessions.young.len() + sessions.old.len() <= 2 * GENERATION);
        assert_eq!(sessions.last_worker(session(u64::MAX)), Some(WorkerId(2)));
        assert_eq!(sessions.last_worker(session(1)), None);
    }
}
