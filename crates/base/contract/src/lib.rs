//! The nouns that every other crate shares.
//!
//! This crate is the bottom of the house: plain values, no I/O, no policy. A type lives here when two crates that must not know each other (the engine
//! and the router, say) have to agree on it.
//!
//! | module | what it fixes |
//! |---|---|
//! | [`access`] | who may change a server |
//! | [`block`] | how a prompt becomes a chain of block hashes |
//! | [`cause`] | an error with all its causes, in one line |
//! | [`kv_event`] | events by which a worker reports its cache |
//! | [`worker`] | what a worker is ([`WorkerCard`]) and how busy it is ([`WorkerStatus`]) |
//! | [`generate`] | one request to a worker and the chunks that come back |
//! | [`forward`] | requests that an engine's own server answers |
//! | [`grammar`] | what an answer must look like |
//! | [`trace`] | a request's place in a distributed trace |
//! | [`token_stream`] | the channel those chunks travel through; dropping it cancels |
//! | [`moment`] | time as a value, so that pure code never reads a clock |
//! | [`processed`] | what an engine has processed, told among frontends |
//! | [`processors`] | how much of its processors a machine had for itself |
//! | [`random`] | seeded randomness that does not depend on call order |
//! | [`visitors`] | under which names a server may be visited |

pub mod access;
pub mod block;
pub mod block_format;
pub mod cause;
pub mod forward;
pub mod generate;
pub mod grammar;
pub mod kv_event;
pub mod moment;
pub mod processed;
pub mod processors;
pub mod random;
pub mod token_stream;
pub mod trace;
pub mod visitors;
pub mod worker;

pub use access::{Access, Denied};
pub use block::{
    BlockHash, HASH_VERSION, HashSeed, LocalHash, StoredBlock, block_chain, block_chain_ahead,
};
pub use block_format::{BlockFormat, Hashing};
pub use cause::error_chain;
pub use forward::{ForwardPath, ForwardRequest, Written};
pub use generate::{
    FinishReason, GenerateRequest, LinkError, NamedOptions, OutputLimits, Penalties, RequestId,
    RequestSpeculation, Sampling, Started, TokenChunk, TokenId, TokenLogprob,
};
pub use grammar::Grammar;
pub use kv_event::{FeedMessage, KvBatch, KvEvent, KvSnapshot};
pub use moment::{Clock, Moment};
pub use processed::Processed;
pub use processors::Processors;
pub use token_stream::{ChunkSource, TokenSender, TokenStream, token_stream};
pub use trace::{SpanId, TraceContext, TraceId};
pub use visitors::Visitors;
pub use worker::{
    Abilities, DRAFT_POSITIONS, FrontendId, FrontendLoad, GpuSpec, Lease, ModelName,
    PositionCounts, SpeculationCounts, WorkerCard, WorkerId, WorkerStatus,
};
