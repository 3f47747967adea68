//! Cache events that an engine returns when asked (TensorRT-LLM).
//!
//! The engine answers when it has events or after about two seconds, and returns each event
//! only once. If another client asks too, numbers are missing here, and nothing is assumed
//! about the engine's cache any more.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use tracing::{debug, warn};

use crate::cache_view::CacheView;
use crate::engine_cache::FormatMismatch;
use crate::http::{Limits, Server};
use crate::metrics::AdapterMetrics;
use crate::wire::trtllm::{MOST_BYTES, Numbered};
use crate::wire::{EngineEvent, Malformed};

/// Longer than the engine takes to return that it has none.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two requests: about as long as a step takes.
const PAUSE: Duration = Duration::from_millis(20);

/// Where events are, and in which format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint {
    pub(crate) path: &'static str,
    pub(crate) decode: fn(&[u8]) -> Result<Vec<Numbered>, Malformed>,
}

pub(crate) struct Poller {
    server: Server,
    endpoint: Endpoint,
    cache: Arc<CacheView>,
    metrics: AdapterMetrics,
    next: Option<u64>,
    /// That of the layers with the largest attention window. The others are ignored.
    largest_window: u64,
}

impl Poller {
    pub(crate) fn new(
        server: &Server,
        endpoint: Endpoint,
        cache: &Arc<CacheView>,
        metrics: &AdapterMetrics,
    ) -> Self {
        Self {
            server: server.clone(),
            endpoint,
            cache: Arc::clone(cache),
            metrics: metrics.clone(),
            next: None,
            largest_window: 0,
        }
    }

    /// Applies the events so far. Returns whether the engine returns events at all.
    pub(crate) async fn begin(&mut self) -> Result<bool, FormatMismatch> {
        self.ask().await
    }

    /// Asks until the engine's blocks turn out to be unusable.
    pub(crate) async fn run(mut self) -> FormatMismatch {
        loop {
            if let Err(mismatch) = self.ask().await {
                return mismatch;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn ask(&mut self) -> Result<bool, FormatMismatch> {
        let limits = Limits {
            time: PATIENCE,
            bytes: MOST_BYTES,
        };
        let response = self.server.fetch(Method::POST, self.endpoint.path, limits);
        let body = match response.await {
            Ok((StatusCode::OK, body)) => body,
            Ok((status, _)) => {
                debug!(%status, "no cache events");
                return Ok(false);
            }
            Err(error) => {
                debug!(%error, "no cache events");
                return Ok(false);
            }
        };
        match (self.endpoint.decode)(&body) {
            Ok(events) => self.take(&events)?,
            Err(error) => {
                warn!(worker = %self.cache.worker(), %error, "cache events cannot be read");
                self.metrics.malformed();
                self.cache.miss();
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn take(&mut self, events: &[Numbered]) -> Result<(), FormatMismatch> {
        for Numbered {
            id,
            window_size,
            event,
        } in events
        {
            match self.next {
                Some(next) if *id > next => {
                    self.metrics.gap(false);
                    self.cache.miss();
                }
                // The numbers start over: the engine has restarted.
                Some(next) if *id < next => self.cache.restart(),
                Some(_) | None => {}
            }
            self.next = Some(id.saturating_add(1));
            if *window_size > self.largest_window {
                // The events so far were about layers with a smaller window.
                if self.largest_window > 0 {
                    self.cache.restart();
                }
                self.largest_window = *window_size;
            }
            if *window_size == self.largest_window {
                self.cache
                    .apply(std::slice::from_ref::<EngineEvent>(event))?;
            }
        }
        Ok(())
    }
}
