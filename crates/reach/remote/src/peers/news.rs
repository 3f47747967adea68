//! What engines have processed for us and one other frontend has not been told.
//!
//! Two frontends that name each other have a connection in each direction, and only one of them tells.

use std::collections::BTreeSet;
use std::future::pending;

use contract::{FrontendId, Processed};
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tracing::debug;

use super::to_processed;
use crate::wire;

/// Blocks of one answer that others are told.
const MOST_BLOCKS: usize = 1 << 16;
/// From here on no more answers wait for the next report. With the last one of them that is a megabyte
/// and a half, and a message may have four.
const MOST_BYTES: usize = 1 << 20;
/// Of one answer, beside its blocks and the name of the model.
const OTHER_BYTES: usize = 32;

/// Frontends that are being told, on one connection each.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<BTreeSet<FrontendId>>);

/// The news for one connection, once it is the one that tells the other side.
#[derive(Debug)]
pub(super) struct News<'a> {
    listeners: &'a Listeners,
    telling: Option<Telling>,
    untold: Vec<wire::Processed>,
    bytes: usize,
}

#[derive(Debug)]
struct Telling {
    to: FrontendId,
    processed: broadcast::Receiver<Processed>,
}

impl<'a> News<'a> {
    pub(super) fn new(listeners: &'a Listeners) -> Self {
        Self {
            listeners,
            telling: None,
            untold: Vec::new(),
            bytes: 0,
        }
    }

    /// The other side has said who it is. It is told from now on, unless another connection does that.
    pub(super) fn heard(
        &mut self,
        from: FrontendId,
        subscribe: impl FnOnce() -> broadcast::Receiver<Processed>,
    ) {
        if self.telling.is_none() && self.listeners.0.lock().insert(from) {
            self.telling = Some(Telling {
                to: from,
                processed: subscribe(),
            });
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.bytes < MOST_BYTES
    }

    /// Waits for the next answer and keeps it for the next report. Never ends while nobody is told.
    pub(super) async fn gather(&mut self) {
        let Some(Telling { processed, to }) = &mut self.telling else {
            return pending().await;
        };
        match processed.recv().await {
            Ok(processed) => {
                let told = to_processed(&processed, MOST_BLOCKS);
                self.bytes += 8 * told.blocks.len() + told.model.len() + OTHER_BYTES;
                self.untold.push(told);
            }
            Err(broadcast::error::RecvError::Lagged(lost)) => {
                debug!(
                    frontend = to.0,
                    lost, "answers that another frontend is not told"
                );
            }
            Err(broadcast::error::RecvError::Closed) => pending().await,
        }
    }

    /// All that was kept, for a report that finds room.
    pub(super) fn take(&mut self) -> Vec<wire::Processed> {
        self.bytes = 0;
        std::mem::take(&mut self.untold)
    }
}

impl Drop for News<'_> {
    fn drop(&mut self) {
        if let Some(Telling { to, .. }) = self.telling {
            self.listeners.0.lock().remove(&to);
        }
    }
}

#[cfg(test)]
mod tests {
    use contract::{LocalHash, ModelName, WorkerId};
    use futures_util::FutureExt as _;

    use super::*;

    fn processed(blocks: usize) -> Processed {
        Processed {
            model: ModelName::new("m"),
            worker: WorkerId(1),
            block_size: 32,
            blocks: (0..blocks as u64).map(LocalHash).collect(),
        }
    }

    #[test]
    fn one_connection_tells_a_frontend_and_another_takes_over() {
        let (sender, listeners) = (broadcast::channel(8).0, Listeners::default());
        let (mut first, mut second) = (News::new(&listeners), News::new(&listeners));
        let other = FrontendId(7);
        first.heard(other, || sender.subscribe());
        second.heard(other, || sender.subscribe());
        first.heard(other, || sender.subscribe());
        sender.send(processed(1)).expect("somebody listens");
        assert!(first.gather().now_or_never().is_some());
        assert!(second.gather().now_or_never().is_none());
        drop(first);
        second.heard(other, || sender.subscribe());
        sender.send(processed(2)).expect("somebody listens");
        assert!(second.gather().now_or_never().is_some());
        assert_eq!(second.take().len(), 1);
    }

    #[test]
    fn what_a_reader_does_not_take_is_bounded_however_short_the_answers_are() {
        let (sender, listeners) = (broadcast::channel(8).0, Listeners::default());
        let mut news = News::new(&listeners);
        assert!(news.gather().now_or_never().is_none());
        news.heard(FrontendId(7), || sender.subscribe());
        for blocks in [1, MOST_BLOCKS + 1] {
            let mut gathered = 0;
            while news.has_room() {
                sender.send(processed(blocks)).expect("somebody listens");
                assert!(news.gather().now_or_never().is_some());
                gathered += 1;
            }
            let encoded: usize = news.take().iter().map(prost::Message::encoded_len).sum();
            assert!(gathered <= MOST_BYTES / OTHER_BYTES);
            assert!(encoded < 2 * MOST_BYTES, "{encoded}");
            assert!(news.has_room());
        }
    }
}
