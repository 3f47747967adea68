//! A file that lists servers of engines, followed while the process runs: one server a line, written as
//! `--upstream` takes it.

use std::fmt;
use std::path::{Path, PathBuf};

use adapters::EngineSpec;
use anyhow::{Context as _, ensure};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::watched_files::WatchedFiles;

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

/// A list of servers.
#[derive(Debug)]
pub(crate) struct EndpointsFile {
    path: PathBuf,
    form: AddressForm,
    file: WatchedFiles,
    /// When it was read first.
    specs: Vec<EngineSpec>,
}

impl EndpointsFile {
    /// Reads the file for the first time, when it has to make sense.
    pub(crate) fn open(path: &Path, form: AddressForm) -> anyhow::Result<Self> {
        let parse = |contents: &[Vec<u8>]| parse(contents, form);
        let (file, specs) = WatchedFiles::open("endpoints", vec![path.to_owned()], parse)
            .context("--endpoints-file")?;
        Ok(Self {
            path: path.to_owned(),
            form,
            file,
            specs,
        })
    }

    pub(crate) fn specs(&self) -> &[EngineSpec] {
        &self.specs
    }

    /// Looks at the file again and again, and puts `first` and what it lists into `lists`.
    pub(crate) async fn follow(
        self,
        first: Vec<EngineSpec>,
        lists: watch::Sender<Vec<EngineSpec>>,
        stop: CancellationToken,
    ) {
        let replace = |contents: &[Vec<u8>]| {
            let listed = parse(contents, self.form)?;
            lists.send_replace([&first[..], &listed].concat());
            Ok(())
        };
        self.file.follow(stop, replace).await;
    }
}

impl fmt::Display for EndpointsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} listed in {}", self.specs.len(), self.path.display())
    }
}

fn parse(contents: &[Vec<u8>], form: AddressForm) -> anyhow::Result<Vec<EngineSpec>> {
    let contents = contents.concat();
    let text = std::str::from_utf8(&contents)?;
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
    use crate::watched_files::LOOK_EVERY;

    fn parse(text: &str, form: AddressForm) -> anyhow::Result<Vec<EngineSpec>> {
        super::parse(&[text.as_bytes().to_vec()], form)
    }

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
