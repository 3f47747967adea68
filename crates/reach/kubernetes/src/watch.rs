//! Lists, then watches, then lists again.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Status;
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tasks::{Backoff, Tasks};
use tokio::sync::mpsc;
use tracing::{info, warn};

/// The server is asked to end a watch after so long. A connection that died in silence is
/// noticed then, so it is shorter than the five minutes that are usual.
const WATCH: Duration = Duration::from_secs(60);
/// How long the server may take for anything else.
const ANSWER: Duration = Duration::from_secs(10);
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// By name.
pub type Objects<K> = BTreeMap<String, K>;

/// Which objects are wanted.
#[derive(Clone, Debug)]
pub struct Selection<K> {
    pub api: Api<K>,
    /// Labels, as `kubectl` takes them; all objects if there are none.
    pub labels: String,
    /// What they are, in messages: `pods of the service homing-worker`.
    pub what: String,
}

/// What `view` sees in the objects, as they come, change and go, until `stop` fires.
pub fn follow<K, T>(
    selection: Selection<K>,
    view: impl Fn(&Objects<K>) -> T + Send + Sync + 'static,
    tasks: &Tasks,
) -> mpsc::Receiver<T>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    T: Send + 'static,
{
    let (sender, receiver) = mpsc::channel(1);
    let watcher = Watcher {
        selection,
        view,
        sender,
    };
    tasks.spawn_until_stop(watcher.run());
    receiver
}

struct Watcher<K, T, V> {
    selection: Selection<K>,
    view: V,
    sender: mpsc::Sender<T>,
}

/// Why a round ended before its time.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("{} ({})", .0.message, .0.code)]
    Refused(Box<Status>),
    #[error("the server does not answer")]
    Silent(#[from] tokio::time::error::Elapsed),
    #[error("the subscriber is gone")]
    NobodyListens,
}

impl<K, T, V> Watcher<K, T, V>
where
    K: Resource + Clone + Debug + DeserializeOwned,
    V: Fn(&Objects<K>) -> T,
{
    async fn run(self) {
        let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        let mut complained = false;
        loop {
            match self.round().await {
                Ok(()) => {
                    backoff.reset();
                    complained = false;
                }
                Err(WatchError::NobodyListens) => return,
                // Its definition may yet be installed.
                Err(WatchError::Api(kube::Error::Api(status))) if status.code == 404 => {
                    let what = &self.selection.what;
                    if !std::mem::replace(&mut complained, true) {
                        info!(
                            what,
                            "Kubernetes does not know this kind of object; asking again"
                        );
                    }
                }
                Err(
                    error @ (WatchError::Api(_) | WatchError::Refused(_) | WatchError::Silent(_)),
                ) => {
                    let what = &self.selection.what;
                    if !std::mem::replace(&mut complained, true) {
                        warn!(what, %error, "cannot watch Kubernetes; retrying");
                    }
                }
            }
            backoff.wait().await;
        }
    }

    /// Lists and watches until the watch ends.
    async fn round(&self) -> Result<(), WatchError> {
        let Selection { api, labels, what } = &self.selection;
        let params = ListParams::default().labels(labels);
        let listed = tokio::time::timeout(ANSWER, api.list(&params)).await??;
        let version = listed.metadata.resource_version.unwrap_or_default();
        let named = listed
            .items
            .into_iter()
            .map(|object| (object.name_any(), object));
        let known: Objects<K> = named.collect();
        if known.is_empty() {
            info!(what, "Kubernetes lists none");
        }
        self.say(&known).await?;
        tokio::time::timeout(WATCH + ANSWER, self.watch(&version, known)).await?
    }

    async fn watch(&self, version: &str, mut known: Objects<K>) -> Result<(), WatchError> {
        let params = WatchParams::default()
            .labels(&self.selection.labels)
            .timeout(WATCH.as_secs() as u32)
            .disable_bookmarks();
        let mut events = pin!(self.selection.api.watch(&params, version).await?);
        while let Some(event) = events.next().await {
            match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    known.insert(object.name_any(), object);
                }
                WatchEvent::Deleted(object) => {
                    known.remove(&object.name_any());
                }
                // For those who resume.
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(status) => return Err(WatchError::Refused(status)),
            }
            self.say(&known).await?;
        }
        Ok(())
    }

    async fn say(&self, known: &Objects<K>) -> Result<(), WatchError> {
        let sent = self.sender.send((self.view)(known)).await;
        sent.map_err(|_| WatchError::NobodyListens)
    }
}
