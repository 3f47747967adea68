//! The records of one run, and the gaps of the requests that are measured.

use std::sync::Arc;

use contract::Moment;
use loadgen::live::RecordSink;
use loadgen::{Histogram, RequestRecord};
use parking_lot::Mutex;

#[derive(Clone, Debug, Default)]
pub(super) struct Collector(Arc<Mutex<Collected>>);

#[derive(Debug, Default)]
struct Collected {
    records: Vec<RequestRecord>,
    itl: Histogram,
    /// Set when the window begins. A request that is sent in it ends after that, so none that
    /// is measured can be missed.
    window: Option<(Moment, Moment)>,
}

impl Collector {
    /// The window begins.
    pub(super) fn open(&self, begin: Moment, end: Moment) {
        self.0.lock().window = Some((begin, end));
    }

    pub(super) fn sink(&self) -> RecordSink {
        let collected = Arc::clone(&self.0);
        Box::new(move |record, exchange| {
            let mut collected = collected.lock();
            collected.records.push(record.clone());
            let measured = collected
                .window
                .is_some_and(|(begin, end)| begin <= exchange.sent && exchange.sent < end);
            if let (true, Ok(answer)) = (measured, &exchange.outcome) {
                for gap in &answer.gaps {
                    collected.itl.record(gap.per_token(), u64::from(gap.tokens));
                }
            }
        })
    }

    pub(super) fn take(&self) -> (Vec<RequestRecord>, Histogram) {
        let Collected { records, itl, .. } = std::mem::take(&mut *self.0.lock());
        (records, itl)
    }
}
