//! What lies under a prefix, and how it changes.
//!
//! A watch begins at the revision after the listing that came before it, so nothing falls
//! between the two. After every break (etcd restarted, another endpoint, history compacted
//! away) it lists again: the listener compares, and cannot have missed a deletion.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use futures_util::{StreamExt, stream};
use tonic::metadata::MetadataValue;
use tonic::{Request, Status, Streaming};
use tracing::{debug, warn};

use crate::client::{Etcd, LARGEST_ANSWER, backoff, first_of};
use crate::error::Error;
use crate::wire::event::EventType;
use crate::wire::watch_client::WatchClient;
use crate::wire::watch_request::RequestUnion;
use crate::wire::{Event, WatchCreateRequest, WatchRequest, WatchResponse};
use crate::{KeyValue, end_of};

/// What a [`Watch`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// All keys that exist. A key of an earlier update that is not in it is gone.
    Snapshot(Vec<KeyValue>),
    Put(KeyValue),
    Deleted(Vec<u8>),
}

/// A watched prefix. Nobody works in the background: what is not asked for waits in etcd.
pub struct Watch {
    etcd: Etcd,
    prefix: Vec<u8>,
    state: State,
    ready: VecDeque<Update>,
}

type Connecting = Pin<Box<dyn Future<Output = (Vec<KeyValue>, Streaming<WatchResponse>)> + Send>>;

/// Kept between calls of `next`, so that a caller who gives up loses no progress.
enum State {
    Connecting(Connecting),
    Listening(Box<Streaming<WatchResponse>>),
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = String::from_utf8_lossy(&self.prefix);
        f.debug_struct("Watch").field("prefix", &prefix).finish()
    }
}

impl Etcd {
    /// What lies under a prefix, and every change from then on. Never fails: while etcd is
    /// unreachable, it reports nothing.
    pub fn watch_prefix(&self, prefix: &[u8]) -> Watch {
        Watch::new(self.clone(), prefix.to_vec())
    }
}

impl Watch {
    pub(crate) fn new(etcd: Etcd, prefix: Vec<u8>) -> Self {
        let state = State::Connecting(Box::pin(connect(etcd.clone(), prefix.clone())));
        Self {
            etcd,
            prefix,
            state,
            ready: VecDeque::new(),
        }
    }

    /// The next update: a snapshot at first and after every break, single changes otherwise.
    /// May be dropped unfinished, for instance in a `select!`, without losing anything.
    pub async fn next(&mut self) -> Update {
        loop {
            if let Some(update) = self.ready.pop_front() {
                return update;
            }
            match &mut self.state {
                State::Connecting(connecting) => {
                    let (pairs, stream) = connecting.await;
                    self.state = State::Listening(Box::new(stream));
                    return Update::Snapshot(pairs);
                }
                State::Listening(stream) => {
                    let message = stream.message().await;
                    self.take(message);
                }
            }
        }
    }

    fn take(&mut self, message: Result<Option<WatchResponse>, Status>) {
        let broken = match message {
            Ok(Some(answer)) if answer.canceled => answer.cancel_reason,
            Ok(Some(answer)) => {
                self.ready
                    .extend(answer.events.into_iter().filter_map(update));
                return;
            }
            Ok(None) => "the stream ended".to_owned(),
            Err(status) => status.message().to_owned(),
        };
        debug!(watch = ?self, broken, "watch interrupted; listing again");
        let connecting = connect(self.etcd.clone(), self.prefix.clone());
        self.state = State::Connecting(Box::pin(connecting));
    }
}

fn update(event: Event) -> Option<Update> {
    let kind = EventType::try_from(event.r#type).ok()?;
    let pair = event.kv?;
    Some(match kind {
        EventType::Put => Update::Put(pair.into()),
        EventType::Delete => Update::Deleted(pair.key),
    })
}

/// Lists and watches; tries until it works.
async fn connect(etcd: Etcd, prefix: Vec<u8>) -> (Vec<KeyValue>, Streaming<WatchResponse>) {
    let mut backoff = backoff();
    loop {
        match try_connect(&etcd, &prefix).await {
            Ok(connected) => return connected,
            Err(error) => warn!(%error, "cannot watch etcd; retrying"),
        }
        backoff.wait().await;
    }
}

async fn try_connect(
    etcd: &Etcd,
    prefix: &[u8],
) -> Result<(Vec<KeyValue>, Streaming<WatchResponse>), Error> {
    let (pairs, revision) = etcd.list_at(prefix).await?;
    let create = WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(WatchCreateRequest {
            key: first_of(prefix),
            range_end: end_of(prefix),
            start_revision: revision + 1,
        })),
    };
    let stream = etcd
        .call(|channel| {
            // The request must not end: that would end the watch.
            let create = create.clone();
            let requests = stream::once(async move { create }).chain(stream::pending());
            let mut request = Request::new(requests);
            // Without it a member that lost the others would fall silent instead of saying so.
            let wanted = MetadataValue::from_static("true");
            request.metadata_mut().insert("hasleader", wanted);
            async move {
                WatchClient::new(channel)
                    .max_decoding_message_size(LARGEST_ANSWER)
                    .watch(request)
                    .await
            }
        })
        .await?;
    Ok((pairs, stream))
}
