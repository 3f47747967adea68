//! Holds traces that have ended until somebody takes them.

use contract::{Clock, Moment};
use telemetry::Counter;
use tokio::sync::mpsc;

use crate::sampling::{Ids, SampleRatio};
use crate::span::FinishedTrace;

/// Requests whose spans may wait to be sent: of ten spans each, some 10 MB. Further ones are
/// dropped.
pub(crate) const MOST_WAITING: usize = 2048;

/// Requests whose spans are complete.
pub type Finished = mpsc::Receiver<Box<FinishedTrace>>;

/// What the recordings of a process share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) ratio: SampleRatio,
    pub(crate) ids: Ids,
    pub(crate) queue: mpsc::Sender<Box<FinishedTrace>>,
    pub(crate) dropped: Counter,
}

impl Shared {
    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Never waits.
    pub(crate) fn offer(&self, trace: Box<FinishedTrace>) {
        let spans = trace.spans.len() as u64;
        if self.queue.try_send(trace).is_err() {
            self.dropped.add(spans);
        }
    }
}
