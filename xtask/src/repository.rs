//! The checkout this program was built from.
//!
//! Chores look at the files that git tracks or would track, never at build output, and
//! name them by their path from the root.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// One file as the checks see it.
#[derive(Debug)]
pub(crate) struct File {
    /// From the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// None when it is not UTF-8.
    pub(crate) text: Option<String>,
}

impl File {
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            bytes: text.len() as u64,
            text: Some(text.to_owned()),
        }
    }

    pub(crate) fn has_extension(&self, extensions: &[&str]) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|found| extensions.iter().any(|&extension| found == extension))
    }

    /// Its lines with their numbers; none when it is not text.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .iter()
            .flat_map(|text| text.lines())
            .enumerate()
            .map(|(at, line)| (at + 1, line))
    }
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is a folder of the repository")
}

/// Every file that git tracks or would add, in order.
pub(crate) fn files() -> anyhow::Result<Vec<File>> {
    let listing = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
            "--deduplicate",
        ])
        .current_dir(root())
        .output()
        .context("could not run git")?;
    ensure!(
        listing.status.success(),
        "{}",
        String::from_utf8_lossy(&listing.stderr).trim()
    );
    let listing = String::from_utf8(listing.stdout).context("a file name is not UTF-8")?;
    let mut paths: Vec<&str> = listing.split_terminator('\0').collect();
    paths.sort_unstable();
    paths
        .into_iter()
        // Tracked but deleted in the working tree: nothing to check.
        .filter(|path| root().join(path).is_file())
        .map(read)
        .collect()
}

fn read(path: &str) -> anyhow::Result<File> {
    let content =
        std::fs::read(root().join(path)).with_context(|| format!("could not read {path}"))?;
    let bytes = content.len() as u64;
    Ok(File {
        path: path.to_owned(),
        bytes,
        text: String::from_utf8(content).ok(),
    })
}

/// Where cargo puts what it builds, which the caller's environment may have moved.
pub(crate) fn target_directory() -> anyhow::Result<PathBuf> {
    let output = Command::new("cargo")
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .context("could not run cargo")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")?;
    let directory = metadata["target_directory"]
        .as_str()
        .context("no target directory")?;
    Ok(PathBuf::from(directory))
}
