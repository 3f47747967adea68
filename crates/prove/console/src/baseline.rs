//! The baseline's state: the same load under round robin, computed or read from a file, for a
//! page to draw beside live values.
//!
//! Computing one takes seconds, so a console opens without it and gets it when it is ready.

use std::sync::Arc;

use loadgen::baseline::Baseline;
use parking_lot::Mutex;
use serde::Serialize;
use ts_rs::TS;

/// The baseline, written by the task that computes it and read by the console. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct BaselineBoard {
    written: Arc<Mutex<Written>>,
}

#[derive(Clone, Debug, Default)]
enum Written {
    #[default]
    Nothing,
    Computing {
        done: u32,
        total: u32,
    },
    Ready(Arc<Baseline>),
    Failed(String),
}

/// The baseline's state as a page gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, TS)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum BaselineStatus {
    /// There is none and none will come.
    None,
    Computing {
        done: u32,
        total: u32,
    },
    Ready {
        run_id: String,
    },
    Failed {
        message: String,
    },
}

impl BaselineBoard {
    /// So many runs of so many are done.
    pub fn computing(&self, done: u32, total: u32) {
        *self.written.lock() = Written::Computing { done, total };
    }

    pub fn ready(&self, baseline: Baseline) {
        *self.written.lock() = Written::Ready(Arc::new(baseline));
    }

    pub fn failed(&self, message: impl Into<String>) {
        *self.written.lock() = Written::Failed(message.into());
    }

    pub fn status(&self) -> BaselineStatus {
        match &*self.written.lock() {
            Written::Nothing => BaselineStatus::None,
            &Written::Computing { done, total } => BaselineStatus::Computing { done, total },
            Written::Ready(baseline) => BaselineStatus::Ready {
                run_id: baseline.run_id.clone(),
            },
            Written::Failed(message) => BaselineStatus::Failed {
                message: message.clone(),
            },
        }
    }

    pub fn get(&self) -> Option<Arc<Baseline>> {
        match &*self.written.lock() {
            Written::Ready(baseline) => Some(Arc::clone(baseline)),
            Written::Nothing | Written::Computing { .. } | Written::Failed(_) => None,
        }
    }
}
