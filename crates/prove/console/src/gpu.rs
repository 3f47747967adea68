//! Utilisation and memory of the workers' GPUs, from NVIDIA's DCGM exporter through Prometheus.
//!
//! Workers report their own load, and where nothing else is said a page shows that. An operator
//! who trusts the exporter more names a Prometheus, which is asked every five seconds. What it
//! does not know is then `null`, never the worker's own figure: one page has one source.
//!
//! A series says which GPU it is about in labels that differ between installations, so GPUs
//! are matched to workers by any label that holds a worker's name. Where none does, order
//! decides if there are exactly as many as the workers say that they have; otherwise nothing is
//! shown, with the reason.

mod matching;
mod poll;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http_client::GetError;
use parking_lot::Mutex;

use self::matching::Gpu;
use crate::prometheus::{AddressError, SeriesError, base_address};
use crate::state::{GpuSource, WorkerState};

/// Bytes in the exporter's unit of memory.
const MEBIBYTE: f64 = 1_048_576.0;

/// The latest answer of Prometheus. Clones share it.
#[derive(Clone, Debug)]
pub struct GpuFeed {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    url: String,
    latest: Mutex<Result<Vec<Gpu>, GpuError>>,
}

impl GpuFeed {
    /// Of a Prometheus at `url`. Nothing is known until it has been [polled](Self::poll).
    pub fn new(url: &str) -> Result<Self, AddressError> {
        Ok(Self {
            inner: Arc::new(Inner {
                url: base_address(url)?,
                latest: Mutex::new(Ok(Vec::new())),
            }),
        })
    }

    /// Replaces what workers say about their GPUs by what Prometheus says.
    pub fn show(&self, workers: &mut [WorkerState]) -> GpuSource {
        let latest = self.inner.latest.lock();
        let gpus = latest.as_deref().unwrap_or_default();
        matching::apply(gpus, workers);
        GpuSource::Prometheus {
            url: self.inner.url.clone(),
            error: latest.as_ref().err().map(GpuError::to_string),
        }
    }
}

/// Why nothing is known about GPUs.
#[derive(Debug, thiserror::Error)]
enum GpuError {
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error(transparent)]
    Get(#[from] GetError),
    #[error(transparent)]
    Series(#[from] SeriesError),
    #[error("status {status}, {error}")]
    Status {
        status: StatusCode,
        error: SeriesError,
    },
    #[error("Prometheus has no series {0}")]
    NoSeries(&'static str),
}
