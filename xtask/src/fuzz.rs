//! `cargo xtask fuzz`: the targets in `fuzz/`, one after the other, for some minutes each.
//!
//! They are built by cargo-fuzz with the address sanitizer. That asks for flags which the
//! pinned compiler has but does not offer, hence `RUSTC_BOOTSTRAP`; the product is never built
//! so. cargo-fuzz is used where it is, and otherwise installed under the build directory.
//!
//! The seeds alone, which take no special flags, are the step `fuzz` of `cargo xtask test`.

mod log;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

use self::log::Figures;
use crate::repository;

const FOLDER: &str = "fuzz";

/// No input is longer than a few thousand bytes, so whoever asks for this much at once believed
/// a length that it was told. The model's vocabulary is some megabytes.
const LARGEST_ALLOCATION_MIB: u32 = 64;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long to run each target. Not 0, which libFuzzer takes for without end.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// Which targets; all of them if none is named.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let all = targets()?;
    for target in &arguments.targets {
        ensure!(all.contains(target), "no target {target}, only {all:?}");
    }
    let chosen = match arguments.targets.is_empty() {
        true => &all,
        false => &arguments.targets,
    };
    let cargo_fuzz = cargo_fuzz()?;
    let mut failed = Vec::new();
    let mut rows = Vec::new();
    for target in chosen {
        let (figures, passed) = run_target(&cargo_fuzz, target, arguments.minutes)?;
        if !passed {
            failed.push(target.as_str());
        }
        rows.push(figures.row(target, passed));
        println!("{}", rows[rows.len() - 1]);
    }
    println!("\n{}\n{}", Figures::HEAD, rows.join("\n"));
    ensure!(
        failed.is_empty(),
        "findings in {}: inputs are in {FOLDER}/artifacts",
        failed.join(", ")
    );
    Ok(())
}

/// Builds every target as an ordinary program and lets it read its seeds.
pub(crate) fn seeds() -> anyhow::Result<()> {
    for target in targets()? {
        let folder = repository::root().join(FOLDER).join("seeds").join(&target);
        let mut seeds = files(&folder)?;
        seeds.sort();
        ensure!(!seeds.is_empty(), "{} has no seed", folder.display());
        let output = Command::new("cargo")
            .args(["run", "--quiet", "--locked", "--manifest-path"])
            .args(["fuzz/Cargo.toml", "--bin", &target, "--"])
            .args(&seeds)
            .current_dir(repository::root())
            .stdin(Stdio::null())
            .output()
            .context("could not run cargo")?;
        ensure!(
            output.status.success(),
            "{target}:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        println!("{target}: {} seeds", seeds.len());
    }
    Ok(())
}

/// Every target has a file of its name.
fn targets() -> anyhow::Result<Vec<String>> {
    let folder = repository::root().join(FOLDER).join("fuzz_targets");
    let mut targets: Vec<String> = files(&folder)?
        .iter()
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    targets.sort();
    Ok(targets)
}

fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = folder
        .read_dir()
        .with_context(|| folder.display().to_string())?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// The command that runs cargo-fuzz, installed first if it is nowhere.
fn cargo_fuzz() -> anyhow::Result<PathBuf> {
    let answers = |program: &Path| {
        let mut version = Command::new(program);
        version.arg("--version").stdout(Stdio::null());
        version.status().is_ok_and(|status| status.success())
    };
    let anywhere = PathBuf::from("cargo-fuzz");
    if answers(&anywhere) {
        return Ok(anywhere);
    }
    let tools = repository::target_directory()?.join("tools");
    let own = tools.join("bin/cargo-fuzz");
    if !answers(&own) {
        println!("installing cargo-fuzz into {}", tools.display());
        let status = Command::new("cargo")
            .args(["install", "cargo-fuzz", "--locked", "--root"])
            .arg(&tools)
            .status()?;
        ensure!(status.success(), "cargo-fuzz could not be installed");
    }
    Ok(own)
}

/// Runs one target. What it says goes to a file, because it is a line for each new path.
fn run_target(cargo_fuzz: &Path, target: &str, minutes: u64) -> anyhow::Result<(Figures, bool)> {
    let corpus = format!("{FOLDER}/corpus/{target}");
    fs::create_dir_all(repository::root().join(&corpus))?;
    let log = repository::target_directory()?.join(format!("fuzz-{target}.log"));
    println!("{target}: {minutes} min; its log is {}", log.display());
    let output = File::create(&log).context("could not create the log")?;
    let status = Command::new(cargo_fuzz)
        .args(["run", target, &corpus])
        .arg(format!("{FOLDER}/seeds/{target}"))
        .arg("--")
        .arg(format!("-max_total_time={}", minutes * 60))
        .arg(format!("-malloc_limit_mb={LARGEST_ALLOCATION_MIB}"))
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(repository::root())
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .status()
        .context("could not run cargo-fuzz")?;
    let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let Some(figures) = Figures::read(&said) else {
        bail!("{target} did not run: see {}", log.display());
    };
    Ok((figures, status.success()))
}
