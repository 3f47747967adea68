//! Dashboards and Prometheus files: whether people can trust them.
//!
//! No Grafana can be run here, so everything short of drawing is checked instead: our own
//! rules, Grafana's published types, promtool, and every query against a Prometheus that
//! watches a loaded demo. The last of these is what finds a renamed metric.

mod board;
mod lint;
mod live;
mod prometheus;
mod query;
mod walkthrough;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};

use self::board::Board;
use super::{execute, npm};
use crate::repository;

const BOARDS: [&str; 2] = ["gtc-demo", "homing-router"];
const GRAFANA: &str = "dashboards/grafana";
const PROMETHEUS: &str = "dashboards/prometheus";
const TYPES: &str = "dashboards/check";

pub(super) fn check() -> anyhow::Result<()> {
    let boards = read_boards()?;
    let problems: Vec<String> = boards.iter().flat_map(problems).collect();
    for problem in &problems {
        println!("{problem}");
    }
    ensure!(problems.is_empty(), "{} problem(s)", problems.len());
    let queries: usize = boards.iter().map(|board| board.targets().count()).sum();
    println!("{} dashboards, {queries} queries: no problem", boards.len());
    promtool()?;
    npm::install(TYPES)?;
    execute(&mut npm::command(TYPES, &["run", "check"]))?;
    live::check(&boards)
}

/// Reads exactly the dashboards that are listed: one more in the folder is not checked, and
/// that is a fault.
fn read_boards() -> anyhow::Result<Vec<Board>> {
    let folder = repository::root().join(GRAFANA);
    let mut found = Vec::new();
    for entry in folder.read_dir().context(GRAFANA)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            found.extend(
                path.file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned()),
            );
        }
    }
    found.sort();
    ensure!(found == BOARDS, "{GRAFANA} holds {found:?}, not {BOARDS:?}");
    BOARDS
        .iter()
        .map(|name| {
            let path = folder.join(format!("{name}.json"));
            let text = std::fs::read_to_string(&path).with_context(|| (*name).to_owned())?;
            Board::parse(name, &text)
        })
        .collect()
}

fn problems(board: &Board) -> Vec<String> {
    [lint::problems, query::problems, walkthrough::problems]
        .iter()
        .flat_map(|rules| rules(board))
        .map(|problem| format!("{}: {problem}", board.name))
        .collect()
}

fn promtool() -> anyhow::Result<()> {
    let folder = repository::root().join(PROMETHEUS);
    let promtool =
        |words: [&str; 2], file: PathBuf| execute(Command::new("promtool").args(words).arg(file));
    promtool(["check", "config"], folder.join("demo.yml"))?;
    for rules in ["recording.yml", "alerts.yml"] {
        promtool(["check", "rules"], folder.join("rules").join(rules))?;
    }
    promtool(["test", "rules"], folder.join("rules/tests.yml"))
}
