//! How long the device takes.

use std::ptr;

use cudarc::driver::sys::{self as cu, CUevent_flags};

use super::{Context, checked};
use crate::ops::OpsError;

/// Milliseconds that the stream takes for what `work` gives it.
pub(crate) fn milliseconds(
    context: &Context,
    work: impl FnOnce() -> Result<(), OpsError>,
) -> Result<f32, OpsError> {
    let (begin, end) = (Event::new(context)?, Event::new(context)?);
    begin.record(context)?;
    work()?;
    end.record(context)?;
    context.synchronize()?;
    let mut elapsed = 0.0;
    // SAFETY: both were recorded and have happened; the result goes to a variable that outlives the call.
    unsafe {
        checked(
            "cuEventElapsedTime",
            cu::cuEventElapsedTime_v2(&raw mut elapsed, begin.event, end.event),
        )?;
    }
    Ok(elapsed)
}

struct Event {
    event: cu::CUevent,
}

impl Event {
    fn new(context: &Context) -> Result<Self, OpsError> {
        context.activate()?;
        let mut event = ptr::null_mut();
        let flags = CUevent_flags::CU_EVENT_DEFAULT as u32;
        // SAFETY: the result goes to a variable that outlives the call.
        unsafe { checked("cuEventCreate", cu::cuEventCreate(&raw mut event, flags))? };
        Ok(Self { event })
    }

    fn record(&self, context: &Context) -> Result<(), OpsError> {
        // SAFETY: event and stream live.
        unsafe {
            checked(
                "cuEventRecord",
                cu::cuEventRecord(self.event, context.stream()),
            )
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: our own, used only on this thread, where the context is current.
        let _ = unsafe { cu::cuEventDestroy_v2(self.event) };
    }
}
