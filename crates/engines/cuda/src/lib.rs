//! Models of the Llama family, computed on an NVIDIA GPU.
//!
//! A step is made of the operations of [`ops`], which are computed twice: on the device, and on the
//! host by a twin that stores numbers as the device does. All that surrounds them (weights, cache,
//! staging, chunks, sampling) is one code for both, so that a machine without a GPU tests it.
//!
//! | module | what it does |
//! |---|---|
//! | [`ops`] | what a step is made of; [`ops::device`]; [`ops::host`], the twin |
//! | `driver` | the GPU's driver, found at run time |
//! | `gemm` | products of matrices, by NVIDIA's library |
//! | [`numbers`] | BF16 and FP8 |
//! | [`weights`] | from a model's files to the device's memory |
//! | [`cache`] | keys and values |
//! | [`staging`] | one upload for each step |
//! | [`model`] | a step in terms of operations |
//! | [`memory`] | how a device's memory is divided |
//! | [`executor`] | all of it behind the engine's seam |

pub mod cache;
mod driver;
pub mod executor;
mod gemm;
pub mod memory;
pub mod model;
pub mod numbers;
pub mod ops;
pub mod staging;
pub mod weights;

pub use cache::CacheError;
pub use driver::{DeviceBuffer, DeviceError, DeviceOptions};
pub use executor::{CudaExecutor, ExecutorOptions, Speculation};
pub use memory::{Memory, Needs};
pub use model::{Model, ModelError, ModelOptions};
pub use ops::device::limits::{MOST_ROWS, has_fast_attention, supported};
pub use ops::device::{DeviceOps, open};
pub use ops::host::HostOps;
pub use ops::{Ops, OpsError};
pub use weights::{LoadedWeights, Storage, WeightsError};
