//! Admission: how many requests may be in flight, and whether the server is shutting down.
//!
//! This bounds the process (memory, sockets), not the workers: whether a worker has room is
//! the router's question. A permit counts one request until it is dropped, however the
//! request ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Why a request was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the server is shutting down")]
    Draining,
    #[error("the server already holds {limit} requests")]
    Full { limit: usize },
    #[error("this API key already has {limit} requests in flight")]
    KeyFull { limit: usize },
    #[error("the server is at its limit of buffered request bytes")]
    NoMemory,
}

#[derive(Debug)]
pub(crate) struct Admission {
    inside: AtomicUsize,
    limit: usize,
    draining: AtomicBool,
}

impl Admission {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            inside: AtomicUsize::new(0),
            limit,
            draining: AtomicBool::new(false),
        })
    }

    pub(crate) fn admit(self: &Arc<Self>) -> Result<Permit, Refusal> {
        if self.draining.load(Ordering::Acquire) {
            return Err(Refusal::Draining);
        }
        let permit = Permit {
            admission: Arc::clone(self),
        };
        let before = self.inside.fetch_add(1, Ordering::AcqRel);
        // Counted first and checked after, so that two requests cannot share the last place;
        // dropping the permit takes the count back.
        if before >= self.limit {
            return Err(Refusal::Full { limit: self.limit });
        }
        Ok(permit)
    }

    /// Admits no more requests.
    pub(crate) fn close(&self) {
        self.draining.store(true, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Requests that may be inside.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn inside(&self) -> usize {
        self.inside.load(Ordering::Acquire)
    }
}

/// A place inside, given back on drop.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Arc<Admission>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.inside.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_come_back() {
        let admission = Admission::new(2);
        let first = admission.admit().unwrap();
        let second = admission.admit().unwrap();
        assert_eq!(admission.admit().unwrap_err(), Refusal::Full { limit: 2 });
        assert_eq!(admission.inside(), 2);
        drop(first);
        let third = admission.admit().unwrap();
        drop((second, third));
        assert_eq!(admission.inside(), 0);
    }

    #[test]
    fn a_closed_door_stays_closed_for_newcomers_only() {
        let admission = Admission::new(2);
        let inside = admission.admit().unwrap();
        admission.close();
        assert_eq!(admission.admit().unwrap_err(), Refusal::Draining);
        assert_eq!(admission.inside(), 1);
        drop(inside);
    }
}
