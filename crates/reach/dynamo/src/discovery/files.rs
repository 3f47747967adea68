//! Workers that register as files: one per key, touched every few seconds by its owner. The
//! owner of a file that has not been touched for long is gone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tracing::warn;

use crate::directory::Update;
use crate::registration::LARGEST_VALUE;

/// How often to look. Dynamo's owners touch their files every three seconds.
const EVERY: Duration = Duration::from_millis(500);
/// Dynamo's own time to live of a file.
const TIME_TO_LIVE: Duration = Duration::from_secs(10);
/// The folders under the root that we read.
const BUCKETS: [&str; 4] = [
    "v1/instances",
    "v1/mdc",
    "v1/event_channels",
    "v1/event_sources",
];
/// What is being written has this prefix, until it is renamed.
const UNFINISHED: &str = ".tmp_";

#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
    ticks: Interval,
    returned: Option<Vec<(String, Vec<u8>)>>,
}

impl Files {
    pub(super) fn new(root: PathBuf) -> Self {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            root,
            ticks,
            returned: None,
        }
    }

    /// Waits until something differs from what was returned last.
    pub(super) async fn next(&mut self) -> Update {
        loop {
            self.ticks.tick().await;
            let root = self.root.clone();
            let listed = tokio::task::spawn_blocking(move || list(&root)).await;
            let pairs = match listed {
                Ok(Ok(pairs)) => pairs,
                Ok(Err(error)) => {
                    warn!(folder = %self.root.display(), %error, "registry cannot be read");
                    continue;
                }
                // The runtime is stopping.
                Err(_) => continue,
            };
            if self.returned.as_ref() != Some(&pairs) {
                self.returned = Some(pairs.clone());
                return Update::Snapshot(pairs);
            }
        }
    }
}

/// All files that have an owner, in the order of their keys.
fn list(root: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut pairs = Vec::new();
    for bucket in BUCKETS {
        let entries = match fs::read_dir(root.join(bucket)) {
            Ok(entries) => entries,
            // No worker has registered yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !name.starts_with(UNFINISHED)) else {
                continue;
            };
            // A file that vanishes in between does not count.
            if let Ok(Some(value)) = read(&entry.path()) {
                let key = percent_decode_str(name).decode_utf8_lossy();
                pairs.push((format!("{bucket}/{key}"), value));
            }
        }
    }
    pairs.sort();
    Ok(pairs)
}

/// The content of a file, unless it is stale or too large to be a registration.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let metadata = fs::metadata(path)?;
    // A time in the future is that of a clock which differs from ours a little.
    let age = metadata.modified()?.elapsed().unwrap_or_default();
    if !metadata.is_file() || age > TIME_TO_LIVE || metadata.len() > LARGEST_VALUE as u64 {
        return Ok(None);
    }
    fs::read(path).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, value: &str) -> PathBuf {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("it is in a bucket")).expect("a folder");
        fs::write(&path, value).expect("a file");
        path
    }

    #[test]
    fn files_are_keys_as_long_as_somebody_touches_them() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(list(root.path()).unwrap(), []);
        write(root.path(), "v1/mdc/dynamo%2Fbackend%2Fgenerate%2Fa", "x");
        write(root.path(), "v1/mdc/.tmp_1", "unfinished");
        write(root.path(), "v1/other/a", "not read");
        let stale = write(root.path(), "v1/instances/old", "y");
        let stale = fs::File::options().write(true).open(stale).unwrap();
        let long_ago = stale.metadata().unwrap().modified().unwrap() - 2 * TIME_TO_LIVE;
        stale.set_modified(long_ago).unwrap();
        let key = "v1/mdc/dynamo/backend/generate/a".to_owned();
        assert_eq!(list(root.path()).unwrap(), [(key, b"x".to_vec())]);
    }

    #[tokio::test]
    async fn only_differences_are_returned() {
        let root = tempfile::tempdir().unwrap();
        let mut files = Files::new(root.path().to_owned());
        assert_eq!(files.next().await, Update::Snapshot(vec![]));
        let file = write(root.path(), "v1/mdc/a", "x");
        let expected = vec![("v1/mdc/a".to_owned(), b"x".to_vec())];
        assert_eq!(files.next().await, Update::Snapshot(expected));
        fs::remove_file(file).unwrap();
        assert_eq!(files.next().await, Update::Snapshot(vec![]));
    }
}
