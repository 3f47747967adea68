//! Begins traces.

use std::borrow::Cow;
use std::sync::Arc;

use contract::{Clock, TraceContext};
use telemetry::{Registry, catalog};
use tokio::sync::mpsc;

use crate::queue::{Finished, MOST_WAITING, Shared};
use crate::recording::RequestTrace;
use crate::sampling::{Ids, SampleRatio};

/// Begins a trace for each request, or none. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Tracer {
    /// `None` if nothing is recorded.
    shared: Option<Arc<Shared>>,
}

impl Tracer {
    /// Records nothing. Contexts that come are passed on.
    pub fn off() -> Self {
        Self::default()
    }

    /// Records that share of the traces that begin here, and what others record. `seed` is to be
    /// drawn at random: ids depend on it.
    pub fn new(
        ratio: SampleRatio,
        seed: u64,
        clock: Clock,
        registry: &Registry,
    ) -> (Self, Finished) {
        let (queue, finished) = mpsc::channel(MOST_WAITING);
        let shared = Shared {
            clock,
            ratio,
            ids: Ids::new(seed),
            queue,
            dropped: registry.counter(&catalog::TRACE_DROPPED_SPANS_TOTAL, &["queue_full"]),
        };
        let tracer = Self {
            shared: Some(Arc::new(shared)),
        };
        (tracer, finished)
    }

    /// A request has come, with the context of whoever sent it.
    pub fn begin(
        &self,
        sent: Option<TraceContext>,
        name: impl FnOnce() -> Cow<'static, str>,
    ) -> RequestTrace {
        let Some(shared) = &self.shared else {
            let known = sent.is_some();
            return RequestTrace::passing(sent, known);
        };
        match sent {
            Some(sent) if sent.is_sampled() => {
                let own = sent.with_span(shared.ids.span());
                RequestTrace::recorded(Arc::clone(shared), own, Some(sent.span), name())
            }
            Some(sent) => RequestTrace::passing(Some(sent), true),
            None => {
                let own = shared.ids.root(shared.ratio);
                match own.is_sampled() {
                    true => RequestTrace::recorded(Arc::clone(shared), own, None, name()),
                    // So that whoever computes the answer does not begin a trace of its own.
                    false => RequestTrace::passing(Some(own), false),
                }
            }
        }
    }
}
