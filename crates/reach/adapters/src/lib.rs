//! Inference engines that are not ours, as workers of a frontend.
//!
//! An engine such as vLLM, SGLang or TensorRT-LLM has an OpenAI-compatible server and reports
//! what is in its KV cache. This crate makes a [`transport::Member`] of it: requests are sent
//! to the server with the prompt as token ids, and the engine's block names are translated
//! into our block hashes, so that the router sees no difference from a worker of ours.
//!
//! ```text
//! EngineSpec ──► supervisor (one task per engine): healthy? configuration? ──► Member
//!                  link    POST /v1/completions ──► answer ──► token chunks
//!                  events  ZeroMQ or polling ──► wire ──► engine_cache ──► feed
//!                  status  GET /metrics ──► feed
//! ```
//!
//! What differs between engines is in one file per engine (`vllm`, `sglang`, `trtllm`,
//! `openai`), each a value of `dialect::Dialect`. The other modules ask the dialect:
//!
//! | module | what it does | |
//! |---|---|---|
//! | [`spec`] | how an operator names an engine | pure |
//! | [`wire`] | the engines' event formats | pure |
//! | [`engine_cache`] | an engine's cache in our hashes, from its events | pure |
//! | [`estimate`] | the same without events, from what was sent to the engine | pure |
//! | `shared_estimates` | such estimates, told among frontends | |
//! | [`numbering`] | detects lost and repeated batches of events | pure |
//! | [`completion`] | the request's body, the answer's events, refusals | pure |
//! | [`forward`] | requests in the client's own words, and answers in the engine's | pure |
//! | [`retokenize`] | text into tokens, for engines that return only text | pure |
//! | [`figures`] | load and configuration, as engines report them | pure |
//! | [`drafts`] | what they draft, as totals | pure |
//! | `recognise` | which engine a server is, by its metrics | pure |
//! | `engines`, `supervisor`, `probe`, `events`, `cache_view`, `link`, `stream`, `overheard`, `http` | the asynchronous shell | |
//!
//! What is absent: templates and tokenizers (a function is passed in), routing, and any choice
//! of the engine that gets a request.

mod agreement;
mod cache_view;
pub mod completion;
mod dialect;
pub mod doctor;
pub mod drafts;
pub mod engine_cache;
mod engines;
pub mod estimate;
mod events;
mod extensions;
pub mod figures;
pub mod forward;
mod http;
mod kind;
mod last_sign;
mod link;
mod metrics;
pub mod numbering;
mod openai;
mod overheard;
mod probe;
mod recognise;
pub mod retokenize;
mod settings;
mod sglang;
mod shared_estimates;
pub mod spec;
mod stream;
mod supervisor;
mod trtllm;
mod vllm;
pub mod wire;

pub use agreement::SAMPLE_MESSAGES;
pub use engines::{Engines, StartError};
pub use kind::EngineKind;
pub use recognise::{Recognised, recognise};
pub use retokenize::Tokenize;
pub use settings::{EngineSettings, SILENT_AFTER, Timing};
pub use shared_estimates::SharedEstimates;
pub use spec::{Drafter, EngineSpec, SpecError};
