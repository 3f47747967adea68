//! `cargo xtask chaos`: the crate `chaos` in the release profile, over many seeds.

mod bugs;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use anyhow::{Context, ensure};

use self::bugs::{BUGS, Bug};
use crate::repository;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    /// Print what goes wrong in each run.
    #[arg(long)]
    verbose: bool,
    /// Search a copy of the sources with this bug in it, to see that it is found.
    #[arg(long, value_name = "BUG", value_parser = BUGS.map(|bug| bug.name))]
    plant: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let bug = arguments.plant.as_ref();
    let bug = bug.and_then(|name| BUGS.iter().find(|bug| bug.name == name));
    let sources = match bug {
        Some(bug) => copy_with(bug)?,
        None => repository::root().to_owned(),
    };
    let mut command = Command::new("cargo");
    command
        .args(["run", "--quiet", "--release", "--package", "chaos"])
        .args(["--", "--seeds", &arguments.seeds.to_string()])
        .args(["--first-seed", &arguments.first_seed.to_string()])
        .current_dir(sources);
    if arguments.verbose {
        command.arg("--verbose");
    }
    let status = command.status().context("could not run cargo")?;
    ensure!(status.success(), "a seed failed");
    Ok(())
}

/// Brings the copy of the sources up to date, with the bug in it. A file that stays the same is
/// not written, so that little is built again.
fn copy_with(bug: &Bug) -> anyhow::Result<PathBuf> {
    let copy = repository::root().join("target/planted");
    for crates in ["crates", "xtask"] {
        remove_missing(&copy.join(crates), &repository::root().join(crates))?;
    }
    for file in repository::files()? {
        let mut content = fs::read(repository::root().join(&file.path))?;
        if file.path == bug.file {
            let text = file.text.context("a source file is text")?;
            content = bug.plant(&text)?.into_bytes();
        }
        let path = copy.join(&file.path);
        if fs::read(&path).is_ok_and(|there| there == content) {
            continue;
        }
        fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
        fs::write(path, content)?;
    }
    Ok(copy)
}

/// Removes from a folder of the copy what the original no longer has.
fn remove_missing(copy: &Path, original: &Path) -> io::Result<()> {
    if !copy.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(copy)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let original = original.join(name);
        match (path.is_dir(), original.exists()) {
            (true, true) => remove_missing(&path, &original)?,
            (true, false) => fs::remove_dir_all(path)?,
            (false, true) => {}
            (false, false) => fs::remove_file(path)?,
        }
    }
    Ok(())
}
