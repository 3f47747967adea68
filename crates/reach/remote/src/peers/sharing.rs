//! How frontends divide the slots of an engine that does not divide them itself.
//!
//! Nobody is in charge. Each frontend has a *lease* on each engine, the requests that it may have on it,
//! and announces a *claim*, which is never less. A claim is raised first; the lease follows once every
//! other frontend has confirmed that it has seen the claim, and only as far as all claims together then
//! fit. Of two frontends that raise at the same time, each either sees the other's claim before it
//! raises its lease, or was seen by the other; so one of them yields, and leases together never exceed
//! the slots while everybody hears everybody.
//!
//! ```text
//! wants more ──► claim raised, announced ──► confirmed by all ──► lease raised, as far as claims fit
//! wants less ──► lease lowered ──► obeyed (no more requests than that) ──► claim lowered, announced
//! ```
//!
//! Who wants how much: [`fair_shares`] of what all of them need.
//!
//! A frontend that is silent for [`SILENCE`] is forgotten, with its requests. One that slept so long
//! itself has been forgotten by the others: it begins again with what it has running.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::{FrontendId, FrontendLoad, Lease, ModelName, Moment, WorkerId};

use crate::leases::fair_shares;

/// A frontend that says nothing for so long is gone.
pub const SILENCE: Duration = Duration::from_millis(1500);
/// A frontend that has not looked at its own books for so long may have been forgotten.
const OVERSLEPT: Duration = Duration::from_millis(750);
/// Frontends that are listened to. More than anybody runs: a bound on what strangers can fill.
const MOST_PEERS: usize = 256;

/// An engine, as all frontends call it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EngineKey {
    pub model: ModelName,
    pub worker: WorkerId,
}

/// What this frontend has on an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineLoad {
    pub engine: EngineKey,
    pub slots: u32,
    pub load: FrontendLoad,
}

/// What a frontend announces about an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    pub engine: EngineKey,
    pub slots: u32,
    pub claim: u32,
    pub load: FrontendLoad,
}

/// What a frontend tells the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub frontend: FrontendId,
    /// Rises with each report.
    pub number: u64,
    /// A claim waits for this report to be confirmed.
    pub asks: bool,
    /// The latest report that it has seen of each of the others.
    pub seen: Vec<(FrontendId, u64)>,
    pub engines: Vec<Announced>,
}

/// What the router is to know about an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub engine: EngineKey,
    pub lease: Lease,
    pub others: Vec<(FrontendId, FrontendLoad)>,
}

/// What one frontend knows of all.
#[derive(Debug)]
pub struct Sharing {
    own: FrontendId,
    /// Of the latest report.
    number: u64,
    engines: BTreeMap<EngineKey, Own>,
    peers: BTreeMap<FrontendId, Peer>,
    looked: Option<Moment>,
}

#[derive(Debug)]
struct Own {
    slots: u32,
    load: FrontendLoad,
    lease: Lease,
    claim: u32,
    /// The report that raised the claim, until all have confirmed it.
    asked: Option<u64>,
    /// What was last reported of it: its claim, and how many wait.
    told: (u32, u32),
}

#[derive(Debug)]
struct Peer {
    heard: Moment,
    /// Its latest report.
    number: u64,
    /// Our latest report that it has seen.
    seen: u64,
    engines: BTreeMap<EngineKey, Announced>,
}

impl Sharing {
    pub fn new(own: FrontendId) -> Self {
        Self {
            own,
            number: 0,
            engines: BTreeMap::new(),
            peers: BTreeMap::new(),
            looked: None,
        }
    }

    /// Frontends that are heard from.
    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    /// Takes in what another frontend says. Returns whether it waits for a confirmation.
    pub fn hear(&mut self, report: Report, now: Moment) -> bool {
        let Report {
            frontend,
            number,
            asks,
            seen,
            engines,
        } = report;
        let known = self.peers.contains_key(&frontend);
        if frontend == self.own || (!known && self.peers.len() >= MOST_PEERS) {
            return false;
        }
        let peer = self.peers.entry(frontend).or_insert_with(|| Peer {
            heard: now,
            number: 0,
            seen: 0,
            engines: BTreeMap::new(),
        });
        peer.heard = now;
        // Two connections may carry its reports, and not in order.
        if number <= peer.number {
            return false;
        }
        peer.number = number;
        let own = seen.iter().find(|(id, _)| *id == self.own);
        peer.seen = own.map_or(0, |(_, number)| *number);
        let engines = engines.into_iter().map(|one| (one.engine.clone(), one));
        peer.engines = engines.collect();
        asks
    }

    /// Looks at what this frontend has and what the others said, and divides again. Leases rise only
    /// once `settled`: before, there may be others that have not been heard yet.
    pub fn divide(&mut self, loads: Vec<EngineLoad>, settled: bool, now: Moment) -> Vec<Share> {
        self.wake_up(now);
        let silent = |peer: &Peer| now.since(peer.heard) >= SILENCE;
        self.peers.retain(|_, peer| !silent(peer));
        self.take_stock(loads);
        let confirmed = self.peers.values().map(|peer| peer.seen).min();
        let next = self.number + 1;
        let mut shares = Vec::new();
        for (key, own) in &mut self.engines {
            let others = others(&self.peers, key);
            let room = Room::new(self.own, own, &others);
            own.lower(&room);
            if settled {
                own.raise(&room, confirmed, next);
            }
            shares.push(Share {
                engine: key.clone(),
                lease: own.lease,
                others: others.iter().map(|(id, one)| (*id, one.load)).collect(),
            });
        }
        shares
    }

    /// Whether the others should hear at once: a claim has changed, or others wait than before.
    pub fn has_news(&self) -> bool {
        let mut engines = self.engines.values();
        engines.any(|own| own.told != (own.claim, own.load.waiting))
    }

    /// What to tell the others now.
    pub fn report(&mut self) -> Report {
        self.number += 1;
        let number = self.number;
        for own in self.engines.values_mut() {
            own.told = (own.claim, own.load.waiting);
        }
        let engines = self.engines.iter();
        Report {
            frontend: self.own,
            number,
            asks: self
                .engines
                .values()
                .any(|own| own.asked.is_some_and(|asked| asked >= number)),
            seen: self
                .peers
                .iter()
                .map(|(id, peer)| (*id, peer.number))
                .collect(),
            engines: engines
                .map(|(key, own)| Announced {
                    engine: key.clone(),
                    slots: own.slots,
                    claim: own.claim,
                    load: own.load,
                })
                .collect(),
        }
    }

    /// After a long sleep nobody counts our claims any more, and we have heard nobody.
    fn wake_up(&mut self, now: Moment) {
        let slept = self
            .looked
            .replace(now)
            .is_some_and(|looked| now.since(looked) >= OVERSLEPT);
        if !slept {
            return;
        }
        for own in self.engines.values_mut() {
            own.grant(0);
            own.asked = None;
        }
        for peer in self.peers.values_mut() {
            peer.heard = now;
            peer.seen = 0;
        }
    }

    /// The engines as they are now, and what has become of lower leases.
    fn take_stock(&mut self, loads: Vec<EngineLoad>) {
        let mut former = std::mem::take(&mut self.engines);
        for EngineLoad {
            engine,
            slots,
            load,
        } in loads
        {
            let mut own = former.remove(&engine).unwrap_or(Own {
                slots,
                load,
                lease: Lease {
                    number: 1,
                    slots: 0,
                },
                claim: 0,
                asked: None,
                told: (0, 0),
            });
            own.slots = slots;
            own.load = load;
            own.settle();
            self.engines.insert(engine, own);
        }
    }
}

/// What the other frontends said about an engine.
fn others<'a>(
    peers: &'a BTreeMap<FrontendId, Peer>,
    key: &EngineKey,
) -> Vec<(FrontendId, &'a Announced)> {
    let told = peers
        .iter()
        .filter_map(|(id, peer)| Some((*id, peer.engines.get(key)?)));
    told.collect()
}

/// An engine's slots, as far as they concern this frontend.
struct Room {
    slots: u32,
    /// What it should have.
    wanted: u32,
    /// What the others may have.
    claimed: u32,
}

impl Room {
    fn new(id: FrontendId, own: &Own, others: &[(FrontendId, &Announced)]) -> Self {
        let need = |load: &FrontendLoad| load.in_flight.saturating_add(load.waiting);
        let slots = others.iter().map(|(_, one)| one.slots).min();
        let slots = slots.map_or(own.slots, |slots| slots.min(own.slots));
        let mut needs = vec![(id, need(&own.load))];
        needs.extend(others.iter().map(|(other, one)| (*other, need(&one.load))));
        let claims = others.iter().map(|(_, one)| one.claim);
        Self {
            slots,
            wanted: fair_shares(slots, needs).remove(&id).unwrap_or_default(),
            claimed: claims.fold(0, u32::saturating_add),
        }
    }

    /// What a claim of this frontend may be, with those of the others as they are.
    fn most(&self) -> u32 {
        self.slots.saturating_sub(self.claimed)
    }
}

impl Own {
    fn grant(&mut self, slots: u32) {
        let number = self.lease.number + 1;
        self.lease = Lease { number, slots };
    }

    /// A lower lease that is obeyed lowers the claim.
    fn settle(&mut self) {
        let obeyed = self.load.lease == Some(self.lease.number);
        if obeyed && self.asked.is_none() {
            self.claim = self.lease.slots.max(self.load.in_flight);
        }
    }

    fn lower(&mut self, room: &Room) {
        let running = self.load.in_flight.min(self.lease.slots);
        let share = room.wanted.max(running);
        if share < self.lease.slots {
            self.asked = None;
            self.grant(share);
        }
    }

    /// `confirmed` is our latest report that all others have seen, if there are others, and `next` the
    /// one to come.
    fn raise(&mut self, room: &Room, confirmed: Option<u64>, next: u64) {
        if let Some(asked) = self.asked {
            if confirmed.is_some_and(|confirmed| confirmed < asked) {
                return;
            }
            self.asked = None;
            let share = self.claim.min(room.most()).min(room.wanted);
            if share > self.lease.slots {
                self.claim = share;
                self.grant(share);
                return;
            }
        }
        let claim = room.most().min(room.wanted);
        if claim <= self.lease.slots {
            return;
        }
        self.claim = self.claim.max(claim);
        match confirmed {
            // There is nobody to ask.
            None => self.grant(claim),
            Some(_) => self.asked = Some(next),
        }
    }
}

#[cfg(test)]
mod tests;
