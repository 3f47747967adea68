//! Counts connections, and chooses which one to close at the limit.
//!
//! A connection that has asked for nothing for a while is missed least: its client will
//! connect again if it wants something, as every HTTP client can. So a full house closes the
//! one that has been quiet longest, and a thousand sockets that somebody opens and forgets
//! keep nobody out. Where all are busy, newcomers get one of a few places in reserve.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::pulse::Pulse;

/// Connections beyond the limit, for health and metrics.
pub(super) const RESERVE: usize = 16;
/// A connection younger than this may still be about to send a request.
const QUIET_AFTER: Duration = Duration::from_secs(1);
/// The same in the reserve, where clients send a request immediately.
const QUIET_IN_RESERVE_AFTER: Duration = Duration::from_millis(100);
/// How long a connection may take to close when another needs its place.
const MAKING_ROOM: Duration = Duration::from_millis(50);
/// How often the log reports that the limit is reached.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// The connections of a process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Connections {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit: usize,
    ordinary: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    next: u64,
    by_number: HashMap<u64, (Rank, Weak<Pulse>)>,
    /// When the log last reported that there is no room, and how many were rejected since.
    reported: Option<Instant>,
    unreported: u64,
}

/// What a connection is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    Ordinary,
    /// Health and metrics only.
    Reserve,
}

/// A connection's place, given back on drop.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    rank: Rank,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionSlot {
    pub(super) fn rank(&self) -> Rank {
        self.rank
    }
}

impl Connections {
    /// At most `limit`, and a few for health and metrics.
    pub fn new(limit: usize) -> Self {
        let limit = limit.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            shared: Arc::new(Shared {
                limit,
                ordinary: Arc::new(Semaphore::new(limit)),
                reserve: Arc::new(Semaphore::new(RESERVE)),
                seen: Mutex::default(),
            }),
        }
    }

    /// Descriptors that this many connections need, reserve included.
    pub const fn descriptors(limit: usize) -> usize {
        limit + RESERVE
    }

    /// A place for a newcomer, or nothing: then it is best hung up on.
    pub(super) async fn admit(&self) -> Option<ConnectionSlot> {
        if let Some(place) = self.find(Rank::Ordinary).await {
            return Some(place);
        }
        self.warn_rarely();
        self.find(Rank::Reserve).await
    }

    async fn find(&self, rank: Rank) -> Option<ConnectionSlot> {
        let places = match rank {
            Rank::Ordinary => &self.shared.ordinary,
            Rank::Reserve => &self.shared.reserve,
        };
        let permit = match Arc::clone(places).try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) if self.make_room(rank) => {
                let freed = Arc::clone(places).acquire_owned();
                timeout(MAKING_ROOM, freed).await.ok().and_then(Result::ok)
            }
            Err(_) => None,
        };
        permit.map(|permit| ConnectionSlot {
            rank,
            _permit: permit,
        })
    }

    /// Lets a connection be found while the result lives.
    pub(super) fn watch(&self, rank: Rank, pulse: &Arc<Pulse>) -> Watched {
        let mut seen = self.shared.seen.lock();
        seen.next += 1;
        let number = seen.next;
        seen.by_number.insert(number, (rank, Arc::downgrade(pulse)));
        Watched {
            connections: self.clone(),
            number,
        }
    }

    /// Asks the connection that has been quiet longest to go, if there is one.
    fn make_room(&self, rank: Rank) -> bool {
        let pulses: Vec<Arc<Pulse>> = {
            let seen = self.shared.seen.lock();
            let of_rank = seen.by_number.values().filter(|(other, _)| *other == rank);
            of_rank.filter_map(|(_, pulse)| pulse.upgrade()).collect()
        };
        let quiet = pulses
            .iter()
            .filter_map(|pulse| Some((pulse.quiet_since()?, pulse)));
        let longest = quiet.min_by_key(|(since, _)| *since);
        let quiet_after = match rank {
            Rank::Ordinary => QUIET_AFTER,
            Rank::Reserve => QUIET_IN_RESERVE_AFTER,
        };
        match longest {
            Some((since, pulse)) if since.elapsed() >= quiet_after => {
                pulse.dismiss();
                true
            }
            Some(_) | None => false,
        }
    }

    fn warn_rarely(&self) {
        let mut seen = self.shared.seen.lock();
        seen.unreported += 1;
        if seen.reported.is_some_and(|at| at.elapsed() < WARN_EVERY) {
            return;
        }
        let (turned_away, limit) = (seen.unreported, self.shared.limit);
        seen.reported = Some(Instant::now());
        seen.unreported = 0;
        drop(seen);
        warn!(
            limit,
            turned_away,
            "connection limit reached; further connections get only health and metrics"
        );
    }
}

/// A connection that can be found.
#[derive(Debug)]
pub(super) struct Watched {
    connections: Connections,
    number: u64,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut seen = self.connections.shared.seen.lock();
        seen.by_number.remove(&self.number);
    }
}
