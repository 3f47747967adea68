//! A sweep in its folder: interrupted, continued, and told the same way twice.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use lab::NEVER;
use loadgen::baseline::Baseline;
use sweep::{Folder, FolderError, PartialPlan, Plan, SweepSession, VirtualRun, publish};

const PLAN: &str = r#"
levels = [6, 12]
modes = "round-robin,kv"
repeats = 2
warmup = "5s"
window = "30s"
"#;

fn plan(more: &str) -> Plan {
    let partial = PartialPlan::parse(&format!("{PLAN}{more}")).unwrap();
    partial.resolve(true).unwrap()
}

fn run(folder: &Folder, threads: usize, stop: &AtomicBool) -> usize {
    let run = VirtualRun {
        folder,
        threads: Some(threads),
        search: false,
        stop,
    };
    run.run().unwrap()
}

/// All files by name, except when it was run.
fn files(path: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap().path();
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            let name = entry.strip_prefix(path).unwrap().display().to_string();
            if name != "run.json" {
                all.insert(name, fs::read_to_string(&entry).unwrap());
            }
        }
    }
    all
}

#[test]
fn two_people_with_one_seed_get_the_same_files() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut told = Vec::new();
    for (place, threads) in [(&one, 1), (&two, 2)] {
        let folder = Folder::open(place.path(), plan("")).unwrap();
        assert_eq!(run(&folder, threads, &NEVER), 8);
        publish(&folder, None, threads).unwrap();
        told.push(files(place.path()));
    }
    let names: Vec<&String> = told[0].keys().collect();
    for expected in [
        "baseline.json",
        "cells.csv",
        "cells/0006-kv-r1.json",
        "cells/0012-round-robin-r2.jsonl",
        "exports/averaged-baseline.json",
        "exports/sweep.tsv",
        "plan.json",
        "report.html",
        "report.md",
        "summary.json",
    ] {
        assert!(
            names.iter().any(|name| *name == expected),
            "{expected}: {names:?}"
        );
    }
    for (name, text) in &told[0] {
        assert!(told[1][name] == *text, "{name} differs");
    }
}

#[test]
fn what_was_interrupted_goes_on_and_ends_the_same() {
    let (whole, broken) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = Folder::open(whole.path(), plan("")).unwrap();
    run(&folder, 2, &NEVER);
    publish(&folder, None, 2).unwrap();

    let folder = Folder::open(broken.path(), plan("")).unwrap();
    let first = folder.left().len();
    // As a process that is killed leaves it: some cells, one of them without its page.
    run(&folder, 1, &NEVER);
    let cells = folder.cells();
    for name in ["0006-kv-r2", "0012-kv-r1", "0012-round-robin-r1"] {
        fs::remove_file(cells.join(format!("{name}.json"))).unwrap();
    }
    let half = cells.join("0012-kv-r1.jsonl");
    let text = fs::read_to_string(&half).unwrap();
    fs::write(&half, &text[..text.len() / 2]).unwrap();
    fs::remove_file(cells.join("0006-kv-r2.jsonl")).unwrap();

    // What is there can be told.
    let partial = publish(&folder, None, 1).unwrap();
    assert_eq!((partial.done, partial.planned), (5, 8));
    assert!(
        fs::read_to_string(broken.path().join("report.md"))
            .unwrap()
            .contains("5 of 8")
    );

    let folder = Folder::open(broken.path(), plan("")).unwrap();
    assert_eq!((first, folder.left().len()), (8, 3));
    assert_eq!(run(&folder, 2, &NEVER), 3);
    assert_eq!(run(&folder, 2, &NEVER), 0, "nothing is run twice");
    let complete = publish(&folder, None, 2).unwrap();
    assert_eq!((complete.done, complete.planned), (8, 8));
    assert!(files(whole.path()) == files(broken.path()));
}

#[test]
fn a_sweep_that_is_stopped_begins_nothing_more() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::open(place.path(), plan("")).unwrap();
    assert_eq!(run(&folder, 2, &AtomicBool::new(true)), 0);
    let summary = publish(&folder, None, 1).unwrap();
    assert_eq!((summary.done, summary.cells.len()), (0, 0));
}

#[test]
fn another_plan_is_refused_in_the_same_folder() {
    let place = tempfile::tempdir().unwrap();
    Folder::open(place.path(), plan("")).unwrap();
    for (more, expected) in [("seed = 9", "seed"), ("slo = \"ttft_p95=1s\"", "slo")] {
        let error = Folder::open(place.path(), plan(more)).unwrap_err();
        let FolderError::OtherPlan { field, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(field, expected);
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let error = Folder::read(elsewhere.path()).unwrap_err().to_string();
    assert!(error.contains("does not hold a sweep"), "{error}");
}

#[test]
fn the_baseline_is_dated_and_the_rest_is_not() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::open(place.path(), plan("")).unwrap();
    let completed = run(&folder, 2, &NEVER);
    folder
        .log(SweepSession {
            version: "1".to_owned(),
            begun_ms: 1,
            ended_ms: 1_700_000_000_000,
            completed,
        })
        .unwrap();
    let summary = publish(&folder, None, 2).unwrap();
    let text = fs::read_to_string(place.path().join("baseline.json")).unwrap();
    let baseline = Baseline::parse(&text).unwrap();
    assert_eq!(baseline.created_ms, 1_700_000_000_000);
    assert_eq!(baseline.run_id, summary.run_id);
    assert!(baseline.run_id.starts_with("virtual-"));
    let again = Folder::read(place.path()).unwrap();
    assert_eq!(again.plan(), folder.plan());
    for name in [
        "report.md",
        "summary.json",
        "exports/averaged-baseline.json",
    ] {
        let text = fs::read_to_string(place.path().join(name)).unwrap();
        assert!(
            !text.contains("1700000000") && !text.contains("2023-11"),
            "{name}"
        );
    }
}

#[test]
fn the_original_formats_have_their_columns() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::open(place.path(), plan("")).unwrap();
    run(&folder, 2, &NEVER);
    publish(&folder, None, 2).unwrap();
    let tsv = fs::read_to_string(place.path().join("exports/sweep.tsv")).unwrap();
    let lines: Vec<Vec<&str>> = tsv.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(
        lines[0][..4],
        ["mode", "concurrency", "rps", "ttft_p50_sec"]
    );
    assert_eq!((lines.len(), lines[0].len()), (5, 17));
    assert!(lines.iter().all(|line| line.len() == 17));
    assert_eq!(lines[1][0], "round_robin");
    let text = fs::read_to_string(place.path().join("exports/averaged-baseline.json")).unwrap();
    let averaged: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(averaged["type"], "averaged_baseline");
    let levels = averaged["levels"].as_array().unwrap();
    assert_eq!(levels.len(), 2);
    for level in levels {
        for mode in ["round_robin", "kv_aware"] {
            assert!(level[mode]["ttft_p95_ms"].as_f64() > Some(0.0), "{level}");
        }
    }
}

#[test]
fn few_runs_are_called_not_enough_in_every_file() {
    let told = |more: &str| {
        let place = tempfile::tempdir().unwrap();
        let partial = PartialPlan::parse(&PLAN.replace("repeats = 2", more)).unwrap();
        let folder = Folder::open(place.path(), partial.resolve(true).unwrap()).unwrap();
        run(&folder, 2, &NEVER);
        let summary = publish(&folder, None, 2).unwrap();
        (summary, files(place.path()))
    };
    let (few, files_of_few) = told("repeats = 5");
    let (enough, files_of_enough) = told("repeats = 6");
    for (name, phrase) in [
        ("report.md", "not enough runs"),
        ("report.html", "not enough runs"),
        ("cells.csv", "not enough runs"),
        ("summary.json", "not-enough-runs"),
    ] {
        assert!(files_of_few[name].contains(phrase), "{name}");
        assert!(!files_of_enough[name].contains(phrase), "{name}");
    }
    let csv = &files_of_enough["cells.csv"];
    let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert!(columns.iter().all(|&count| count == columns[0]), "{csv}");
    assert!(
        few.certainty().starts_with("Not enough runs to say"),
        "{}",
        few.certainty()
    );
    let told = enough.certainty();
    assert!(told.starts_with("Of 30 differences "), "{told}");
    assert!(
        few.cells
            .iter()
            .all(|cell| cell.intervals.is_empty() && cell.verdicts.is_empty())
    );
    // The first mode is compared with nothing.
    let judged: Vec<bool> = enough
        .cells
        .iter()
        .map(|cell| !cell.verdicts.is_empty())
        .collect();
    assert_eq!(judged, [false, true, false, true]);
    let baseline = Baseline::parse(&files_of_enough["baseline.json"]).unwrap();
    let verdict = &baseline.levels[0].cells[1].verdicts["ttft_ms_p95"];
    assert!(["better", "worse", "not-significant"].contains(&verdict.as_str()));
    assert!(
        Baseline::parse(&files_of_few["baseline.json"])
            .unwrap()
            .levels[0]
            .cells[1]
            .verdicts
            .is_empty()
    );
}
