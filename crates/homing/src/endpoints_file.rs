//! A file that lists servers of engines, followed while the process runs.
//!
//! One server a line, written as `--upstream` takes it. Read every other second and compared whole, as
//! the file of API keys is, and for the same reasons. A file that cannot be read or has an error changes
//! nothing: the servers of the last good one stay, and the log says so once for every such state.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use adapters::EngineSpec;
use anyhow::{Context as _, ensure};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How a server must be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressForm {
    Any,
    /// By its IP address: a gateway does not resolve names.
    Ip,
}

impl AddressForm {
    pub(crate) fn check(self, spec: &EngineSpec) -> anyhow::Result<()> {
        ensure!(
            self == Self::Any || spec.address().is_some(),
            "`{}` must have an IP address for its host: a gateway takes no names",
            spec.url
        );
        Ok(())
    }
}

/// A list of servers, as it was last seen.
#[derive(Debug)]
pub(crate) struct EndpointsFile {
    path: PathBuf,
    form: AddressForm,
    /// `None` if it could not be read.
    seen: Option<String>,
    /// Of the last good one.
    specs: Vec<EngineSpec>,
}

impl EndpointsFile {
    /// Reads the file for the first time, when it has to make sense.
    pub(crate) fn open(path: &Path, form: AddressForm) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("--endpoints-file: cannot read {shown}"))?;
        let specs =
            parse(&text, form).with_context(|| format!("--endpoints-file: {shown} is invalid"))?;
        Ok(Self {
            path: path.to_owned(),
            form,
            seen: Some(text),
            specs,
        })
    }

    pub(crate) fn specs(&self) -> &[EngineSpec] {
        &self.specs
    }

    /// Looks at the file again and again, and puts `first` and what it lists into `lists`.
    pub(crate) async fn follow(
        mut self,
        first: Vec<EngineSpec>,
        lists: watch::Sender<Vec<EngineSpec>>,
        stop: CancellationToken,
    ) {
        while stop
            .run_until_cancelled(tokio::time::sleep(LOOK_EVERY))
            .await
            .is_some()
        {
            let path = self.path.clone();
            let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path));
            if let Ok(read) = read.await
                && self.look(read)
            {
                lists.send_replace([&first[..], &self.specs].concat());
            }
        }
    }

    /// Returns whether the list has changed.
    fn look(&mut self, read: std::io::Result<String>) -> bool {
        let path = self.path.display();
        let (found, error) = match read {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(error)),
        };
        if found == self.seen {
            return false;
        }
        let parsed = match (&found, error) {
            (Some(text), _) => parse(text, self.form),
            (None, error) => Err(error.map_or_else(|| anyhow::anyhow!("gone"), Into::into)),
        };
        self.seen = found;
        match parsed {
            Ok(specs) => {
                info!(%path, servers = specs.len(), "list of endpoints replaced");
                self.specs = specs;
                true
            }
            Err(error) => {
                warn!(%path, error = format!("{error:#}"), "the list of endpoints is unusable; the old one stays");
                false
            }
        }
    }
}

impl fmt::Display for EndpointsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} listed in {}", self.specs.len(), self.path.display())
    }
}

fn parse(text: &str, form: AddressForm) -> anyhow::Result<Vec<EngineSpec>> {
    let mut specs = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = || format!("line {}", number + 1);
        let spec: EngineSpec = line.parse().with_context(place)?;
        form.check(&spec).with_context(place)?;
        specs.push(spec);
    }
    Ok(specs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(specs: &[EngineSpec]) -> Vec<&str> {
        specs.iter().map(|spec| spec.url.as_str()).collect()
    }

    #[test]
    fn a_line_is_a_server() {
        let text = "# ours\n\n openai=http://10.0.0.1:8000 \nvllm=http://b:8000,slots=4\n";
        let specs = parse(text, AddressForm::Any).unwrap();
        assert_eq!(urls(&specs), ["http://10.0.0.1:8000", "http://b:8000"]);
        for (text, form, says) in [
            ("openai", AddressForm::Any, "line 1"),
            ("\nvllm=http://b:1", AddressForm::Ip, "line 2: `http://b:1`"),
        ] {
            let error = format!("{:#}", parse(text, form).unwrap_err());
            assert!(error.contains(says), "{error}");
        }
        assert!(parse("", AddressForm::Ip).unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_changes_the_list_and_a_broken_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("endpoints");
        std::fs::write(&path, "openai=http://10.0.0.1:1\n").unwrap();
        let file = EndpointsFile::open(&path, AddressForm::Ip).unwrap();
        let first: Vec<EngineSpec> = vec!["openai=http://10.0.0.9:1".parse().unwrap()];
        let (lists, mut seen) = watch::channel(Vec::new());
        let stop = CancellationToken::new();
        let steps = async {
            std::fs::write(&path, "broken\n").unwrap();
            tokio::time::sleep(3 * LOOK_EVERY).await;
            assert!(!seen.has_changed().unwrap());
            std::fs::write(&path, "openai=http://10.0.0.2:1\n").unwrap();
            seen.changed().await.unwrap();
            let expected = ["http://10.0.0.9:1", "http://10.0.0.2:1"];
            assert_eq!(urls(&seen.borrow_and_update()), expected);
            std::fs::remove_file(&path).unwrap();
            tokio::time::sleep(3 * LOOK_EVERY).await;
            assert!(!seen.has_changed().unwrap());
            stop.cancel();
        };
        tokio::join!(file.follow(first, lists, stop.clone()), steps);
    }
}
