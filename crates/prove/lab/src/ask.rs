//! A request to be sent, and which one it is.

use std::sync::Arc;

use contract::{BlockHash, OutputLimits, TokenId};
use router::Identity;

/// Which request this is. A row of a trace is a conversation of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) conversation: u64,
    pub(crate) turn: u32,
    pub(crate) turns: u32,
    /// How often this turn had failed before.
    pub(crate) attempt: u32,
    /// Whether it counts, or is only there to be in the way of those that do.
    pub(crate) measured: bool,
}

/// A request to be sent.
#[derive(Debug)]
pub(crate) struct Ask {
    /// Given back when the request has ended.
    pub(crate) tag: usize,
    pub(crate) label: Label,
    pub(crate) identity: Identity,
    pub(crate) prompt: Arc<[TokenId]>,
    pub(crate) chain: Box<[BlockHash]>,
    pub(crate) limits: OutputLimits,
    /// Of the answer's words. Clients sample, so two that ask the same are answered
    /// differently; without this, answers would be shared prefixes too.
    pub(crate) sampling_seed: u64,
}
