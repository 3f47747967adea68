//! How an engine's cache events come here.

pub(crate) mod poll;
pub(crate) mod zmq;

use crate::mirror::Misfit;

/// Why nobody listens any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EventError {
    #[error("{option}={address}: {detail}")]
    Socket {
        option: &'static str,
        address: String,
        detail: String,
    },
    #[error(transparent)]
    Misfit(#[from] Misfit),
}
