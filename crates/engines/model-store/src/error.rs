//! Why a model is unavailable. Every message says what to look at: a folder, a package, an address.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why there is no cache folder.
#[derive(Debug, Error)]
#[error("no folder for models: set HOMING_CACHE, XDG_CACHE_HOME or HOME")]
pub struct NoCache;

/// Why a name leads to no files.
#[derive(Debug, Error)]
pub enum ResolveError {
    #[error(
        "there is no file or folder {name}, and no model of that name has been pulled: \
         `homing model pull {name}`"
    )]
    NotPulled { name: String },
    #[error(
        "there is no file or folder {name}, nor a model of that name; known are {known}, \
         and any OWNER/NAME of the Hugging Face hub"
    )]
    Unknown { name: String, known: String },
    #[error("{name}: {reason}")]
    BadName { name: String, reason: String },
}

/// Why a model was not brought into the cache.
#[derive(Debug, Error)]
pub enum PullError {
    #[error(
        "{name} is not a known model; known are {known}, and any OWNER/NAME of the Hugging Face hub"
    )]
    Unknown { name: String, known: String },
    #[error("{name}: {reason}")]
    BadName { name: String, reason: String },
    #[error("{}: cannot {action}: {source}", path.display())]
    File {
        path: PathBuf,
        action: &'static str,
        source: io::Error,
    },
    #[error("{} is locked: another pull of this model is running", path.display())]
    Busy { path: PathBuf },
    #[error("cannot run python3, which is needed to download packages: {0}")]
    NoPython(io::Error),
    #[error("python3 has no pip, which is needed to download packages")]
    NoPip,
    #[error("pip cannot download {package} ({status}):\n{said}")]
    Pip {
        package: String,
        status: String,
        said: String,
    },
    #[error("{file}: {detail}")]
    Archive { file: String, detail: String },
    #[error("{file} has {found} bytes, but {wanted} were expected")]
    Size {
        file: String,
        wanted: u64,
        found: u64,
    },
    #[error("{file} has sha256 {found}, but {wanted} was expected")]
    Checksum {
        file: String,
        wanted: String,
        found: String,
    },
    #[error("{url}: {detail}")]
    Http { url: String, detail: String },
    #[error("{repository}: {detail}")]
    Repository { repository: String, detail: String },
    #[error("the pull was cancelled")]
    Stopped,
}

impl PullError {
    /// Turns an error of the file system into one that names the file.
    pub(crate) fn file(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            path,
            action,
            source,
        }
    }
}
