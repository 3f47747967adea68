//! Where models are kept: one folder per model below the user's cache.
//!
//! Only the program reads the environment, so the variables come as a function.

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::{NoCache, PullError};

/// The value of an environment variable.
pub type Variable<'a> = &'a dyn Fn(&str) -> Option<OsString>;

#[derive(Clone, Debug)]
pub(crate) struct Cache {
    models: PathBuf,
}

impl Cache {
    pub(crate) fn from_environment(variable: Variable<'_>) -> Result<Self, NoCache> {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        // The rule for XDG's folders: one that is not absolute is as good as unset.
        let absolute = |name| {
            set(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let root = if let Some(own) = set("HOMING_CACHE") {
            PathBuf::from(own)
        } else if let Some(shared) = absolute("XDG_CACHE_HOME") {
            shared.join("homing")
        } else {
            let home = absolute("HOME").ok_or(NoCache)?;
            let caches = if cfg!(target_os = "macos") {
                "Library/Caches"
            } else {
                ".cache"
            };
            home.join(caches).join("homing")
        };
        Ok(Self {
            models: root.join("models"),
        })
    }

    /// What holds the folders of all models.
    pub(crate) fn models(&self) -> &Path {
        &self.models
    }

    /// The folder of a model. `name` is one plain component of a path.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.models.join(name)
    }

    /// Keeps a second pull of the same model out, as long as the answer lives. The system
    /// lets go of it even if this process is killed.
    pub(crate) fn lock(&self, name: &str) -> Result<File, PullError> {
        create_folder(&self.models)?;
        let path = self.models.join(format!(".{name}.lock"));
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        let file = options.open(&path);
        let file = file.map_err(PullError::file(&path, "write"))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(PullError::Busy { path }),
            Err(TryLockError::Error(error)) => Err(PullError::file(&path, "lock")(error)),
        }
    }
}

pub(crate) fn create_folder(path: &Path) -> Result<(), PullError> {
    fs::create_dir_all(path).map_err(PullError::file(path, "create the folder"))
}

/// Removes a folder with all that is in it, if there is one.
pub(crate) fn remove_folder(path: &Path) -> Result<(), PullError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(PullError::file(path, "remove the folder")(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
