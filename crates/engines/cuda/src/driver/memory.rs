//! Memory of the device.

use std::sync::Arc;

use cudarc::driver::sys::{self as cu, CUresult};

use super::{Context, checked};
use crate::ops::OpsError;

/// A piece of the device's memory: all of an allocation, or a part of one.
#[derive(Clone, Debug)]
pub struct DeviceBuffer {
    allocation: Arc<Allocation>,
    at: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Allocation {
    context: Arc<Context>,
    address: u64,
}

impl DeviceBuffer {
    pub(crate) fn allocate(context: &Arc<Context>, bytes: usize) -> Result<Self, OpsError> {
        context.activate()?;
        let mut address = 0;
        // SAFETY: the result goes to a variable that outlives the call.
        let answer = unsafe { cu::cuMemAlloc_v2(&raw mut address, bytes.max(1)) };
        if answer == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Err(OpsError::OutOfMemory { bytes });
        }
        checked("cuMemAlloc", answer)?;
        Ok(Self {
            allocation: Arc::new(Allocation {
                context: Arc::clone(context),
                address,
            }),
            at: 0,
            bytes,
        })
    }

    pub(crate) fn part(&self, at: usize, bytes: usize) -> Self {
        debug_assert!(at + bytes <= self.bytes, "a part lies in the whole");
        Self {
            allocation: Arc::clone(&self.allocation),
            at: self.at + at,
            bytes,
        }
    }

    /// Where it is in the device's memory.
    pub(crate) fn address(&self) -> u64 {
        self.allocation.address + self.at as u64
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies bytes, after what the stream has already, and waits until they are there. Not while the
    /// stream records: a wait would break the recording, and replays would read the source again.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) -> Result<(), OpsError> {
        self.check(at, bytes.len())?;
        let context = &self.allocation.context;
        context.activate()?;
        // SAFETY: the range lies in our allocation, and the bytes stay borrowed until the stream has
        // finished: the driver may read them until then.
        let asked = unsafe {
            checked(
                "cuMemcpyHtoDAsync",
                cu::cuMemcpyHtoDAsync_v2(
                    self.address() + at as u64,
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    context.stream(),
                ),
            )
        };
        context.synchronize().and(asked)
    }

    pub(crate) fn read(&self, at: usize, bytes: &mut [u8]) -> Result<(), OpsError> {
        self.check(at, bytes.len())?;
        let context = &self.allocation.context;
        context.activate()?;
        // SAFETY: the range lies in our allocation, and the bytes stay borrowed until the stream has
        // finished: also if the copy fails to start, nothing writes to them afterwards.
        let asked = unsafe {
            checked(
                "cuMemcpyDtoHAsync",
                cu::cuMemcpyDtoHAsync_v2(
                    bytes.as_mut_ptr().cast(),
                    self.address() + at as u64,
                    bytes.len(),
                    context.stream(),
                ),
            )
        };
        context.synchronize().and(asked)
    }

    /// Sets every byte.
    pub(crate) fn fill(&self, byte: u8) -> Result<(), OpsError> {
        let context = &self.allocation.context;
        context.activate()?;
        // SAFETY: the range is our allocation.
        unsafe {
            checked(
                "cuMemsetD8Async",
                cu::cuMemsetD8Async(self.address(), byte, self.bytes, context.stream()),
            )
        }
    }

    fn check(&self, at: usize, count: usize) -> Result<(), OpsError> {
        if at.checked_add(count).is_some_and(|end| end <= self.bytes) {
            return Ok(());
        }
        Err(OpsError::Call {
            call: "copy",
            detail: format!(
                "{count} bytes at {at} are beyond a buffer of {}",
                self.bytes
            ),
        })
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.context.activate().is_ok() {
            // SAFETY: our own allocation, whose last user this is. The driver waits for kernels that use
            // it; there is nobody to tell of an error.
            let _ = unsafe { cu::cuMemFree_v2(self.address) };
        }
    }
}
