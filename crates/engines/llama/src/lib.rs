//! Models of the Llama family, computed on the CPU.
//!
//! | module | what it does |
//! |---|---|
//! | [`config`] | what a model's files say of its shape |
//! | [`format`] | how numbers are stored, and what they stand for |
//! | [`checkpoint`] | a model's files: Hugging Face folders and GGUF |
//! | `matrix`, `weights` | weights in memory, in the order of the kernels |
//! | [`kernels`] | arithmetic, for each kind of processor |
//! | `layout` | sizes that the two agree on |
//! | `team`, `buffer` | threads that work on one step, and what they share |
//! | [`plan`] | one step as plain data: what any device needs |
//! | [`model`] | computes a step: `rope`, `cache` |
//! | `sampler` | from a distribution to a token |
//! | [`speculation`] | guessing tokens ahead without changing what is said |
//! | [`eagle3`] | a head that drafts from the target's own states |
//! | [`executor`] | all of it behind the engine's seam |

mod buffer;
mod cache;
pub mod checkpoint;
pub mod config;
pub mod eagle3;
pub mod executor;
pub mod format;
pub mod kernels;
mod layout;
mod matrix;
pub mod model;
pub mod plan;
mod rope;
mod sampler;
pub mod speculation;
mod team;
mod weights;

pub use checkpoint::{Checkpoint, LoadError};
pub use config::ModelConfig;
pub use eagle3::{HeadFiles, LoadedHead};
pub use executor::{DraftSource, ExecutorOptions, LlamaExecutor};
pub use format::Format;
pub use kernels::Isa;
pub use model::{LoadedWeights, Model, ModelOptions};
pub use plan::Plan;
pub use weights::WeightsError;
