//! How an engine's cache events reach us.

pub(crate) mod poll;
pub(crate) mod zmq;

use std::time::Duration;

use crate::engine_cache::FormatMismatch;

/// Why an engine's events cannot be followed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EventError {
    #[error("events={address}: nothing accepts connections there within {patience:?}")]
    Timeout { address: String, patience: Duration },
    #[error("events={address}: cannot subscribe")]
    Subscribe {
        address: String,
        source: zmtp::Error,
    },
    #[error(transparent)]
    FormatMismatch(#[from] FormatMismatch),
}
