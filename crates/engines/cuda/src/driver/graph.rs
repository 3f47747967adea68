//! Steps that were recorded: one call starts all their kernels.

use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{self as cu, CUstreamCaptureMode};

use super::{Context, checked};
use crate::ops::OpsError;

/// Kernels in their order, with their arguments.
#[derive(Debug)]
pub(crate) struct Graph {
    context: Arc<Context>,
    executable: cu::CUgraphExec,
}

// SAFETY: as `Context`; a graph is started by `&mut`-less calls of one owner, one after the other.
unsafe impl Send for Graph {}

impl Graph {
    /// From now on what the stream is given is recorded, not done.
    pub(crate) fn begin(context: &Context) -> Result<(), OpsError> {
        context.activate()?;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives as long as the context.
        unsafe {
            checked(
                "cuStreamBeginCapture",
                cu::cuStreamBeginCapture_v2(context.stream(), mode),
            )
        }
    }

    /// What was recorded since [`begin`](Self::begin). To be called whether recording went well or not.
    pub(crate) fn end(context: &Arc<Context>) -> Result<Self, OpsError> {
        context.activate()?;
        let (mut graph, mut executable) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: results go to variables that outlive the calls; the graph is ours to destroy once the
        // executable one was made of it.
        unsafe {
            checked(
                "cuStreamEndCapture",
                cu::cuStreamEndCapture(context.stream(), &raw mut graph),
            )?;
            let made = checked(
                "cuGraphInstantiate",
                cu::cuGraphInstantiateWithFlags(&raw mut executable, graph, 0),
            );
            let _ = cu::cuGraphDestroy(graph);
            made?;
        }
        Ok(Self {
            context: Arc::clone(context),
            executable,
        })
    }

    pub(crate) fn launch(&self) -> Result<(), OpsError> {
        self.context.activate()?;
        // SAFETY: both live as long as this.
        unsafe {
            checked(
                "cuGraphLaunch",
                cu::cuGraphLaunch(self.executable, self.context.stream()),
            )
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // A graph that runs must not be destroyed.
        if self.context.synchronize().is_ok() {
            // SAFETY: our own, whose last user this is. There is nobody to tell of an error.
            let _ = unsafe { cu::cuGraphExecDestroy(self.executable) };
        }
    }
}
