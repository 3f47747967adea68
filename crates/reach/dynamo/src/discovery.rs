//! Follows a registry of workers and announces them on the roster.

mod etcd_registry;
mod files;
mod pods;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use contract::{Clock, ModelName, WorkerId};
use etcd::Etcd;
use kubernetes::Client;
use nats::Nats;
use tasks::Tasks;
use tokio::sync::watch;
use tracing::{info, warn};
use transport::{Change, Member, Roster, feed};

use crate::cache_feed::{CacheFeed, Publisher};
use crate::card::ModelFiles;
use crate::directory::{Description, Directory, Step, Update};
use crate::events::Listeners;
use crate::link::DynamoLink;
use crate::metrics::Metrics;
use crate::responses::Responses;

use etcd_registry::EtcdRegistry;
use files::Files;
use pods::Pods;

/// After this long, a worker that has not registered everything is worth a line in the log.
const REGISTERING: Duration = Duration::from_secs(10);

/// A registry of workers.
pub enum Registry {
    Etcd(Etcd),
    /// The folder that Dynamo calls `DYN_FILE_KV`.
    Files(PathBuf),
    /// The pods of a namespace; by default of the one that the client is in.
    Kubernetes {
        client: Client,
        namespace: Option<String>,
    },
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Etcd(_) => "Etcd",
            Self::Files(_) => "Files",
            Self::Kubernetes { .. } => "Kubernetes",
        })
    }
}

/// What is served, and with which files.
pub type Models = BTreeMap<ModelName, ModelFiles>;

/// Reads the changes of a registry.
enum Reader {
    Etcd(EtcdRegistry),
    Files(Files),
    Pods(Pods),
}

impl Reader {
    async fn next(&mut self) -> Update {
        match self {
            Self::Etcd(registry) => registry.next().await,
            Self::Files(files) => files.next().await,
            Self::Pods(pods) => pods.next().await,
        }
    }
}

/// Announces the workers of a registry.
pub(crate) struct Discovery {
    pub(crate) directory: Directory,
    pub(crate) listeners: Listeners,
    pub(crate) responses: Arc<Responses>,
    pub(crate) nats: Option<Nats>,
    pub(crate) metrics: Metrics,
    pub(crate) clock: Clock,
    pub(crate) roster: Roster,
    pub(crate) models: watch::Sender<Models>,
    pub(crate) tasks: Tasks,
}

/// A worker that has joined.
struct Joined {
    link: Arc<DynamoLink>,
    cache: Arc<CacheFeed>,
}

type Workers = HashMap<WorkerId, Joined>;

impl Discovery {
    /// Runs until it is dropped.
    pub(crate) async fn run(mut self, registry: Registry) {
        let mut reader = match registry {
            Registry::Etcd(etcd) => Reader::Etcd(EtcdRegistry::new(&etcd)),
            Registry::Files(folder) => Reader::Files(Files::new(folder)),
            Registry::Kubernetes { client, namespace } => {
                let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
                Reader::Pods(Pods::new(&client, &namespace, &self.tasks))
            }
        };
        let mut workers = Workers::new();
        let mut epoch = 0;
        let mut named = BTreeSet::new();
        loop {
            let update = self.next(&mut reader, &mut named).await;
            let steps = self.directory.apply(update);
            self.listeners.follow(&self.directory.channels());
            for step in steps {
                match step {
                    Step::Joined(description) => {
                        epoch += 1;
                        self.join(*description, epoch, &mut workers).await;
                    }
                    Step::Left(worker) => self.leave(worker, &mut workers).await,
                    Step::Refused(worker, reason) => {
                        warn!(%worker, %reason, "dynamo worker refused");
                    }
                    Step::Unreadable(key, error) => {
                        self.metrics.unreadable_registrations.inc();
                        warn!(key, %error, "registration cannot be read");
                    }
                }
            }
            self.publish_models();
        }
    }

    /// The next change. Meanwhile the log names workers that wait for something, each once.
    async fn next(&self, reader: &mut Reader, named: &mut BTreeSet<WorkerId>) -> Update {
        let mut next = pin!(reader.next());
        tokio::select! {
            update = &mut next => return update,
            () = tokio::time::sleep(REGISTERING) => {}
        }
        let incomplete = self.directory.incomplete();
        named.retain(|worker| incomplete.contains_key(worker));
        for (worker, missing) in incomplete {
            if named.insert(*worker) {
                warn!(%worker, %missing, "dynamo worker does not join: its registration is incomplete");
            }
        }
        next.await
    }

    async fn join(&self, description: Description, epoch: u64, workers: &mut Workers) {
        let card = description.card.clone();
        let worker = card.id;
        let address = &description.serving.target;
        info!(%worker, name = card.name, %address, "dynamo worker found");
        if description.recovery.is_none() {
            warn!(%worker, "dynamo worker announces no cache events, so what it holds is unknown (version 0.9 needs DYN_LOCAL_INDEXER=true, later ones no --durable-kv-events)");
        }
        let (sender, feed) = feed(self.clock);
        let publisher = Publisher {
            worker,
            dp_rank: description.dp_rank,
            epoch,
        };
        let cache = Arc::new(CacheFeed::new(publisher, sender, self.metrics.clone()));
        self.listeners
            .feeds()
            .write()
            .insert(worker, Arc::clone(&cache));
        let responses = Arc::clone(&self.responses);
        let link = DynamoLink::new(
            description,
            responses,
            Arc::clone(&cache),
            self.nats.as_ref(),
        );
        let link = Arc::new(link);
        let joined = Joined {
            link: Arc::clone(&link),
            cache,
        };
        workers.insert(worker, joined);
        let member = Member {
            card,
            link,
            feed,
            // It published what it holds before we listened.
            warm: true,
            lease: None,
        };
        self.roster.announce(Change::Joined(Box::new(member))).await;
    }

    async fn leave(&self, worker: WorkerId, workers: &mut Workers) {
        let Some(Joined { link, cache }) = workers.remove(&worker) else {
            return;
        };
        info!(%worker, "dynamo worker gone");
        link.leave();
        self.listeners.feeds().write().remove(&worker);
        // In this order, so that the end of the feed does not count as a failure.
        self.roster.announce(Change::Left(worker)).await;
        cache.close();
    }

    fn publish_models(&self) {
        let members = self.directory.members();
        let models: Models = members
            .map(|member| (member.card.model.clone(), member.files.clone()))
            .collect();
        self.models.send_if_modified(|current| {
            let differs = *current != models;
            *current = models;
            differs
        });
    }
}

#[cfg(test)]
mod tests;
