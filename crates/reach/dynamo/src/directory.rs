//! Which workers exist, according to a registry: registrations in, joins and leaves out.
//!
//! A worker joins once its model card, the endpoint that serves it and, if it has one, the
//! endpoint that dumps its cache are registered; the three come in any order. Any later change
//! makes it leave and join again, because a worker's card is constant.

use std::collections::{BTreeMap, BTreeSet};

use contract::{WorkerCard, WorkerId};

use crate::card::{ModelFiles, UnsupportedWorker, worker_card};
use crate::registration::{
    self, Address, Channel, ChannelAddress, Endpoint, EndpointName, Model, Registration, Target,
};
use crate::wire::DecodeError;

/// A change of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    /// All registrations.
    Snapshot(Vec<(String, Vec<u8>)>),
    /// The same, by pod.
    Pods(Vec<PodRegistrations>),
    Put(String, Vec<u8>),
    Deleted(String),
}

/// What one object of a pod has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodRegistrations {
    pub(crate) pod: String,
    pub(crate) pairs: Vec<(String, Vec<u8>)>,
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

/// Where cache events are published, and whose they are, as far as that is known.
pub(crate) type Channels = BTreeMap<ChannelAddress, BTreeSet<WorkerId>>;

/// Which workers are ours.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// Only workers of this namespace; `None` for all.
    pub(crate) namespace: Option<String>,
    /// Whether NATS is within reach. Without it, workers that need it are refused.
    pub(crate) nats: bool,
}

/// Everything registered, and the workers that follow from it.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    scope: Scope,
    registrations: BTreeMap<String, Registration>,
    /// The pod of each key, where pods register.
    pods: BTreeMap<String, String>,
    members: BTreeMap<WorkerId, Description>,
    refused: BTreeMap<WorkerId, UnsupportedWorker>,
    incomplete: BTreeMap<WorkerId, Missing>,
}

/// What a worker has not registered yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Missing {
    #[error("the endpoint `{0}`")]
    Endpoint(EndpointName),
    #[error("an endpoint that dumps its cache")]
    Recovery,
}

impl Directory {
    pub(crate) fn new(scope: Scope) -> Self {
        Self {
            scope,
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
            Update::Pods(pods) => {
                self.registrations.clear();
                self.pods.clear();
                for PodRegistrations { pod, pairs } in pods {
                    for (key, value) in pairs {
                        self.pods.insert(key.clone(), pod.clone());
                        self.put(key, &value, &mut steps);
                    }
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

    /// Where to listen to cache events.
    pub(crate) fn channels(&self) -> Channels {
        let mut channels = Channels::new();
        for Publisher { channel, workers } in self.publishers() {
            let reachable = self.scope.nats || !is_on_nats(channel);
            let namespace = channel.namespace.as_deref();
            if reachable && namespace.is_none_or(|namespace| self.is_ours(namespace)) {
                let joined = workers.into_iter();
                let joined = joined.filter(|worker| self.members.contains_key(worker));
                let all = channels.entry(channel.address.clone()).or_default();
                all.extend(joined);
            }
        }
        channels
    }

    /// Who publishes, and for whom. A publisher has its worker's id in the first versions, and is
    /// named by a source in the later ones. In between, its subject names the component.
    fn publishers(&self) -> impl Iterator<Item = Publisher<'_>> {
        let (mut channels, mut sources) = (Vec::new(), BTreeMap::new());
        let mut models = BTreeMap::new();
        for registration in self.registrations.values() {
            match registration {
                Registration::Channel(channel) => channels.push(channel),
                Registration::Source(source) => {
                    sources.insert(source.publisher, WorkerId(source.worker));
                }
                Registration::Model(model) => {
                    models.insert(WorkerId(model.instance), &model.name);
                }
                Registration::Endpoint(_) => {}
            }
        }
        let name = {
            let known: BTreeSet<_> = models.keys().copied().collect();
            move |channel: &Channel| {
                let same = Some(WorkerId(channel.publisher)).filter(|same| known.contains(same));
                sources.get(&channel.publisher).copied().or(same)
            }
        };
        // Whose publisher is known needs no guess.
        let named: BTreeSet<_> = channels
            .iter()
            .filter_map(|channel| name(channel))
            .collect();
        models.retain(|worker, _| !named.contains(worker));
        let mut shared = BTreeSet::new();
        channels.into_iter().map(move |channel| {
            let workers = match (name(channel), &channel.address) {
                (Some(worker), _) => vec![worker],
                (None, ChannelAddress::Zmq(_)) => Vec::new(),
                // Each of the component's publishers says the same: once is enough.
                (None, ChannelAddress::Nats(subject)) if shared.insert(subject) => {
                    let own = models.iter().filter(|(_, name)| name.owns(subject));
                    own.map(|(worker, _)| *worker).collect()
                }
                (None, ChannelAddress::Nats(_)) => Vec::new(),
            };
            Publisher { channel, workers }
        })
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Description> {
        self.members.values()
    }

    /// Workers that have not joined because not all of their registrations are there.
    pub(crate) fn incomplete(&self) -> &BTreeMap<WorkerId, Missing> {
        &self.incomplete
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
        let ours = self.scope.namespace.as_deref();
        ours.is_none_or(|ours| ours == namespace)
    }

    /// Why a worker is out of reach, if it needs NATS and there is none.
    fn out_of_reach(&self) -> impl Fn(&Description) -> Option<UnsupportedWorker> + use<> {
        let nats = self.scope.nats;
        let publishers = self.publishers().filter(|one| is_on_nats(one.channel));
        let publishers: BTreeSet<_> = publishers.flat_map(|one| one.workers).collect();
        move |description| match description.serving.target {
            _ if nats => None,
            Target::Nats { .. } => Some(UnsupportedWorker::RequestsOverNats),
            Target::Tcp { .. } => publishers
                .contains(&description.card.id)
                .then_some(UnsupportedWorker::EventsOverNats),
        }
    }

    /// Compares the workers that should have joined with those that have.
    fn reconsider(&mut self, steps: &mut Vec<Step>) {
        let Registered {
            present,
            refused,
            incomplete,
        } = self.registered();
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
        self.incomplete = incomplete;
    }

    fn registered(&self) -> Registered {
        let mut endpoints: BTreeMap<u64, Vec<&Endpoint>> = BTreeMap::new();
        let mut models: Vec<(&Model, Option<&str>)> = Vec::new();
        let mut workers_of: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
        for (key, registration) in &self.registrations {
            match registration {
                Registration::Endpoint(endpoint) => {
                    endpoints
                        .entry(endpoint.instance)
                        .or_default()
                        .push(endpoint);
                }
                Registration::Model(model) => {
                    let pod = self.pods.get(key).map(String::as_str);
                    if let Some(pod) = pod {
                        workers_of.entry(pod).or_default().insert(model.instance);
                    }
                    models.push((model, pod));
                }
                Registration::Channel(_) | Registration::Source(_) => {}
            }
        }
        let mut workers = Registered::default();
        let out_of_reach = self.out_of_reach();
        for (model, pod) in models {
            // Several workers of one pod cannot all be called like it.
            let pod = pod.filter(|pod| workers_of[pod].len() == 1);
            if !self.is_ours(&model.name.namespace) {
                continue;
            }
            let id = WorkerId(model.instance);
            let own = endpoints.get(&model.instance).map_or(&[][..], |own| own);
            let described = describe(model, own, pod);
            let reachable = described.and_then(|description| match out_of_reach(&description) {
                Some(reason) => Err(Absent::Refused(reason)),
                None => Ok(description),
            });
            match reachable {
                Ok(description) => {
                    workers.present.insert(id, description);
                }
                Err(Absent::Incomplete(missing)) => {
                    workers.incomplete.insert(id, missing);
                }
                Err(Absent::Refused(reason)) => {
                    workers.refused.insert(id, reason);
                }
            }
        }
        workers
    }
}

/// Somebody who publishes cache events.
struct Publisher<'a> {
    channel: &'a Channel,
    /// Whose events they may be, as far as that is known.
    workers: Vec<WorkerId>,
}

/// The workers of a registry.
#[derive(Default)]
struct Registered {
    present: BTreeMap<WorkerId, Description>,
    refused: BTreeMap<WorkerId, UnsupportedWorker>,
    incomplete: BTreeMap<WorkerId, Missing>,
}

/// Why a worker does not join.
enum Absent {
    Incomplete(Missing),
    Refused(UnsupportedWorker),
}

impl From<UnsupportedWorker> for Absent {
    fn from(reason: UnsupportedWorker) -> Self {
        Self::Refused(reason)
    }
}

fn describe(
    model: &Model,
    endpoints: &[&Endpoint],
    pod: Option<&str>,
) -> Result<Description, Absent> {
    let Some(serving) = endpoints
        .iter()
        .find(|endpoint| endpoint.name == model.name)
    else {
        return Err(Absent::Incomplete(Missing::Endpoint(model.name.clone())));
    };
    let card = worker_card(model, serving.device.as_deref(), pod)?;
    let config = &model.card.runtime_config;
    let rank = config.data_parallel_start_rank;
    let recovery = endpoints
        .iter()
        .find(|endpoint| answers_for_rank(&endpoint.name.endpoint, rank));
    if recovery.is_none() && config.enable_local_indexer {
        return Err(Absent::Incomplete(Missing::Recovery));
    }
    let Some(address) = &serving.address else {
        return Err(UnsupportedWorker::NoPlane(serving.name.clone()).into());
    };
    Ok(Description {
        card,
        files: ModelFiles::of(&model.card),
        serving: address.clone(),
        recovery: recovery.and_then(|endpoint| endpoint.address.clone()),
        dp_rank: rank,
    })
}

fn is_on_nats(channel: &Channel) -> bool {
    matches!(channel.address, ChannelAddress::Nats(_))
}

/// Whether an endpoint dumps its worker's cache: one per publisher since 1.4, one per rank since
/// 1.0, one per worker before.
fn answers_for_rank(endpoint: &str, rank: u32) -> bool {
    endpoint.starts_with("worker_kv_query_source_")
        || endpoint == "worker_kv_indexer_query"
        || endpoint
            .strip_prefix("worker_kv_indexer_query_dp")
            .is_some_and(|suffix| suffix == rank.to_string())
}

#[cfg(test)]
mod tests;
