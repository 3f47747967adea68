//! Which workers exist, according to a registry: registrations in, joins and leaves out.
//!
//! A worker joins once its model card, the endpoint that serves it and, if it has one, the
//! endpoint that dumps its cache are registered; the three come in any order. Any later change
//! makes it leave and join again, because a worker's card is constant.

use std::collections::BTreeMap;

use contract::{WorkerCard, WorkerId};

use crate::card::{ModelFiles, UnsupportedWorker, worker_card};
use crate::registration::{self, Address, Endpoint, Model, Registration};
use crate::wire::DecodeError;

/// A change of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    /// All registrations.
    Snapshot(Vec<(String, Vec<u8>)>),
    Put(String, Vec<u8>),
    Deleted(String),
}

/// What follows from a change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Joined(Box<Description>),
    Left(WorkerId),
    /// A worker that cannot serve our requests, and why. Returned once.
    Refused(WorkerId, UnsupportedWorker),
    /// The value under this key cannot be read.
    Unreadable(String, DecodeError),
}

/// A worker as its registrations describe it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Description {
    pub card: WorkerCard,
    pub files: ModelFiles,
    /// Where requests go.
    pub serving: Address,
    /// Where to ask for a dump of its cache.
    pub recovery: Option<Address>,
    pub dp_rank: u32,
}

/// Everything registered, and the workers that follow from it.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// Only workers of this namespace; `None` for all.
    namespace: Option<String>,
    registrations: BTreeMap<String, Registration>,
    members: BTreeMap<WorkerId, Description>,
    refused: BTreeMap<WorkerId, UnsupportedWorker>,
}

impl Directory {
    pub(crate) fn new(namespace: Option<String>) -> Self {
        Self {
            namespace,
            ..Self::default()
        }
    }

    pub(crate) fn apply(&mut self, update: Update) -> Vec<Step> {
        let mut steps = Vec::new();
        match update {
            Update::Snapshot(pairs) => {
                self.registrations.clear();
                for (key, value) in pairs {
                    self.put(key, &value, &mut steps);
                }
            }
            Update::Put(key, value) => self.put(key, &value, &mut steps),
            Update::Deleted(key) => {
                self.registrations.remove(&key);
            }
        }
        self.reconsider(&mut steps);
        steps
    }

    /// Where cache events are published, and for whom, if that is known.
    pub(crate) fn channels(&self) -> BTreeMap<String, Option<WorkerId>> {
        let (mut channels, mut sources) = (Vec::new(), BTreeMap::new());
        for registration in self.registrations.values() {
            match registration {
                Registration::Channel(channel) => channels.push(channel),
                Registration::Source(source) => {
                    sources.insert(source.publisher, WorkerId(source.worker));
                }
                Registration::Endpoint(_) | Registration::Model(_) => {}
            }
        }
        let ours = channels.into_iter().filter(|channel| {
            let namespace = channel.namespace.as_deref();
            namespace.is_none_or(|namespace| self.is_ours(namespace))
        });
        ours.map(|channel| {
            let named = Some(WorkerId(channel.publisher));
            let named = named.filter(|worker| self.members.contains_key(worker));
            let worker = sources.get(&channel.publisher).copied().or(named);
            (channel.address.clone(), worker)
        })
        .collect()
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Description> {
        self.members.values()
    }

    fn put(&mut self, key: String, value: &[u8], steps: &mut Vec<Step>) {
        match registration::decode(value) {
            Ok(Some(registration)) => {
                self.registrations.insert(key, registration);
            }
            Ok(None) => {}
            Err(error) => {
                self.registrations.remove(&key);
                steps.push(Step::Unreadable(key, error));
            }
        }
    }

    fn is_ours(&self, namespace: &str) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|ours| ours == namespace)
    }

    /// Compares the workers that should have joined with those that have.
    fn reconsider(&mut self, steps: &mut Vec<Step>) {
        let Registered { present, refused } = self.registered();
        for (id, description) in &self.members {
            if present.get(id) != Some(description) {
                steps.push(Step::Left(*id));
            }
        }
        for (id, reason) in &refused {
            if self.refused.get(id) != Some(reason) {
                steps.push(Step::Refused(*id, reason.clone()));
            }
        }
        for (id, description) in &present {
            if self.members.get(id) != Some(description) {
                steps.push(Step::Joined(Box::new(description.clone())));
            }
        }
        self.members = present;
        self.refused = refused;
    }

    fn registered(&self) -> Registered {
        let mut endpoints: BTreeMap<u64, Vec<&Endpoint>> = BTreeMap::new();
        let mut models: Vec<&Model> = Vec::new();
        for registration in self.registrations.values() {
            match registration {
                Registration::Endpoint(endpoint) => {
                    endpoints
                        .entry(endpoint.instance)
                        .or_default()
                        .push(endpoint);
                }
                Registration::Model(model) => models.push(model),
                Registration::Channel(_) | Registration::Source(_) => {}
            }
        }
        let mut workers = Registered::default();
        for model in models {
            if !self.is_ours(&model.name.namespace) {
                continue;
            }
            let id = WorkerId(model.instance);
            let own = endpoints.get(&model.instance).map_or(&[][..], |own| own);
            match describe(model, own) {
                Ok(Some(description)) => {
                    workers.present.insert(id, description);
                }
                Ok(None) => {}
                Err(reason) => {
                    workers.refused.insert(id, reason);
                }
            }
        }
        workers
    }
}

/// The workers of a registry.
#[derive(Default)]
struct Registered {
    present: BTreeMap<WorkerId, Description>,
    refused: BTreeMap<WorkerId, UnsupportedWorker>,
}

/// `None` while a registration is still missing.
fn describe(
    model: &Model,
    endpoints: &[&Endpoint],
) -> Result<Option<Description>, UnsupportedWorker> {
    let Some(serving) = endpoints
        .iter()
        .find(|endpoint| endpoint.name == model.name)
    else {
        return Ok(None);
    };
    let card = worker_card(model, serving.device.as_deref())?;
    let config = &model.card.runtime_config;
    let rank = config.data_parallel_start_rank;
    let recovery = endpoints
        .iter()
        .find(|endpoint| answers_for_rank(&endpoint.name.endpoint, rank));
    if recovery.is_none() && config.enable_local_indexer {
        return Ok(None);
    }
    let Some(address) = &serving.address else {
        return Err(UnsupportedWorker::NoTcp(serving.name.clone()));
    };
    Ok(Some(Description {
        card,
        files: ModelFiles::of(&model.card),
        serving: address.clone(),
        recovery: recovery.and_then(|endpoint| endpoint.address.clone()),
        dp_rank: rank,
    }))
}

/// Whether an endpoint dumps its worker's cache: one per publisher since 1.4, one per rank
/// before.
fn answers_for_rank(endpoint: &str, rank: u32) -> bool {
    endpoint.starts_with("worker_kv_query_source_")
        || endpoint
            .strip_prefix("worker_kv_indexer_query_dp")
            .is_some_and(|suffix| suffix == rank.to_string())
}

#[cfg(test)]
mod tests;
