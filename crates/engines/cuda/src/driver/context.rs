//! One GPU and the stream that everything runs on.

use std::ffi::CStr;
use std::ptr;

use cudarc::driver::sys::{self as cu, CUdevice_attribute as Attribute, CUresult};

use super::{DeviceError, DeviceOptions, checked, library};
use crate::ops::OpsError;

/// CUDA 13.0, as the driver counts.
const NEEDED: i32 = 13_000;

/// A GPU that is ready. Whatever uses the driver holds it.
#[derive(Debug)]
pub(crate) struct Context {
    device: cu::CUdevice,
    context: cu::CUcontext,
    stream: cu::CUstream,
    name: String,
    total_bytes: usize,
    version: i32,
    multiprocessors: u32,
}

// SAFETY: the driver's contexts and streams may be used from any thread; `activate` makes the context
// the calling thread's before each use.
unsafe impl Send for Context {}
// SAFETY: likewise, and the driver's functions may be called from several threads at once.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) fn open(options: &DeviceOptions) -> Result<Self, DeviceError> {
        library::driver()?;
        let gpu = options.gpu;
        let unusable = |source| DeviceError::Unusable { gpu, source };
        let mut version = 0;
        // SAFETY: the library is there; results go to variables that outlive the calls.
        unsafe {
            checked(
                "cuDriverGetVersion",
                cu::cuDriverGetVersion(&raw mut version),
            )
            .map_err(unusable)?;
        }
        if version < NEEDED {
            return Err(DeviceError::OldDriver {
                major: version.unsigned_abs() / 1000,
                minor: version.unsigned_abs() % 1000 / 10,
            });
        }
        // SAFETY: `cuInit` has no requirements.
        unsafe { checked("cuInit", cu::cuInit(0)).map_err(unusable)? };
        let device = device(gpu)?;
        let described = Described::of(device).map_err(unusable)?;
        if described.capability != (9, 0) {
            let (major, minor) = described.capability;
            let name = described.name;
            return Err(DeviceError::OtherGpu {
                gpu,
                name,
                major,
                minor,
            });
        }
        // After the card: whoever has another one need not install a library first.
        library::products(&options.libraries)?;
        let (context, stream) = enter(device).map_err(unusable)?;
        Ok(Self {
            device,
            context,
            stream,
            name: described.name,
            total_bytes: described.total_bytes,
            version,
            multiprocessors: described.multiprocessors,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn total_bytes(&self) -> usize {
        self.total_bytes
    }

    /// The CUDA that the driver knows.
    pub(crate) fn version(&self) -> (u32, u32) {
        let version = self.version.unsigned_abs();
        (version / 1000, version % 1000 / 10)
    }

    pub(crate) fn multiprocessors(&self) -> usize {
        self.multiprocessors as usize
    }

    pub(crate) fn stream(&self) -> cu::CUstream {
        self.stream
    }

    /// Makes this the GPU of the calling thread.
    pub(crate) fn activate(&self) -> Result<(), OpsError> {
        // SAFETY: the context lives until this is dropped.
        unsafe { checked("cuCtxSetCurrent", cu::cuCtxSetCurrent(self.context)) }
    }

    /// Waits for everything that was asked for.
    pub(crate) fn synchronize(&self) -> Result<(), OpsError> {
        self.activate()?;
        // SAFETY: the stream lives until this is dropped.
        unsafe { checked("cuStreamSynchronize", cu::cuStreamSynchronize(self.stream)) }
    }

    pub(crate) fn free_bytes(&self) -> Result<usize, OpsError> {
        self.activate()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: results go to variables that outlive the call.
        unsafe {
            checked(
                "cuMemGetInfo",
                cu::cuMemGetInfo_v2(&raw mut free, &raw mut total),
            )?;
        }
        Ok(free)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: handles of our own, whose last user this is. There is nobody to tell of an error.
        unsafe {
            let _ = cu::cuCtxSetCurrent(self.context);
            let _ = cu::cuStreamDestroy_v2(self.stream);
            let _ = cu::cuDevicePrimaryCtxRelease_v2(self.device);
        }
    }
}

fn device(gpu: usize) -> Result<cu::CUdevice, DeviceError> {
    let unusable = |source| DeviceError::Unusable { gpu, source };
    let (mut count, mut device) = (0, 0);
    // SAFETY: the driver is initialised; results go to variables that outlive the calls.
    unsafe {
        checked("cuDeviceGetCount", cu::cuDeviceGetCount(&raw mut count)).map_err(unusable)?;
        match i32::try_from(gpu) {
            Ok(ordinal) if ordinal < count => {
                checked("cuDeviceGet", cu::cuDeviceGet(&raw mut device, ordinal))
                    .map_err(unusable)?;
                Ok(device)
            }
            _ => Err(DeviceError::NoGpu {
                gpu,
                count: count.unsigned_abs() as usize,
            }),
        }
    }
}

/// What the driver says of a GPU.
struct Described {
    name: String,
    capability: (u32, u32),
    total_bytes: usize,
    multiprocessors: u32,
}

impl Described {
    fn of(device: cu::CUdevice) -> Result<Self, OpsError> {
        let mut name = [0; 256];
        let mut total_bytes = 0;
        // SAFETY: the name's length is given, and the driver ends it with a zero within it.
        let name = unsafe {
            checked(
                "cuDeviceGetName",
                cu::cuDeviceGetName(name.as_mut_ptr(), 255, device),
            )?;
            checked(
                "cuDeviceTotalMem",
                cu::cuDeviceTotalMem_v2(&raw mut total_bytes, device),
            )?;
            CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
        };
        Ok(Self {
            name,
            capability: (
                attribute(
                    device,
                    Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                )?,
                attribute(
                    device,
                    Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                )?,
            ),
            total_bytes,
            multiprocessors: attribute(
                device,
                Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            )?,
        })
    }
}

fn attribute(device: cu::CUdevice, attribute: Attribute) -> Result<u32, OpsError> {
    let mut value = 0;
    // SAFETY: the result goes to a variable that outlives the call.
    unsafe {
        checked(
            "cuDeviceGetAttribute",
            cu::cuDeviceGetAttribute(&raw mut value, attribute, device),
        )?;
    }
    Ok(value.unsigned_abs())
}

fn enter(device: cu::CUdevice) -> Result<(cu::CUcontext, cu::CUstream), OpsError> {
    let (mut context, mut stream) = (ptr::null_mut(), ptr::null_mut());
    let flags = cu::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: the device was given by the driver; results go to variables that outlive the calls.
    unsafe {
        checked(
            "cuDevicePrimaryCtxRetain",
            cu::cuDevicePrimaryCtxRetain(&raw mut context, device),
        )?;
        checked("cuCtxSetCurrent", cu::cuCtxSetCurrent(context))?;
        checked("cuStreamCreate", cu::cuStreamCreate(&raw mut stream, flags))?;
    }
    Ok((context, stream))
}

/// An error's name and the driver's sentence about it.
pub(super) fn explained(error: CUresult) -> String {
    let (mut name, mut sentence) = (ptr::null(), ptr::null());
    // SAFETY: the driver gives constant strings that end with a zero, or leaves the pointers null.
    unsafe {
        let _ = cu::cuGetErrorName(error, &raw mut name);
        let _ = cu::cuGetErrorString(error, &raw mut sentence);
        if name.is_null() || sentence.is_null() {
            return format!("error {}", error as u32);
        }
        format!(
            "{}, {}",
            CStr::from_ptr(name).to_string_lossy(),
            CStr::from_ptr(sentence).to_string_lossy()
        )
    }
}
