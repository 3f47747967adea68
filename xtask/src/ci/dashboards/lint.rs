//! What a dashboard has to be, apart from its queries.
//!
//! Grafana accepts nearly any JSON and drops what it does not understand, so a slip shows
//! as an empty panel on somebody's wall. Each rule is a pure function from a dashboard to
//! problems; all of them run.

use std::collections::BTreeSet;

use serde_json::Value;

use super::board::{Board, is_row, list, place, text, variables_in};

const RULES: [fn(&Board) -> Vec<String>; 9] = [
    identity,
    datasources,
    words,
    units,
    targets,
    numbers,
    positions,
    rows,
    keys,
];

/// Names of Grafana's units that our panels use. Another is added here after a look at
/// Grafana's own list: a wrong name is printed behind the number as it is.
const UNITS: [&str; 7] = [
    "none",
    "ops",
    "percent",
    "percentunit",
    "reqps",
    "s",
    "short",
];

/// Grafana's grid is this wide.
const COLUMNS: u64 = 24;

const ROW_KEYS: [&str; 6] = ["collapsed", "gridPos", "id", "panels", "title", "type"];
const PANEL_KEYS: [&str; 9] = [
    "datasource",
    "description",
    "fieldConfig",
    "gridPos",
    "id",
    "options",
    "targets",
    "title",
    "type",
];

/// Variables that Grafana itself provides.
const BUILT_IN: [&str; 2] = ["__rate_interval", "__range"];

pub(super) fn problems(board: &Board) -> Vec<String> {
    RULES
        .iter()
        .flat_map(|rule| rule(board))
        .chain(variables(board))
        .chain(overrides(board))
        .collect()
}

/// The file is named after the address that people bookmark.
fn identity(board: &Board) -> Vec<String> {
    let mut problems = Vec::new();
    if board.json["uid"] != board.name.as_str() {
        problems.push(format!("uid is {}, not the file's name", board.json["uid"]));
    }
    if text(&board.json["title"]).is_empty() {
        problems.push("no title".to_owned());
    }
    if board.json["schemaVersion"] != 39 {
        problems.push("schemaVersion is not 39, which Grafana 10 and later read".to_owned());
    }
    problems
}

/// The user who imports a dashboard chooses its data source.
fn datasources(board: &Board) -> Vec<String> {
    let mut problems = Vec::new();
    let chosen = |variable: &Value| {
        variable["name"] == "datasource"
            && variable["type"] == "datasource"
            && variable["query"] == "prometheus"
    };
    if !board.variables().any(chosen) {
        problems.push("no variable `datasource` of type datasource for prometheus".to_owned());
    }
    let templated = |value: &Value| {
        value["datasource"]["type"] == "prometheus" && value["datasource"]["uid"] == "${datasource}"
    };
    let panels = board.charts().filter(|panel| !templated(panel)).map(place);
    let targets = board
        .targets()
        .filter(|target| !templated(target.json))
        .map(|target| target.place());
    let variables = board
        .variables()
        .filter(|variable| variable["type"] == "query" && !templated(variable))
        .map(|variable| format!("variable {}", variable["name"]));
    let places = panels.chain(targets).chain(variables);
    problems.extend(places.map(|place| format!("{place}: datasource is not ${{datasource}}")));
    problems
}

fn words(board: &Board) -> Vec<String> {
    let mut problems = Vec::new();
    for panel in board.panels() {
        if text(&panel["title"]).trim().is_empty() {
            problems.push(format!("{}: no title", place(panel)));
        }
        if !is_row(panel) && text(&panel["description"]).trim().is_empty() {
            problems.push(format!("{}: no description", place(panel)));
        }
    }
    problems
}

fn units(board: &Board) -> Vec<String> {
    let overridden = |panel: &Value| -> Vec<Value> {
        list(&panel["fieldConfig"]["overrides"])
            .flat_map(|rule| list(&rule["properties"]))
            .filter(|property| property["id"] == "unit")
            .map(|property| property["value"].clone())
            .collect()
    };
    let mut problems = Vec::new();
    for panel in board.charts() {
        let mut units = overridden(panel);
        units.push(panel["fieldConfig"]["defaults"]["unit"].clone());
        for unit in units.iter().filter(|unit| !UNITS.contains(&text(unit))) {
            problems.push(format!("{}: unit {unit} is not known", place(panel)));
        }
    }
    problems
}

fn targets(board: &Board) -> Vec<String> {
    let mut problems = Vec::new();
    for panel in board.charts() {
        let names: Vec<&str> = list(&panel["targets"]).map(|t| text(&t["refId"])).collect();
        if names.is_empty() {
            problems.push(format!("{}: no target", place(panel)));
        }
        let distinct: BTreeSet<&&str> = names.iter().collect();
        if distinct.len() != names.len() || names.contains(&"") {
            problems.push(format!("{}: refIds are not distinct names", place(panel)));
        }
    }
    problems
}

fn numbers(board: &Board) -> Vec<String> {
    let mut seen = BTreeSet::new();
    board
        .panels()
        .into_iter()
        .filter(|panel| !panel["id"].as_u64().is_some_and(|id| seen.insert(id)))
        .map(|panel| format!("{}: id is missing or taken", place(panel)))
        .collect()
}

/// Panels that share a place push each other down in an order that nobody chose.
fn positions(board: &Board) -> Vec<String> {
    let folded = list(&board.json["panels"]).map(|row| &row["panels"]);
    std::iter::once(&board.json["panels"])
        .chain(folded)
        .flat_map(|group| misplaced(list(group)))
        .collect()
}

fn misplaced<'a>(panels: impl Iterator<Item = &'a Value>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut placed: Vec<(&Value, Rectangle)> = Vec::new();
    for panel in panels {
        let Some(rectangle) = Rectangle::of(panel) else {
            problems.push(format!("{}: gridPos is not inside the grid", place(panel)));
            continue;
        };
        for (other, taken) in &placed {
            if rectangle.meets(taken) {
                problems.push(format!("{}: lies on {}", place(panel), place(other)));
            }
        }
        placed.push((panel, rectangle));
    }
    problems
}

struct Rectangle {
    x: u64,
    y: u64,
    w: u64,
    h: u64,
}

impl Rectangle {
    fn of(panel: &Value) -> Option<Self> {
        let side = |name: &str| panel["gridPos"][name].as_u64();
        let [x, y, w, h] = [side("x")?, side("y")?, side("w")?, side("h")?];
        (w > 0 && h > 0 && x + w <= COLUMNS).then_some(Self { x, y, w, h })
    }

    fn meets(&self, other: &Self) -> bool {
        self.x < other.x + other.w
            && other.x < self.x + self.w
            && self.y < other.y + other.h
            && other.y < self.y + self.h
    }
}

/// A collapsed row holds its panels; an open one is followed by them and holds none.
fn rows(board: &Board) -> Vec<String> {
    let top: Vec<&Value> = list(&board.json["panels"]).collect();
    let mut problems = Vec::new();
    for (at, row) in top.iter().enumerate().filter(|(_, panel)| is_row(panel)) {
        let held = list(&row["panels"]).count();
        let followed = top.get(at + 1).is_some_and(|next| !is_row(next));
        let fault = match row["collapsed"].as_bool() {
            None => "does not say whether it is collapsed",
            Some(true) if held == 0 => "is collapsed and holds no panel",
            Some(true) if followed => "is collapsed, but panels follow outside of it",
            Some(false) if held > 0 => "is open, so its panels must follow it",
            Some(false) if !followed => "is open and has no panel",
            Some(_) => continue,
        };
        problems.push(format!("{}: {fault}", place(row)));
    }
    problems
}

fn keys(board: &Board) -> Vec<String> {
    let mut problems = Vec::new();
    for panel in board.panels() {
        let known: &[&str] = if is_row(panel) {
            &ROW_KEYS
        } else {
            &PANEL_KEYS
        };
        let found: Vec<&str> = panel
            .as_object()
            .map(|object| object.keys().map(String::as_str).collect())
            .unwrap_or_default();
        for key in found.iter().filter(|key| !known.contains(key)) {
            problems.push(format!("{}: key `{key}` is not known", place(panel)));
        }
        for key in known.iter().filter(|key| !found.contains(key)) {
            problems.push(format!("{}: key `{key}` is missing", place(panel)));
        }
    }
    problems
}

/// Every variable in use is defined, and every one defined is in use.
fn variables(board: &Board) -> Vec<String> {
    let everything = board.json.to_string();
    let used: BTreeSet<&str> = variables_in(&everything).into_iter().collect();
    let mut problems = Vec::new();
    // `$__all` is a value of Grafana's, not a variable.
    let own = |name: &&&str| !BUILT_IN.contains(*name) && **name != "__all";
    for name in used.iter().filter(own) {
        if !board.has_variable(name) {
            problems.push(format!("variable `{name}` is not defined"));
        }
    }
    for variable in board.variables() {
        let name = text(&variable["name"]);
        if !used.contains(name) {
            problems.push(format!("variable `{name}` is not used"));
        }
    }
    problems
}

/// A rule for a series that does not exist colours nothing.
fn overrides(board: &Board) -> Vec<String> {
    let mut problems = Vec::new();
    for panel in board.charts() {
        for rule in list(&panel["fieldConfig"]["overrides"]) {
            let key = match text(&rule["matcher"]["id"]) {
                "byName" => "legendFormat",
                "byFrameRefID" => "refId",
                other => {
                    problems.push(format!("{}: matcher `{other}` is not known", place(panel)));
                    continue;
                }
            };
            let wanted = &rule["matcher"]["options"];
            if !list(&panel["targets"]).any(|target| &target[key] == wanted) {
                problems.push(format!("{}: no series {wanted} to override", place(panel)));
            }
        }
    }
    problems
}
