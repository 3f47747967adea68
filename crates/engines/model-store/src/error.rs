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
    BadName { name: String, reason: NameError },
}

/// Why a name cannot be one of the hub.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    #[error("{0:?} is not part of a repository name")]
    Part(String),
    #[error("the repository's name is too long")]
    TooLong,
    #[error("{0:?} is not a revision")]
    Revision(String),
    #[error("{0:?} is not a file name")]
    File(String),
}

/// Why a repository has no model for us.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RepositoryFault {
    #[error("has no file {0}")]
    NoFile(String),
    #[error("has no .safetensors and no .gguf files")]
    NoWeights,
    #[error("has several models; take one of\n{}{}", names.join("\n"), and_more(*more))]
    Several {
        names: Vec<String>,
        /// Those that are not named.
        more: usize,
    },
}

fn and_more(count: usize) -> String {
    match count {
        0 => String::new(),
        count => format!("\nand {count} more"),
    }
}

/// Why a model was not brought into the cache.
#[derive(Debug, Error)]
pub enum PullError {
    #[error(
        "{name} is not a known model; known are {known}, and any OWNER/NAME of the Hugging Face hub"
    )]
    Unknown { name: String, known: String },
    #[error("{name}: {reason}")]
    BadName { name: String, reason: NameError },
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
    #[error("{repository}: {fault}")]
    Repository {
        repository: String,
        fault: RepositoryFault,
    },
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
