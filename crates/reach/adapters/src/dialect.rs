//! Everything that differs between engines, as one value per engine.
//!
//! Each engine has a file of its own (`vllm`, `sglang`, `trtllm`, `openai`) with one [`Dialect`]:
//! which fields a request may have, where cache events come from and in which format, how load
//! and configuration are read, how the cache is cleared. The rest of the crate asks the dialect
//! and never the [`EngineKind`](crate::EngineKind), so that a new engine is one file and its lines
//! in `kind.rs`. A struct and not a trait: a missing field does not compile, and
//! there is no default that a new engine could inherit unnoticed.

use contract::{ForwardPath, GenerateRequest};

use crate::extensions::Extensions;
use crate::figures::{About, Load};
use crate::wire::Malformed;
use crate::wire::msgpack::Batch;
use crate::wire::trtllm::Numbered;

/// What every server of OpenAI's API has.
pub(crate) const USUAL_ENDPOINTS: &[ForwardPath] =
    &[ForwardPath::ChatCompletions, ForwardPath::Completions];

/// What one engine understands and offers.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// The engine's name in a specification, on the worker's card and in messages.
    pub(crate) name: &'static str,
    /// The fields of a request that are not in OpenAI's API.
    pub(crate) extensions: for<'a> fn(&'a GenerateRequest) -> Extensions<'a>,
    /// Whether log-probabilities come back by token id.
    pub(crate) logprobs: bool,
    /// Whether a request may name a salt that keeps its blocks apart from others (`cache_salt`).
    pub(crate) cache_salt: bool,
    /// Whether `usage` leaves out the number of cached tokens when it is zero.
    pub(crate) omits_zero_cached: bool,
    pub(crate) events: CacheEvents,
    /// Where the engine reports how busy it is.
    pub(crate) load: Option<Report<Option<Load>>>,
    /// Where the engine reports its configuration, beyond `/v1/models`.
    pub(crate) about: Option<Report<About>>,
    /// Endpoints of its server, for an engine that does not describe itself.
    pub(crate) forwards: &'static [ForwardPath],
    /// The endpoint (POST) that clears the prefix cache.
    pub(crate) reset_path: Option<&'static str>,
    /// What a server without that endpoint lacks, as the end of a sentence.
    pub(crate) reset_hint: &'static str,
}

/// How an engine reports changes of its KV cache.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CacheEvents {
    /// It publishes batches over ZeroMQ, at the address that the operator gives (`events=`).
    Published {
        decode: fn(&[u8]) -> Result<Batch, Malformed>,
    },
    /// It returns them when asked (POST).
    Polled {
        path: &'static str,
        decode: fn(&[u8]) -> Result<Vec<Numbered>, Malformed>,
    },
    /// It does not report them.
    None,
}

/// A document that an engine serves about itself.
#[derive(Debug)]
pub(crate) struct Report<T> {
    /// Tried in order (GET); the first that answers 200 is read.
    pub(crate) paths: &'static [&'static str],
    pub(crate) read: fn(&str) -> T,
}
