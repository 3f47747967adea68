//! What engines without cache events are believed to hold, shared with other frontends.
//!
//! Such an engine is known only by what was sent to it. Where several frontends send, each tells the
//! others what the engine has processed for it, so that all believe the same. How that travels is the
//! caller's business; what is lost on the way costs a cache miss.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use contract::{ModelName, Processed, WorkerId};
use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::cache_view::{CacheView, Told};

/// Answers that may wait for whoever tells the others.
const MOST_UNTOLD: usize = 1024;

/// By model and engine; gone when the engine is.
type Caches = HashMap<(ModelName, WorkerId), Weak<CacheView>>;

/// Shared by all engines of a frontend.
#[derive(Clone, Debug)]
pub struct SharedEstimates {
    ours: broadcast::Sender<Processed>,
    engines: Arc<Mutex<Caches>>,
}

impl Default for SharedEstimates {
    fn default() -> Self {
        Self {
            ours: broadcast::channel(MOST_UNTOLD).0,
            engines: Arc::default(),
        }
    }
}

impl SharedEstimates {
    /// What engines without events have processed for this frontend, from now on.
    pub fn ours(&self) -> broadcast::Receiver<Processed> {
        self.ours.subscribe()
    }

    /// What one has processed for another frontend.
    pub fn hear(&self, processed: &Processed) {
        let key = (processed.model.clone(), processed.worker);
        let engine = self.engines.lock().get(&key).and_then(Weak::upgrade);
        if let Some(engine) = engine {
            engine.processed_for_another(processed);
        }
    }

    pub(crate) fn joined(&self, model: &ModelName, cache: &Arc<CacheView>) {
        let mut engines = self.engines.lock();
        engines.retain(|_, cache| cache.strong_count() > 0);
        engines.insert((model.clone(), cache.worker()), Arc::downgrade(cache));
    }

    /// For the cache of an engine that serves a model.
    pub(crate) fn told(&self, model: &ModelName) -> Told {
        Told {
            model: model.clone(),
            others: self.ours.clone(),
        }
    }
}
