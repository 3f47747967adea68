//! The GPU's driver: finding it, and the few things of it that are needed.
//!
//! Nothing is linked. The driver and the library of products are opened when a device is, so that the
//! program builds and runs where neither is, and says then what it lacks. Only this module and
//! [`gemm`](crate::gemm) know `cudarc`, whose functions panic if a library is missing: [`open`] asks for
//! the libraries first, and everything else needs what it returns.
//!
//! **Why calls are sound.** Pointers of the device are numbers to this process: a kernel that is given a
//! wrong one fails on the device and cannot touch the host. What the host's soundness rests on is that
//! handles live as long as their users, which hold the [`Context`] in an `Arc`, and that host memory that
//! the driver reads or writes outlives its use of it, which is why copies wait in both directions.

#![expect(
    unsafe_code,
    reason = "the driver is a C library; each call says why it is sound"
)]

mod context;
mod graph;
mod library;
mod memory;
mod module;
mod timing;

use std::path::PathBuf;

use cudarc::driver::sys::CUresult;

pub(crate) use self::context::Context;
pub(crate) use self::graph::Graph;
pub use self::memory::DeviceBuffer;
pub(crate) use self::module::{Grid, Kernel, Module};
pub(crate) use self::timing::milliseconds;
use crate::ops::OpsError;

/// Which GPU, and where its libraries may be.
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// As the driver counts them, from 0.
    pub gpu: usize,
    /// Folders that are searched before the loader's own.
    pub libraries: Vec<PathBuf>,
}

/// Why there is no device to compute on.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error(
        "there is no NVIDIA driver here (libcuda.so.1 was not found). Install driver 580 or later, or compute on the \
         processor with --engine llama"
    )]
    NoDriver,
    #[error(
        "the driver knows CUDA {major}.{minor}, 13.0 is needed (driver 580): update the driver, or use --engine llama"
    )]
    OldDriver { major: u32, minor: u32 },
    #[error(
        "libcublasLt.so.13 was not found in {searched}: pip install nvidia-cublas, or name the folder that has it \
         with --cuda-libraries (pip's is named nvidia/cu13/lib)"
    )]
    NoProducts { searched: String },
    #[error(
        "libcublasLt is of CUDA {version}, 13 is needed: a libcublasLt.so on the loader's path comes first, before \
         --cuda-libraries too; remove it from there (LD_LIBRARY_PATH), or replace it by version 13"
    )]
    OldProducts { version: usize },
    #[error("there is no GPU {gpu} here, the driver has {count}: --gpu names one, from 0")]
    NoGpu { gpu: usize, count: usize },
    #[error(
        "GPU {gpu} is a {name} ({major}.{minor}): kernels are built for 9.0 (H100, H200); name another with --gpu, or \
         use --engine llama"
    )]
    OtherGpu {
        gpu: usize,
        name: String,
        major: u32,
        minor: u32,
    },
    #[error("GPU {gpu} cannot be used: {source}")]
    Unusable { gpu: usize, source: OpsError },
}

/// The driver's answer as an error, with its own words.
fn checked(call: &'static str, answer: CUresult) -> Result<(), OpsError> {
    if answer == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    Err(OpsError::Call {
        call,
        detail: context::explained(answer),
    })
}
