//! The workers of a fleet, and what they have in common.
//!
//! Every request asks what all workers can do and how much context they have. Only who is there
//! decides that, so it is found out when a worker comes or goes, and a request reads the result.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use contract::{Abilities, ForwardPath, WorkerCard, WorkerId};
use transport::WorkerLink;

/// What requests may be sent to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// By token ids.
    pub(crate) abilities: Abilities,
    /// Endpoints of the engine's own server, a bit for each.
    forwards: u16,
}

impl Served {
    const EVERYTHING: Self = Self {
        abilities: Abilities::ALL,
        forwards: u16::MAX,
    };

    pub(crate) fn of(card: &WorkerCard) -> Self {
        let bit = |path: &ForwardPath| 1 << *path as u16;
        Self {
            abilities: card.abilities,
            forwards: card.forwards.iter().map(bit).fold(0, |all, one| all | one),
        }
    }

    /// What both can do.
    fn and(self, other: Self) -> Self {
        Self {
            abilities: self.abilities.and(other.abilities),
            forwards: self.forwards & other.forwards,
        }
    }

    /// Whether requests for that endpoint can be sent to the engine's own server.
    pub(crate) fn forwards(self, path: ForwardPath) -> bool {
        self.forwards & (1 << path as u16) != 0
    }
}

/// A worker that can be reached.
#[derive(Debug)]
pub(crate) struct Contact {
    pub(crate) link: Arc<dyn WorkerLink>,
    /// It has announced that it is leaving.
    pub(crate) draining: bool,
    pub(crate) served: Served,
    pub(crate) max_context_tokens: u32,
    pub(crate) adapters: Vec<String>,
    /// Of its engine's own server, for proxies.
    pub(crate) address: Option<SocketAddr>,
    /// It knows nothing of frontends, which divide its slots themselves.
    pub(crate) shared: bool,
}

/// What every worker has, whichever a request goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// What all of them serve.
    pub(crate) served: Served,
    /// The shortest and the longest prompt plus answer of a worker; `None` without workers.
    pub(crate) contexts: Option<(u32, u32)>,
}

impl Offer {
    const NOBODY: Self = Self {
        served: Served::EVERYTHING,
        contexts: None,
    };

    fn and(self, contact: &Contact) -> Self {
        let context = contact.max_context_tokens;
        let (shortest, longest) = self.contexts.unwrap_or((context, context));
        Self {
            served: self.served.and(contact.served),
            contexts: Some((shortest.min(context), longest.max(context))),
        }
    }
}

/// The workers by name.
#[derive(Debug)]
pub(crate) struct Contacts {
    by_worker: HashMap<WorkerId, Contact>,
    offer: Offer,
}

impl Default for Contacts {
    fn default() -> Self {
        Self {
            by_worker: HashMap::new(),
            offer: Offer::NOBODY,
        }
    }
}

impl Contacts {
    pub(crate) fn insert(&mut self, worker: WorkerId, contact: Contact) {
        self.by_worker.insert(worker, contact);
        self.find_offer();
    }

    pub(crate) fn remove(&mut self, worker: WorkerId) {
        self.by_worker.remove(&worker);
        self.find_offer();
    }

    /// The worker has announced that it is leaving.
    pub(crate) fn drain(&mut self, worker: WorkerId) {
        if let Some(contact) = self.by_worker.get_mut(&worker) {
            contact.draining = true;
        }
    }

    pub(crate) fn get(&self, worker: WorkerId) -> Option<&Contact> {
        self.by_worker.get(&worker)
    }

    /// In no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (WorkerId, &Contact)> {
        let all = self.by_worker.iter();
        all.map(|(worker, contact)| (*worker, contact))
    }

    pub(crate) fn offer(&self) -> Offer {
        self.offer
    }

    fn find_offer(&mut self) {
        let contacts = self.by_worker.values();
        self.offer = contacts.fold(Offer::NOBODY, Offer::and);
    }
}
