//! Every crate is where [`crate::crates`] says, and depends on lower layers only.
//!
//! Tests may reach further, hence `dev-dependencies` are free. `xtask` stands outside.

use toml::{Table, Value};

use super::Problem;
use crate::crates;
use crate::repository::File;

/// The crates' manifests and the folders they are in.
fn manifests(files: &[File]) -> impl Iterator<Item = (&File, &str)> {
    files.iter().filter_map(|file| {
        let folder = file.path.strip_suffix("/Cargo.toml")?;
        folder.starts_with("crates/").then_some((file, folder))
    })
}

fn parse(file: &File) -> Result<Table, Problem> {
    file.text
        .as_deref()
        .unwrap_or_default()
        .parse()
        .map_err(|error| Problem::new(&file.path, 1, format!("cannot be read: {error}")))
}

pub(super) fn check_layers(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (file, folder) in manifests(files) {
        match parse(file) {
            Ok(manifest) => check_crate(file, folder, &manifest, &mut problems),
            Err(problem) => problems.push(problem),
        }
    }
    problems
}

fn check_crate(file: &File, folder: &str, manifest: &Table, problems: &mut Vec<Problem>) {
    let name = manifest
        .get("package")
        .and_then(|package| package.get("name"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    let Some((group, known)) = crates::find(name) else {
        let advice = format!("give `{name}` a folder and a layer in xtask/src/crates.rs");
        problems.push(Problem::new(&file.path, 1, advice));
        return;
    };
    let expected = group.path_of(name);
    if folder != expected {
        let advice = format!("move it to {expected}, or change xtask/src/crates.rs");
        problems.push(Problem::new(&file.path, 1, advice));
    }
    let own = known.layer;
    for dependency in dependencies(manifest) {
        let layer = crates::find(dependency).map(|(_, known)| known.layer);
        if let Some(other) = layer.filter(|&other| other >= own) {
            let advice = format!(
                "layer {own} may not use `{dependency}` of layer {other}; move what both need down"
            );
            problems.push(Problem::new(&file.path, line_of(file, dependency), advice));
        }
    }
}

/// All dependencies of the built crate, those for single platforms included.
fn dependencies(manifest: &Table) -> impl Iterator<Item = &str> {
    let platforms = manifest.get("target").and_then(Value::as_table).into_iter();
    let platforms = platforms
        .flat_map(|targets| targets.values())
        .filter_map(Value::as_table);
    std::iter::once(manifest)
        .chain(platforms)
        .flat_map(|table| [table.get("dependencies"), table.get("build-dependencies")])
        .filter_map(|dependencies| dependencies?.as_table())
        .flat_map(|dependencies| dependencies.keys().map(String::as_str))
}

/// Where a manifest speaks of `key`, closely enough to jump to.
fn line_of(file: &File, key: &str) -> usize {
    let found = file.lines().find(|(_, line)| {
        line.strip_prefix(key)
            .is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    });
    found.map_or(1, |(number, _)| number)
}

pub(super) fn check_lints(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files
        .iter()
        .filter(|file| file.path.ends_with("Cargo.toml"))
    {
        match parse(file) {
            // A manifest without a package only gathers others.
            Ok(manifest) if !manifest.contains_key("package") => {}
            Ok(manifest) => {
                let inherits = manifest
                    .get("lints")
                    .and_then(|lints| lints.get("workspace"));
                if inherits.and_then(Value::as_bool) != Some(true) {
                    let advice = "add `[lints]` with `workspace = true`";
                    problems.push(Problem::new(&file.path, 1, advice));
                }
            }
            Err(problem) => problems.push(problem),
        }
    }
    problems
}
