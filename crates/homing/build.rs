//! Builds the web console and leaves its files where the program embeds them.
//!
//! It lies with the program and not with the `console` crate, so that whatever else uses that
//! crate is neither rebuilt by a change of a page nor asks for Node. Nothing is written into
//! the source tree but `ui/node_modules`.
//!
//! # Guarantees
//!
//! - **Never fails the build.** Without Node, or if the pages do not build, the program serves
//!   a page that says so, and a warning says why. It is tried again by the next build.
//! - **Quick when nothing changed.** Cargo runs it when something under `ui/` did, and packages
//!   are installed only when the lock file is newer than they are.

use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::GzEncoder;

/// What the pages are made of.
const SOURCES: [&str; 9] = [
    "src",
    "public",
    "index.html",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.ts",
    // Shown beside our own results.
    "../benches/published/three-h200.csv",
    // Of the page that shows it.
    "../docs/results/story/summary.json",
];

const OLDEST_NODE: u32 = 20;

/// Packed files, and none smaller than this: the header would eat what is saved.
const PACKED: [&str; 6] = ["html", "js", "css", "svg", "json", "map"];
const LEAST_BYTES: usize = 1024;

/// Words of a failed command that are worth a warning's room.
const LAST_LINES: usize = 6;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let output = folder("OUT_DIR").join("ui");
    let sources = folder("CARGO_MANIFEST_DIR").join("../../ui");
    // The folder has to exist to be embedded, and old files must not be.
    let _ = fs::remove_dir_all(&output);
    fs::create_dir_all(&output).expect("cargo's own folder can be written");
    let outcome = build(&sources, &output).and_then(|()| {
        pack(&output).map_err(|error| format!("its files could not be packed: {error}").into())
    });
    for source in SOURCES.map(|name| sources.join(name)) {
        // Cargo would run the script again and again for one that does not exist.
        if source.exists() {
            println!("cargo::rerun-if-changed={}", source.display());
        }
    }
    if let Err(reason) = outcome {
        for line in reason.to_string().lines() {
            println!("cargo::warning=web console not built: {line}");
        }
        println!(
            "cargo::warning=the API works without it; for the pages install Node {OLDEST_NODE} or later with npm and build again"
        );
        let _ = fs::remove_dir_all(&output);
        fs::create_dir_all(&output).expect("cargo's own folder can be written");
        // Does not exist, so that the next build tries again: Node may be there by then.
        println!("cargo::rerun-if-changed=node-was-missing");
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build script by its environment"
)]
fn folder(variable: &str) -> PathBuf {
    PathBuf::from(env::var_os(variable).expect("cargo sets it"))
}

/// Builds the pages into `output`, or says in words for a warning why not.
fn build(sources: &Path, output: &Path) -> Result<(), Box<dyn Error>> {
    if !sources.join("package.json").exists() {
        return Err("there is no folder `ui` beside `crates`".into());
    }
    check_node()?;
    if !is_installed(sources) {
        // Not `npm ci`, which refuses a lock file that lacks other platforms' optional packages.
        let words = ["install", "--no-save", "--no-audit", "--no-fund"];
        npm(sources, output, &words)?;
    }
    npm(sources, output, &["run", "build"])?;
    match output.join("index.html").exists() {
        true => Ok(()),
        false => Err("`npm run build` left no index.html".into()),
    }
}

fn check_node() -> Result<(), Box<dyn Error>> {
    let said = Command::new("node").arg("--version").output();
    let said = said.map_err(|error| format!("`node` cannot be run: {error}"))?;
    let version = String::from_utf8_lossy(&said.stdout);
    let version = version.trim();
    let major = version.trim_start_matches('v').split('.').next();
    match major.and_then(|major| major.parse::<u32>().ok()) {
        Some(major) if major >= OLDEST_NODE => Ok(()),
        _ => Err(format!("`node` is `{version}`, too old").into()),
    }
}

/// Whether the packages were installed after the lock file last changed.
fn is_installed(sources: &Path) -> bool {
    let changed = |path: &str| fs::metadata(sources.join(path)).and_then(|file| file.modified());
    // Written by npm when it is done.
    let installed = changed("node_modules/.package-lock.json");
    matches!((installed, changed("package-lock.json")), (Ok(installed), Ok(locked)) if installed >= locked)
}

fn npm(sources: &Path, output: &Path, words: &[&str]) -> Result<(), Box<dyn Error>> {
    let line = format!("npm {}", words.join(" "));
    let ran = Command::new("npm")
        .args(words)
        .current_dir(sources)
        .env("HOMING_UI_OUT", output)
        .output()
        .map_err(|error| format!("`{line}` cannot be run: {error}"))?;
    if ran.status.success() {
        return Ok(());
    }
    let said = [ran.stdout, ran.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let said: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
    let last = &said[said.len().saturating_sub(LAST_LINES)..];
    Err(format!("`{line}` failed\n{}", last.join("\n")).into())
}

/// Leaves a packed copy `NAME.gz` beside every file that gets smaller by it.
fn pack(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            pack(&path)?;
            continue;
        }
        let extension = path.extension().and_then(|extension| extension.to_str());
        let content = fs::read(&path)?;
        if content.len() < LEAST_BYTES || !extension.is_some_and(|name| PACKED.contains(&name)) {
            continue;
        }
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&content)?;
        let mut name = path.into_os_string();
        name.push(".gz");
        fs::write(name, packed.finish()?)?;
    }
    Ok(())
}
