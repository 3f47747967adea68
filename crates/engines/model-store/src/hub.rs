//! Models of the Hugging Face hub, or of a server that speaks like it.
//!
//! The files are gathered in a folder beside the final one, which takes its place when all
//! of them are there. So a folder of a model is always whole and of one commit, and an old
//! one stays in use while a newer is fetched.

mod client;
mod download;
mod listing;
mod record;
pub(crate) mod reference;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use self::client::Client;
use self::download::{Remote, download};
use self::listing::{Listing, Wanted};
pub(crate) use self::record::{Record, folder_bytes};
pub(crate) use self::reference::Reference;
use crate::cache::{create_folder, remove_folder};
use crate::error::PullError;
use crate::partial::move_into_place;
use crate::progress::{Progress, Report, Step};

/// The hub's own address, if no other is set.
pub(crate) const ENDPOINT: &str = "https://huggingface.co";
/// What is meant without a revision.
const MAIN: &str = "main";

/// How the hub is reached.
#[derive(Clone)]
pub(crate) struct Hub {
    pub(crate) endpoint: String,
    pub(crate) token: Option<String>,
    /// Before the second try; doubled before every further one.
    pub(crate) pause: Duration,
}

impl std::fmt::Debug for Hub {
    /// Without the token, which is in no log's interest.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Hub");
        shown.field("endpoint", &self.endpoint);
        shown.finish_non_exhaustive()
    }
}

impl Hub {
    /// Fetches a model into `folder` and answers what a loader is to open.
    pub(crate) async fn pull(
        &self,
        reference: &Reference,
        folder: &Path,
        report: Report<'_>,
    ) -> Result<PathBuf, PullError> {
        report(Progress {
            step: Step::Listing,
            what: reference.to_string(),
            done: 0,
            total: None,
        });
        let client = Client::new(&self.endpoint, self.token.as_deref(), self.pause)?;
        let listing = list(&client, reference).await?;
        let selection = listing
            .select(reference)
            .map_err(|fault| PullError::Repository {
                repository: reference.repository.clone(),
                fault,
            })?;
        let record = Record {
            name: reference.to_string(),
            commit: listing.sha.clone(),
            licence: listing.licence().map(str::to_owned),
            entry: selection.entry.clone(),
        };
        if Record::read(folder).as_ref() == Some(&record) {
            return Ok(record.path(folder));
        }
        let gathering = beside(folder, ".partial");
        // What is left of another commit must not be mixed with this one.
        if Record::read(&gathering).as_ref() != Some(&record) {
            remove_folder(&gathering)?;
            create_folder(&gathering)?;
            record.write(&gathering)?;
        }
        let snapshot = Snapshot {
            repository: &reference.repository,
            commit: &listing.sha,
            files: &selection.files,
        };
        fetch_all(&client, snapshot, &gathering, report).await?;
        replace(&gathering, folder)?;
        Ok(record.path(folder))
    }
}

async fn list(client: &Client, reference: &Reference) -> Result<Listing, PullError> {
    let revision = reference.revision.as_deref().unwrap_or(MAIN);
    let revision = reference::escape(revision);
    let repository = &reference.repository;
    let path = format!("/api/models/{repository}/revision/{revision}?blobs=true");
    let answer = client.read(&path).await?;
    serde_json::from_slice(&answer).map_err(|error| PullError::Http {
        url: client.url(&path),
        detail: format!("answers something else than a list of files: {error}"),
    })
}

/// Files of a repository as they were at one commit.
#[derive(Clone, Copy)]
struct Snapshot<'a> {
    repository: &'a str,
    commit: &'a str,
    files: &'a [Wanted],
}

async fn fetch_all(
    client: &Client,
    from: Snapshot<'_>,
    gathering: &Path,
    report: Report<'_>,
) -> Result<(), PullError> {
    let sizes = from.files.iter().map(|file| file.bytes);
    let total = sizes.sum::<Option<u64>>();
    let mut before = 0;
    for file in from.files {
        let place = gathering.join(&file.name);
        // A file in its place was checked before it got there.
        if !place.exists() {
            let remote = Remote {
                path: file.path(from.repository, from.commit),
                bytes: file.bytes,
                sha256: file.sha256.clone(),
            };
            let mut pace = Pace::default();
            let mut grown = |bytes: u64| {
                if pace.is_due(bytes) {
                    report(Progress {
                        step: Step::Fetching,
                        what: file.name.clone(),
                        done: before + bytes,
                        total,
                    });
                }
            };
            download(client, &remote, &place, &mut grown).await?;
        }
        let meta = std::fs::metadata(&place).map_err(PullError::file(&place, "read"))?;
        before += meta.len();
    }
    report(Progress {
        step: Step::Fetching,
        what: from.repository.to_owned(),
        done: before,
        total: Some(before),
    });
    Ok(())
}

/// Passes on one progress report per so many bytes: there are far too many frames.
#[derive(Debug, Default)]
struct Pace {
    told: Option<u64>,
}

impl Pace {
    const EVERY: u64 = 1 << 20;

    fn is_due(&mut self, bytes: u64) -> bool {
        let due = self
            .told
            .is_none_or(|told| bytes < told || bytes - told >= Self::EVERY);
        if due {
            self.told = Some(bytes);
        }
        due
    }
}

fn beside(folder: &Path, suffix: &str) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Puts a folder where another may be. A rename cannot replace a folder that is not empty,
/// so the old one steps aside first.
fn replace(gathering: &Path, folder: &Path) -> Result<(), PullError> {
    let old = beside(folder, ".old");
    remove_folder(&old)?;
    if folder.exists() {
        move_into_place(folder, &old)?;
    }
    move_into_place(gathering, folder)?;
    remove_folder(&old)
}
