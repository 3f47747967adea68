//! The file with clients' API keys, followed while the server runs.
//!
//! Read every other second and compared whole: a file of keys is small, and a time stamp says
//! neither that a mounted secret was swapped nor that an editor wrote twice within its
//! resolution. A file that cannot be read or is invalid changes nothing: the current keys
//! remain in effect, and the log says so once for every such state.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use frontend::{ApiKeys, KeyRing};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A file of keys, as it was last seen.
#[derive(Debug)]
pub(super) struct KeyFile {
    path: PathBuf,
    seen: Seen,
    pub(super) ring: KeyRing,
}

/// What was found in the file, whether it made sense or not. Never shown: it holds secrets.
#[derive(PartialEq, Eq)]
enum Seen {
    Text(String),
    Unreadable,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text(..)",
            Self::Unreadable => "Unreadable",
        })
    }
}

impl KeyFile {
    /// Reads the file for the first time, when it has to make sense.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("--api-key-file: cannot read {}", path.display()))?;
        let keys = ApiKeys::parse(&text)
            .with_context(|| format!("--api-key-file: {} is invalid", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            seen: Seen::Text(text),
            ring: KeyRing::new(keys),
        })
    }

    /// Looks at the file again and again.
    pub(super) async fn follow(mut self, stop: CancellationToken) {
        while stop
            .run_until_cancelled(tokio::time::sleep(LOOK_EVERY))
            .await
            .is_some()
        {
            let path = self.path.clone();
            let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path));
            if let Ok(read) = read.await {
                self.look(read);
            }
        }
    }

    fn look(&mut self, read: std::io::Result<String>) {
        let path = self.path.display();
        let (found, error) = match read {
            Ok(text) => (Seen::Text(text), None),
            Err(error) => (Seen::Unreadable, Some(error)),
        };
        if found == self.seen {
            return;
        }
        match (&found, error) {
            (Seen::Text(text), _) => match ApiKeys::parse(text) {
                Ok(keys) => {
                    info!(%path, keys = keys.len(), "API keys replaced");
                    self.ring.replace(keys);
                }
                Err(error) => {
                    warn!(%path, %error, "the API key file is invalid; the old keys remain in effect");
                }
            },
            (Seen::Unreadable, error) => {
                let error = error.map(|error| error.to_string()).unwrap_or_default();
                warn!(%path, error, "cannot read the API key file; the old keys remain in effect");
            }
        }
        self.seen = found;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(file: &KeyFile, key: &str) -> bool {
        file.ring.allow(Some(format!("Bearer {key}").as_bytes()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_changes_the_keys_and_a_broken_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        std::fs::write(&path, "sk-old\n").unwrap();
        let file = KeyFile::open(&path).unwrap();
        let ring = file.ring.clone();
        let allows = |key: &str| ring.allow(Some(format!("Bearer {key}").as_bytes()));
        let stop = CancellationToken::new();
        let steps = async {
            for (text, old, new) in [
                (
                    Some("[[keys]]\nname = \"a\"\nkey = \"sk-new\"\n"),
                    false,
                    true,
                ),
                (Some("[[keys]]\nname = \"a\"\n"), false, true),
                (None, false, true),
                (Some("sk-old"), true, false),
            ] {
                match text {
                    Some(text) => std::fs::write(&path, text).unwrap(),
                    None => std::fs::remove_file(&path).unwrap(),
                }
                // The file is read by another thread, which the paused clock waits for.
                let mut looks = 0;
                while (allows("sk-old"), allows("sk-new")) != (old, new) || looks < 3 {
                    tokio::time::sleep(LOOK_EVERY).await;
                    looks += 1;
                    assert!(looks < 1000, "{text:?}");
                }
            }
            stop.cancel();
        };
        tokio::join!(file.follow(stop.clone()), steps);
    }

    #[test]
    fn what_is_broken_is_told_once_and_nothing_secret_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        std::fs::write(&path, "sk-secret\n").unwrap();
        let mut file = KeyFile::open(&path).unwrap();
        assert!(!format!("{file:?}").contains("secret"));
        file.look(Ok("{".to_owned()));
        assert!(allows(&file, "sk-secret"));
        file.look(Ok(
            "{\"keys\": [{\"name\": \"a\", \"key\": \"sk-other\"}]}".to_owned()
        ));
        assert!(allows(&file, "sk-other") && !allows(&file, "sk-secret"));
        std::fs::write(&path, "# nobody\n").unwrap();
        let error = format!("{:#}", KeyFile::open(&path).unwrap_err());
        assert!(error.ends_with("it has no keys"), "{error}");
    }
}
