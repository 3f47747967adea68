//! Kernels, and running them.

use std::ffi::CStr;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{self as cu, CUfunction_attribute, CUlaunchAttributeID};

use super::{Context, checked};
use crate::ops::OpsError;

/// More shared memory than this has to be asked for.
const SHARED_BYTES: usize = 48 * 1024;

/// Kernels of one source, on the device.
#[derive(Debug)]
pub(crate) struct Module {
    context: Arc<Context>,
    module: cu::CUmodule,
}

// SAFETY: as `Context`: a module may be used from any thread that has made the context current.
unsafe impl Send for Module {}
// SAFETY: likewise.
unsafe impl Sync for Module {}

impl Module {
    pub(crate) fn load(context: &Arc<Context>, cubin: &[u8]) -> Result<Arc<Self>, OpsError> {
        context.activate()?;
        let mut module = ptr::null_mut();
        // SAFETY: a cubin says its own length in its header, and these were made by the compiler.
        unsafe {
            checked(
                "cuModuleLoadData",
                cu::cuModuleLoadData(&raw mut module, cubin.as_ptr().cast()),
            )?;
        }
        Ok(Arc::new(Self {
            context: Arc::clone(context),
            module,
        }))
    }

    /// A kernel by its name, which may use this much shared memory beside what it declares.
    pub(crate) fn kernel(
        self: &Arc<Self>,
        name: &CStr,
        shared_bytes: usize,
    ) -> Result<Kernel, OpsError> {
        let mut function = ptr::null_mut();
        let (mut argument_at, mut argument_bytes) = (0, 0);
        // SAFETY: the name ends with a zero; results go to variables that outlive the calls.
        unsafe {
            checked(
                "cuModuleGetFunction",
                cu::cuModuleGetFunction(&raw mut function, self.module, name.as_ptr()),
            )?;
            checked(
                "cuFuncGetParamInfo",
                cu::cuFuncGetParamInfo(function, 0, &raw mut argument_at, &raw mut argument_bytes),
            )?;
            if shared_bytes > SHARED_BYTES {
                checked(
                    "cuFuncSetAttribute",
                    cu::cuFuncSetAttribute(
                        function,
                        CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                        i32::try_from(shared_bytes).unwrap_or(i32::MAX),
                    ),
                )?;
            }
        }
        Ok(Kernel {
            module: Arc::clone(self),
            function,
            shared_bytes,
            argument_bytes,
        })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.context.activate().is_ok() {
            // SAFETY: our own module, whose last user this is. There is nobody to tell of an error.
            let _ = unsafe { cu::cuModuleUnload(self.module) };
        }
    }
}

/// How many blocks and threads run a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) blocks: [usize; 3],
    pub(crate) threads: usize,
    /// Blocks in a row that share their memory; `blocks[0]` is a multiple of it.
    pub(crate) cluster: usize,
}

impl Grid {
    pub(crate) fn new(blocks: [usize; 3], threads: usize) -> Self {
        Self {
            blocks,
            threads,
            cluster: 1,
        }
    }
}

/// A function on the device.
#[derive(Debug)]
pub(crate) struct Kernel {
    module: Arc<Module>,
    function: cu::CUfunction,
    shared_bytes: usize,
    /// Of its only argument, as it was compiled.
    argument_bytes: usize,
}

// SAFETY: as `Module`.
unsafe impl Send for Kernel {}
// SAFETY: likewise.
unsafe impl Sync for Kernel {}

impl Kernel {
    /// Runs it, after what the stream has already. `argument` is its only one: a structure that is laid
    /// out as the kernel's own (`repr(C)`, same fields in the same order): its length is compared here,
    /// its order of fields by running each kernel beside its twin (`examples/check`).
    pub(crate) fn launch<T: Copy>(&self, grid: Grid, mut argument: T) -> Result<(), OpsError> {
        if size_of::<T>() != self.argument_bytes {
            return Err(OpsError::Call {
                call: "cuLaunchKernelEx",
                detail: format!(
                    "the kernel takes {} bytes and is given {}",
                    self.argument_bytes,
                    size_of::<T>()
                ),
            });
        }
        let context = &self.module.context;
        context.activate()?;
        if grid.blocks.contains(&0) {
            return Ok(());
        }
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        // SAFETY: both are plain C structures, for which zeros are a value.
        let (mut cluster, mut config): (cu::CUlaunchAttribute, cu::CUlaunchConfig) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        cluster.id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        cluster.value.clusterDim.x = count(grid.cluster);
        cluster.value.clusterDim.y = 1;
        cluster.value.clusterDim.z = 1;
        let [x, y, z] = grid.blocks.map(count);
        (config.gridDimX, config.gridDimY, config.gridDimZ) = (x, y, z);
        (config.blockDimX, config.blockDimY, config.blockDimZ) = (count(grid.threads), 1, 1);
        config.sharedMemBytes = count(self.shared_bytes);
        config.hStream = context.stream();
        if grid.cluster > 1 {
            config.attrs = &raw mut cluster;
            config.numAttrs = 1;
        }
        let mut arguments = [(&raw mut argument).cast()];
        // SAFETY: configuration and argument outlive the call, which copies them. The argument is as long
        // as the kernel wants, as was compared above, and all kernels have exactly one.
        unsafe {
            checked(
                "cuLaunchKernelEx",
                cu::cuLaunchKernelEx(
                    &raw const config,
                    self.function,
                    arguments.as_mut_ptr(),
                    ptr::null_mut(),
                ),
            )
        }
    }
}
