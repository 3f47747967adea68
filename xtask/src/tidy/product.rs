//! Things that must agree with each other: generated pages, dashboards, the corpus.

use telemetry::catalog;
use telemetry::{Kind, Metric};

use super::Problem;
use crate::codegen::PAGES;
use crate::repository::File;

/// A conversation starts from an article; fewer would make conversations look alike.
const FEWEST_ARTICLES: usize = 40;

/// A word in a dashboard that starts like this is taken for the name of a metric.
const METRIC_PREFIXES: [&str; 5] = ["dynamo_", "homing_", "trtllm_", "loadgen_", "DCGM_"];

pub(super) fn check_generated(files: &[File]) -> Vec<Problem> {
    PAGES
        .iter()
        .filter_map(|page| {
            let found = files.iter().find(|file| file.path == page.path);
            let found = found.and_then(|file| file.text.as_deref());
            let found = found.unwrap_or_default();
            let fresh = (page.fresh)(found);
            let advice = "out of date: run `cargo xtask codegen`";
            (found != fresh).then(|| Problem::new(page.path, first_change(found, &fresh), advice))
        })
        .collect()
}

/// The first line, from 1, in which two texts differ.
fn first_change(old: &str, new: &str) -> usize {
    let same = old.lines().zip(new.lines());
    same.take_while(|(old, new)| old == new).count() + 1
}

pub(super) fn check_dashboards(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files
        .iter()
        .filter(|file| file.path.starts_with("dashboards/"))
    {
        for (number, line) in file.lines() {
            for word in metric_words(line).filter(|word| !is_known(word)) {
                let advice = format!("`{word}` is not in crates/base/telemetry/src/catalog");
                problems.push(Problem::new(&file.path, number, advice));
            }
        }
    }
    problems
}

/// The words of a line that look like metric names. A name with a colon is a recording
/// rule's, defined beside the dashboards and not by any stage.
fn metric_words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|character: char| !(character.is_ascii_alphanumeric() || "_:".contains(character)))
        .filter(|word| !word.trim_end_matches(':').contains(':'))
        .map(|word| word.trim_end_matches(':'))
        .filter(|word| {
            METRIC_PREFIXES
                .iter()
                .any(|prefix| word.starts_with(prefix))
        })
}

/// Whether `word` is a series of the catalogue, or a label that only looks like one.
fn is_known(word: &str) -> bool {
    catalog::all()
        .iter()
        .any(|metric| is_series_of(word, metric) || metric.labels.contains(&word))
}

fn is_series_of(word: &str, metric: &Metric) -> bool {
    let Some(suffix) = word.strip_prefix(metric.name) else {
        return false;
    };
    match metric.kind {
        Kind::Counter | Kind::Gauge | Kind::Untyped => suffix.is_empty(),
        Kind::Histogram => ["_bucket", "_sum", "_count"].contains(&suffix),
        Kind::Summary => ["", "_sum", "_count"].contains(&suffix),
    }
}

pub(super) fn check_corpus(files: &[File]) -> Vec<Problem> {
    let articles = files
        .iter()
        .filter(|file| file.path.starts_with("corpus/") && file.has_extension(&["md"]))
        .filter(|file| file.path != "corpus/README.md")
        .count();
    if articles >= FEWEST_ARTICLES {
        return Vec::new();
    }
    let advice = format!("{articles} articles; write at least {FEWEST_ARTICLES}");
    vec![Problem::new("corpus", 1, advice)]
}
