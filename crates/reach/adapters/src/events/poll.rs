//! Events that TensorRT-LLM gives when asked.
//!
//! The engine answers when it has something or after about two seconds. What it has given it
//! does not give again: if somebody else asks too, numbers are missing, and everything the
//! engine was thought to hold is forgotten.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use tracing::{debug, warn};

use crate::holdings::Holdings;
use crate::http::Server;
use crate::metrics::EngineMetrics;
use crate::mirror::Misfit;
use crate::wire::EngineEvent;
use crate::wire::trtllm::{self, Numbered};

const EVENTS: (Method, &str) = (Method::POST, "/kv_cache_events");
/// Longer than the engine takes to say that it has nothing.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two questions: a step takes about as long.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct Poller {
    server: Server,
    holdings: Arc<Holdings>,
    metrics: EngineMetrics,
    next: Option<u64>,
    /// Of the layers that see most. Others do not count.
    largest_window: u64,
}

impl Poller {
    pub(crate) fn new(server: &Server, holdings: &Arc<Holdings>, metrics: &EngineMetrics) -> Self {
        Self {
            server: server.clone(),
            holdings: Arc::clone(holdings),
            metrics: metrics.clone(),
            next: None,
            largest_window: 0,
        }
    }

    /// Whether the engine gives events at all. What it gives is taken in.
    pub(crate) async fn begin(&mut self) -> Result<bool, Misfit> {
        self.ask().await
    }

    /// Asks until the engine's blocks turn out not to fit.
    pub(crate) async fn run(mut self) -> Misfit {
        loop {
            if let Err(misfit) = self.ask().await {
                return misfit;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn ask(&mut self) -> Result<bool, Misfit> {
        let answer = self.server.ask(EVENTS, PATIENCE, trtllm::MOST_BYTES).await;
        let body = match answer {
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
        match trtllm::decode(&body) {
            Ok(events) => self.take(&events)?,
            Err(error) => {
                warn!(worker = %self.holdings.worker(), %error, "cache events are not understood");
                self.metrics.malformed();
                self.holdings.miss();
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn take(&mut self, events: &[Numbered]) -> Result<(), Misfit> {
        for Numbered {
            id,
            window_size,
            event,
        } in events
        {
            match self.next {
                Some(next) if *id > next => {
                    self.metrics.gap(false);
                    self.holdings.miss();
                }
                // It counts again: it has started again.
                Some(next) if *id < next => self.holdings.restart(),
                Some(_) | None => {}
            }
            self.next = Some(id.saturating_add(1));
            if *window_size > self.largest_window {
                // What was told of narrower layers until now does not count.
                if self.largest_window > 0 {
                    self.holdings.restart();
                }
                self.largest_window = *window_size;
            }
            if *window_size == self.largest_window {
                self.holdings
                    .apply(std::slice::from_ref::<EngineEvent>(event))?;
            }
        }
        Ok(())
    }
}
