//! Models of the Llama family, computed on the CPU.
//!
//! | module | what it does |
//! |---|---|
//! | [`config`] | what a model's files say of its shape |
//! | [`format`] | how numbers are stored, and what they stand for |
//! | [`checkpoint`] | a model's files: Hugging Face folders and GGUF |
//! | `matrix` | weights in memory, in the order of the kernels |
//! | [`kernels`] | arithmetic, for each kind of processor |
//! | `team` | threads that work on one step |

pub mod checkpoint;
pub mod config;
pub mod format;
pub mod kernels;
mod buffer;
mod cache;
mod matrix;
pub mod model;
pub mod plan;
mod rope;
mod team;
mod weights;

pub use checkpoint::{Checkpoint, LoadError};
pub use config::ModelConfig;
pub use format::Format;
pub use kernels::Isa;
pub use model::{Model, ModelOptions};
pub use plan::Plan;
