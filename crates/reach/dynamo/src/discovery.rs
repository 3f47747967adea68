//! Where workers register, and what follows for the roster.

mod etcd_registry;
mod files;
mod pods;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use contract::{Clock, ModelName, WorkerId};
use etcd::Etcd;
use kubernetes::Client;
use tasks::Tasks;
use tokio::sync::watch;
use tracing::{info, warn};
use transport::{Change, Member, Roster, feed};

use crate::card::ModelFiles;
use crate::counts::Counts;
use crate::directory::{Description, Directory, Step, Update};
use crate::events::Listeners;
use crate::link::DynamoLink;
use crate::responses::Responses;
use crate::voice::Voice;

use etcd_registry::EtcdRegistry;
use files::Files;
use pods::Pods;

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

/// Whatever tells of registrations.
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

/// Carries what a registry tells to a roster.
pub(crate) struct Discovery {
    pub(crate) directory: Directory,
    pub(crate) listeners: Listeners,
    pub(crate) responses: Arc<Responses>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) clock: Clock,
    pub(crate) roster: Roster,
    pub(crate) models: watch::Sender<Models>,
    pub(crate) tasks: Tasks,
}

/// Those who are there.
type Present = HashMap<WorkerId, (Arc<DynamoLink>, Arc<Voice>)>;

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
        let mut present = Present::new();
        let mut epoch = 0;
        loop {
            let update = reader.next().await;
            let steps = self.directory.apply(update);
            self.listeners.follow(&self.directory.channels());
            for step in steps {
                match step {
                    Step::Joined(description) => {
                        epoch += 1;
                        self.join(*description, epoch, &mut present).await;
                    }
                    Step::Left(worker) => self.leave(worker, &mut present).await,
                    Step::Refused(worker, reason) => {
                        warn!(%worker, reason, "dynamo worker refused");
                    }
                    Step::Unreadable(key, error) => {
                        self.counts.unreadable_registration();
                        warn!(key, %error, "registration not understood");
                    }
                }
            }
            self.tell_models();
        }
    }

    async fn join(&self, description: Description, epoch: u64, present: &mut Present) {
        let card = description.card.clone();
        let worker = card.id;
        info!(%worker, name = card.name, address = description.serving.host, "dynamo worker found");
        let (publisher, feed) = feed(self.clock);
        let identity = (worker, description.dp_rank);
        let counts = Arc::clone(&self.counts);
        let voice = Arc::new(Voice::new(identity, epoch, publisher, counts));
        self.listeners
            .choir()
            .write()
            .insert(worker, Arc::clone(&voice));
        let responses = Arc::clone(&self.responses);
        let link = Arc::new(DynamoLink::new(description, responses, Arc::clone(&voice)));
        present.insert(worker, (Arc::clone(&link), voice));
        let member = Member {
            card,
            link,
            feed,
            // Whatever it holds, it said before we listened.
            warm: true,
            lease: None,
        };
        self.roster.announce(Change::Joined(member)).await;
    }

    async fn leave(&self, worker: WorkerId, present: &mut Present) {
        let Some((link, voice)) = present.remove(&worker) else {
            return;
        };
        info!(%worker, "dynamo worker gone");
        link.leave();
        self.listeners.choir().write().remove(&worker);
        // In this order, so that the feed's end is no surprise.
        self.roster.announce(Change::Left(worker)).await;
        voice.fall_silent();
    }

    fn tell_models(&self) {
        let members = self.directory.members();
        let models: Models = members
            .map(|member| (member.card.model.clone(), member.files.clone()))
            .collect();
        self.models.send_if_modified(|told| {
            let differs = *told != models;
            *told = models;
            differs
        });
    }
}
