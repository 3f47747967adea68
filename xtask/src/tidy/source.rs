//! How a source file has to look, whatever it is about.

use super::Problem;
use crate::repository::File;

const LONGEST_FILE_LINES: usize = 500;
const LARGEST_FILE_BYTES: u64 = 1 << 20;

/// Spelled in halves, because this file is checked as well.
const UNFINISHED: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("to", "do!("),
];

const SOURCE_EXTENSIONS: [&str; 11] = [
    "rs", "toml", "py", "ts", "tsx", "js", "css", "html", "sh", "yml", "yaml",
];

/// What editors, merges and careful people leave behind.
const LEFTOVER_EXTENSIONS: [&str; 4] = ["old", "orig", "rej", "bak"];

/// Where the environment may be read: configuration is resolved in one place.
const ENVIRONMENT_READERS: [&str; 2] = ["crates/homing/", "xtask/"];

fn rust(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| file.has_extension(&["rs"]))
}

pub(super) fn check_headers(files: &[File]) -> Vec<Problem> {
    rust(files)
        .filter(|file| !file.text.as_deref().unwrap_or_default().starts_with("//!"))
        .map(|file| Problem::new(&file.path, 1, "start with a `//!` header: why this shape"))
        .collect()
}

pub(super) fn check_length(files: &[File]) -> Vec<Problem> {
    rust(files)
        .filter(|file| !is_test(&file.path))
        .filter_map(|file| {
            let lines = production_lines(file.text.as_deref()?);
            (lines > LONGEST_FILE_LINES).then(|| {
                let advice =
                    format!("split: {lines} production lines, at most {LONGEST_FILE_LINES}");
                Problem::new(&file.path, LONGEST_FILE_LINES + 1, advice)
            })
        })
        .collect()
}

pub(super) fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/") || path.starts_with("tests/")
}

/// Lines before the inline tests, or all when the tests are in a file of their own.
pub(super) fn production_lines(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let inline_tests = lines.windows(2).position(|pair| {
        let module = pair[1].trim_start();
        pair[0].trim() == "#[cfg(test)]" && module.starts_with("mod ") && module.ends_with('{')
    });
    inline_tests.unwrap_or(lines.len())
}

pub(super) fn check_names(files: &[File]) -> Vec<Problem> {
    let leftovers = files
        .iter()
        .filter(|file| file.has_extension(&LEFTOVER_EXTENSIONS))
        .map(|file| Problem::new(&file.path, 1, "delete: git remembers what was replaced"));
    let modules = rust(files)
        .filter(|file| file.path.ends_with("/mod.rs"))
        .map(|file| Problem::new(&file.path, 1, "name it after its folder, beside the folder"));
    leftovers.chain(modules).collect()
}

pub(super) fn check_size(files: &[File]) -> Vec<Problem> {
    files
        .iter()
        .filter(|file| file.bytes > LARGEST_FILE_BYTES)
        .map(|file| {
            let advice = format!("{} bytes: generate, download or split it", file.bytes);
            Problem::new(&file.path, 1, advice)
        })
        .collect()
}

pub(super) fn check_unfinished(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files
        .iter()
        .filter(|file| file.has_extension(&SOURCE_EXTENSIONS))
    {
        for (number, line) in file.lines() {
            for mark in UNFINISHED.into_iter().filter(|mark| has_word(line, mark)) {
                let advice = format!("`{mark}`: do it, or open an issue and delete the mark");
                problems.push(Problem::new(&file.path, number, advice));
            }
        }
    }
    problems
}

/// Whether `word` occurs and is not merely part of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    let in_word = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(at, _)| {
        let after = &line[at + word.len()..];
        let ends = !word.ends_with(in_word) || !after.starts_with(in_word);
        ends && !line[..at].ends_with(in_word)
    })
}

pub(super) fn check_environment(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in rust(files) {
        // Cargo speaks to build scripts through the environment only.
        let mut readers = ENVIRONMENT_READERS.iter();
        if readers.any(|reader| file.path.starts_with(reader)) || file.path.ends_with("/build.rs") {
            continue;
        }
        for (number, line) in file.lines() {
            if line.contains("env::var") && !line.trim_start().starts_with("//") {
                let advice = "take it as configuration: only `homing` reads the environment";
                problems.push(Problem::new(&file.path, number, advice));
            }
        }
    }
    problems
}
