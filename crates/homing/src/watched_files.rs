//! An operator's files that may change while the server runs: keys, certificates.
//!
//! They are read every other second and compared whole: they are small, and a time stamp says
//! neither that a mounted secret was swapped nor that an editor wrote twice within its
//! resolution. Files that cannot be read or are invalid change nothing, and the log says so once
//! for every such state.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often the files are looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The files of one purpose, as they were last seen.
#[derive(Debug)]
pub(crate) struct WatchedFiles {
    /// What they are, for the log.
    what: &'static str,
    paths: Vec<PathBuf>,
    seen: Seen,
}

/// What was found in the files, whether it made sense or not. Never shown: it holds secrets.
#[derive(PartialEq, Eq)]
enum Seen {
    Contents(Vec<Vec<u8>>),
    Unreadable,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Contents(_) => "Contents(..)",
            Self::Unreadable => "Unreadable",
        })
    }
}

impl WatchedFiles {
    /// Reads the files for the first time, when `parse` has to accept them.
    pub(crate) fn open<T>(
        what: &'static str,
        paths: Vec<PathBuf>,
        parse: impl FnOnce(&[Vec<u8>]) -> anyhow::Result<T>,
    ) -> anyhow::Result<(Self, T)> {
        let read = |path: &PathBuf| {
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
        };
        let contents: Vec<_> = paths.iter().map(read).collect::<Result<_, _>>()?;
        let parsed = parse(&contents).with_context(|| format!("{} invalid", named(&paths)))?;
        let seen = Seen::Contents(contents);
        Ok((Self { what, paths, seen }, parsed))
    }

    /// Looks at the files again and again, and hands changed contents to `replace`.
    pub(crate) async fn follow(
        mut self,
        stop: CancellationToken,
        mut replace: impl FnMut(&[Vec<u8>]) -> anyhow::Result<()>,
    ) {
        while stop
            .run_until_cancelled(tokio::time::sleep(LOOK_EVERY))
            .await
            .is_some()
        {
            let paths = self.paths.clone();
            let read = tokio::task::spawn_blocking(move || read_all(&paths));
            if let Ok(read) = read.await {
                self.look(read, &mut replace);
            }
        }
    }

    fn look(
        &mut self,
        read: io::Result<Vec<Vec<u8>>>,
        replace: &mut impl FnMut(&[Vec<u8>]) -> anyhow::Result<()>,
    ) {
        let (found, error) = match read {
            Ok(contents) => (Seen::Contents(contents), None),
            Err(error) => (Seen::Unreadable, Some(error)),
        };
        if found == self.seen {
            return;
        }
        let (what, paths) = (self.what, named(&self.paths));
        match (&found, error) {
            (Seen::Contents(contents), _) => match replace(contents) {
                Ok(()) => info!(paths, "{what} replaced"),
                Err(error) => {
                    let error = format!("{error:#}");
                    warn!(paths, error, "{what} invalid; the old remain in effect");
                }
            },
            (Seen::Unreadable, error) => {
                let error = error.map(|error| error.to_string()).unwrap_or_default();
                warn!(paths, error, "cannot read {what}; the old remain in effect");
            }
        }
        self.seen = found;
    }
}

fn read_all(paths: &[PathBuf]) -> io::Result<Vec<Vec<u8>>> {
    paths.iter().map(std::fs::read).collect()
}

fn named(paths: &[PathBuf]) -> String {
    let shown: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A file that has to be a number.
    fn number(contents: &[Vec<u8>]) -> anyhow::Result<u32> {
        Ok(std::str::from_utf8(&contents[0])?.trim().parse()?)
    }

    fn write(path: &Path, text: Option<&str>) {
        match text {
            Some(text) => std::fs::write(path, text).unwrap(),
            None => std::fs::remove_file(path).unwrap(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn changed_files_are_taken_and_broken_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("number");
        write(&path, Some("1"));
        let (files, first) = WatchedFiles::open("numbers", vec![path.clone()], number).unwrap();
        assert_eq!(first, 1);
        let stop = CancellationToken::new();
        let current = std::cell::Cell::new(first);
        let steps = async {
            for (text, expected) in [(Some("2"), 2), (Some("two"), 2), (None, 2), (Some("3"), 3)] {
                write(&path, text);
                // The file is read by another thread, which the paused clock waits for.
                let mut looks = 0;
                while current.get() != expected || looks < 3 {
                    tokio::time::sleep(LOOK_EVERY).await;
                    looks += 1;
                    assert!(looks < 1000, "{text:?}");
                }
            }
            stop.cancel();
        };
        let take = |contents: &[Vec<u8>]| {
            current.set(number(contents)?);
            Ok(())
        };
        tokio::join!(files.follow(stop.clone(), take), steps);
    }

    #[test]
    fn contents_are_not_shown_and_errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("number");
        let open = || WatchedFiles::open("numbers", vec![path.clone()], number);
        let error = format!("{:#}", open().unwrap_err());
        assert!(
            error.contains("cannot read") && error.contains("number"),
            "{error}"
        );
        write(&path, Some("secret"));
        let error = format!("{:#}", open().unwrap_err());
        assert!(error.contains("number invalid: "), "{error}");
        write(&path, Some("4711"));
        assert!(!format!("{:?}", open().unwrap().0).contains("4711"));
    }
}
