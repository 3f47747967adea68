//! Files of one crate do not import each other in a ring.
//!
//! A ring cannot be read from the bottom up: every file in it needs all the others. What two
//! files need of each other goes into a third below them. A module may use what its own parent
//! declares: the two are one unit, of which the parent is the face.

use std::collections::{BTreeMap, BTreeSet};

use super::Problem;
use super::source::{is_test, production_lines};
use crate::repository::File;

/// A module's path from the crate's root.
type Module = Vec<String>;

pub(super) fn check_rings(files: &[File]) -> Vec<Problem> {
    let mut crates: BTreeMap<&str, BTreeMap<Module, &File>> = BTreeMap::new();
    for file in files.iter().filter(|file| !is_test(&file.path)) {
        if let Some((folder, module)) = module_of(&file.path) {
            crates.entry(folder).or_default().insert(module, file);
        }
    }
    crates.values().flat_map(rings_of).collect()
}

/// The crate's folder and the module that a source file is.
fn module_of(path: &str) -> Option<(&str, Module)> {
    let (folder, inside) = path.split_once("/src/")?;
    let inside = inside.strip_suffix(".rs")?;
    if matches!(inside, "lib" | "main") {
        return Some((folder, Module::new()));
    }
    Some((folder, inside.split('/').map(str::to_owned).collect()))
}

fn rings_of(modules: &BTreeMap<Module, &File>) -> Vec<Problem> {
    let uses: BTreeMap<&Module, BTreeSet<&Module>> = modules
        .iter()
        .map(|(module, file)| (module, used_by(module, file, modules)))
        .collect();
    let reach: BTreeMap<&Module, BTreeSet<&Module>> = uses
        .keys()
        .map(|&module| (module, reachable(module, &uses)))
        .collect();
    let mut seen = BTreeSet::new();
    let mut problems = Vec::new();
    for (&module, reached) in &reach {
        if !reached.contains(module) || !seen.insert(module) {
            continue;
        }
        let ring: Vec<&Module> = reached
            .iter()
            .copied()
            .filter(|other| reach[other].contains(module))
            .collect();
        seen.extend(&ring);
        let names: Vec<String> = ring.iter().map(|member| member.join("::")).collect();
        let advice = format!(
            "a ring of files: {}; move what they share into one below them",
            names.join(", ")
        );
        problems.push(Problem::new(&modules[module].path, 1, advice));
    }
    problems
}

fn reachable<'a>(
    from: &Module,
    uses: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&Module> = uses[from].iter().copied().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(&uses[next]);
        }
    }
    reached
}

/// The modules of this crate that a file names, other than itself and its ancestors.
fn used_by<'a>(
    module: &Module,
    file: &File,
    modules: &'a BTreeMap<Module, &File>,
) -> BTreeSet<&'a Module> {
    let text = file.text.as_deref().unwrap_or_default();
    let code: Vec<&str> = text
        .lines()
        .take(production_lines(text))
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect();
    let code = code.join(" ");
    let mut used = BTreeSet::new();
    for path in paths(&code, module) {
        let known = (1..=path.len()).rev().map(|length| &path[..length]);
        let found = known.into_iter().find_map(|start| {
            let (module, _) = modules.get_key_value(start)?;
            Some(module)
        });
        used.extend(found.filter(|found| !module.starts_with(found)));
    }
    used
}

/// Every path in `code` that starts at the crate, the parent or a child module, from the root.
fn paths(code: &str, module: &Module) -> Vec<Module> {
    let mut found = Vec::new();
    for (start, base) in [
        ("crate::", Module::new()),
        ("super::", module[..module.len().saturating_sub(1)].to_vec()),
        ("self::", module.clone()),
    ] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if !before.is_some_and(|before| before.is_alphanumeric() || ":_".contains(before)) {
                tree(&code[at + start.len()..], &base, &mut found);
            }
        }
    }
    for (at, _) in code.match_indices("mod ") {
        let name: String = code[at + 4..]
            .chars()
            .take_while(|&next| in_word(next))
            .collect();
        let child: Module = module.iter().cloned().chain([name.clone()]).collect();
        if code.matches(&format!("{name}::")).count() > 0 {
            found.push(child);
        }
    }
    found
}

fn in_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Reads one tree of imports and gives back what follows it.
fn tree<'a>(code: &'a str, base: &Module, found: &mut Vec<Module>) -> &'a str {
    let code = code.trim_start();
    if let Some(mut rest) = code.strip_prefix('{') {
        loop {
            rest = rest.trim_start();
            if rest.is_empty() {
                return rest;
            }
            if let Some(after) = rest.strip_prefix('}') {
                return after;
            }
            rest = match rest.strip_prefix(',') {
                Some(after) => after,
                None => tree(rest, base, found),
            };
        }
    }
    let end = code.find(|next| !in_word(next)).unwrap_or(code.len());
    let (name, rest) = code.split_at(end);
    if name.is_empty() {
        // Something that is no path, such as a glob: passed over.
        return rest
            .get(rest.chars().next().map_or(0, char::len_utf8)..)
            .unwrap_or_default();
    }
    let mut path = base.clone();
    match name {
        "super" => drop(path.pop()),
        "self" => {}
        name => path.push(name.to_owned()),
    }
    match rest.strip_prefix("::") {
        Some(rest) => tree(rest, &path, found),
        None => {
            found.push(path);
            rest
        }
    }
}
