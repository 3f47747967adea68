//! Inference engines of others as workers of ours.
//!
//! An engine such as vLLM, SGLang or TensorRT-LLM has an OpenAI-compatible server and tells
//! what is in its KV cache. This crate makes a [`transport::Member`] of it: requests go to the
//! server with the prompt in tokens, and the engine's own names of blocks are translated into
//! ours, so that the router sees no difference from a worker that we wrote.
//!
//! ```text
//! EngineSpec ──► keeper (one task an engine): well? what is it? ──► Member
//!                  link    POST /v1/completions ──► answer ──► token chunks
//!                  events  ZeroMQ or polling ──► wire ──► mirror ──► feed
//!                  status  GET /metrics ──► feed
//! ```
//!
//! | module | what it does | |
//! |---|---|---|
//! | [`spec`] | what a person writes to name an engine | pure |
//! | [`wire`] | the engines' event formats | pure |
//! | [`chain`] | a prompt's blocks by our names | pure |
//! | [`mirror`] | an engine's cache by our names, from its events | pure |
//! | [`estimate`] | the same without events, from what was sent there | pure |
//! | [`sequence`] | is a numbered stream of events whole? | pure |
//! | [`completion`] | the request's body, the answer's events, refusals | pure |
//! | [`retokenize`] | text into tokens, for engines that give only text | pure |
//! | [`figures`] | what an engine's metrics say | pure |
//! | `keeper`, `probe`, `events`, `holdings`, `link`, `stream`, `http` | the asynchronous shell | |
//!
//! What is absent: templates and tokenizers (a function is handed in), routing, and anything
//! that decides by itself which engine gets a request.

pub mod chain;
pub mod completion;
pub mod estimate;
mod events;
pub mod figures;
mod holdings;
mod http;
mod keeper;
mod link;
mod metrics;
pub mod mirror;
mod probe;
pub mod retokenize;
pub mod sequence;
mod settings;
pub mod spec;
mod stream;
pub mod wire;

pub use keeper::{Engines, StartError};
pub use retokenize::Tokenize;
pub use settings::{EngineSettings, Pace};
pub use spec::{EngineKind, EngineSpec, SpecError};
