//! Models of the Llama family, computed on the CPU.
//!
//! | module | what it does |
//! |---|---|
//! | `matrix`, `weights` | weights in memory, in the order of the kernels |
//! | [`kernels`] | arithmetic, for each kind of processor |
//! | `layout` | sizes that the two agree on |
//! | `team`, `buffer` | threads that work on one step, and what they share |
//! | [`plan`] | one step as plain data: what any device needs |
//! | [`model`] | computes a step: `rope`, `cache` |
//! | [`eagle3`] | a head that drafts from the target's own states |
//! | [`executor`] | all of it behind the engine's seam |
//!
//! Files are read by `checkpoint`, tokens drawn by `sampling`: neither depends on what computes.

mod buffer;
mod cache;
pub mod eagle3;
pub mod executor;
pub mod kernels;
mod layout;
mod matrix;
pub mod model;
pub mod plan;
mod rope;
mod team;
mod weights;

pub use eagle3::LoadedHead;
pub use executor::{DraftSource, ExecutorOptions, LlamaExecutor};
pub use kernels::Isa;
pub use model::{LoadedWeights, Model, ModelOptions};
pub use plan::Plan;
pub use weights::WeightsError;
