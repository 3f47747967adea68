//! Finding the libraries.

use std::path::{Path, PathBuf};

use cudarc::{cublaslt, driver};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::DeviceError;

const PRODUCTS: &str = "libcublasLt.so.13";
/// Where CUDA's own packages and container images put it.
const USUAL: [&str; 2] = ["/usr/local/cuda/lib64", "/usr/local/nvidia/lib64"];

/// The driver's functions can be called if this succeeds.
pub(super) fn driver() -> Result<(), DeviceError> {
    // SAFETY: opening NVIDIA's driver runs its initialisers, which have no requirements of their caller.
    if unsafe { driver::sys::is_culib_present() } {
        Ok(())
    } else {
        Err(DeviceError::NoDriver)
    }
}

/// The library of products can be called if this succeeds. It is opened from the first folder that has
/// it, and stays open: the loader then finds it by its name.
pub(super) fn products(folders: &[PathBuf]) -> Result<(), DeviceError> {
    let first = folders.iter().map(|folder| folder.join(PRODUCTS));
    let usual = USUAL.iter().map(|folder| Path::new(folder).join(PRODUCTS));
    let opened = first
        .chain([PathBuf::from(PRODUCTS)])
        .chain(usual)
        .any(|path| open(&path));
    // SAFETY: as in `driver`.
    if !opened || !unsafe { cublaslt::sys::is_culib_present() } {
        return Err(DeviceError::NoProducts {
            searched: searched(folders),
        });
    }
    // SAFETY: the library is there, and the function has no requirements.
    let version = unsafe { cublaslt::sys::cublasLtGetVersion() } / 10_000;
    if version < 13 {
        return Err(DeviceError::OldProducts { version });
    }
    Ok(())
}

fn open(path: &Path) -> bool {
    // SAFETY: as in `driver`; a file of this name is NVIDIA's library.
    match unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) } {
        Ok(library) => {
            std::mem::forget(library);
            true
        }
        Err(_) => false,
    }
}

fn searched(folders: &[PathBuf]) -> String {
    let mut names: Vec<String> = folders
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.push("the loader's path".to_owned());
    names.extend(USUAL.map(str::to_owned));
    names.join(", ")
}
