//! Reference lines: how high they are, where that comes from, and how a dashboard takes them.
//!
//! A dashboard has nine constants, the p95 of TTFT, TPOT and ITL without optimisation, with one and
//! with two, in seconds. Each is shipped as `NaN`, which draws nothing. It may be a number, or an
//! expression of Prometheus that gives one: so lines follow the load, as high as its level made
//! them. Pure: a baseline and texts in, lines and texts out.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use loadgen::baseline::{Baseline, BaselineCell, BaselineFigures, BaselineLevel};
use preprocess::template::strftime;
use serde_json::Value;

#[cfg(test)]
mod tests;

/// The level of the load, for Prometheus.
const LEVEL: &str = "scalar(max(loadgen_target_conversations))";

/// Lines by the beginning of their constants' names, what they are called, and which modes they
/// show, the best known first.
const LINES: [(&str, &str, &[&str]); 3] = [
    ("baseline", "baseline", &["round-robin"]),
    ("single", "one optimisation", &["kv", "kv-blocks"]),
    ("double", "two optimisations", &["kv+draft", "kv+eagle3"]),
];

type FiguresOf = fn(&BaselineCell) -> &BaselineFigures;

/// Figures by the middle of their constants' names.
const FIGURES: [(&str, FiguresOf); 3] = [
    ("ttft", |cell| &cell.ttft_ms),
    ("tpot", |cell| &cell.tpot_ms),
    ("itl", |cell| &cell.itl_ms),
];

/// Which of a baseline's cells the lines are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// By default all: a line is then drawn while the load has one of them.
    pub(crate) level: Option<u32>,
    /// By default the first of [`LINES`] that is there.
    pub(crate) modes: [Option<String>; 3],
}

/// Heights for all lines, and where they come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lines {
    run_id: String,
    created_ms: u64,
    simulated: bool,
    /// The only one, if one was chosen.
    level: Option<u32>,
    /// In the order of [`LINES`]; `None` if the file has no such mode.
    lines: [Option<Line>; 3],
}

/// A mode at the levels where it was measured.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    mode: String,
    /// A level, and the p95 there in seconds in the order of [`FIGURES`]; `None` draws no line.
    heights: Vec<(u32, [Option<f64>; 3])>,
}

/// Levels with the seconds of a constant there.
type HeightsByLevel = Vec<(u32, f64)>;

impl Lines {
    /// Refuses a level or a mode that the baseline does not have, and names those it has.
    pub(crate) fn choose(baseline: &Baseline, choice: &Choice) -> anyhow::Result<Self> {
        let levels = chosen_levels(baseline, choice.level)?;
        let mut lines = [None, None, None];
        for (index, (name, _, usual)) in LINES.into_iter().enumerate() {
            let named = choice.modes[index].as_deref();
            let usual = usual.iter().find_map(|mode| Line::of(mode, &levels));
            lines[index] = match named {
                Some(mode) => Some(Line::of(mode, &levels).with_context(|| lacks(mode, &levels))?),
                None => usual,
            };
            if lines[index].is_none() && name == "baseline" {
                bail!(lacks("round-robin", &levels));
            }
        }
        Ok(Self {
            run_id: baseline.run_id.clone(),
            created_ms: baseline.created_ms,
            simulated: baseline.simulated,
            level: choice.level,
            lines,
        })
    }

    /// Every constant with its value, in the order of the panels.
    fn constants(&self) -> Vec<(String, String)> {
        let constants = self.heights().into_iter().map(|(name, heights)| {
            let value = match (&heights[..], self.level) {
                ([], _) => "NaN".to_owned(),
                ([(_, seconds), ..], Some(_)) => seconds.to_string(),
                (heights, None) => {
                    let terms = heights
                        .iter()
                        .map(|(level, seconds)| format!("{seconds} * ({LEVEL} == bool {level})"));
                    terms.collect::<Vec<String>>().join(" + ")
                }
            };
            (name, value)
        });
        constants.collect()
    }

    /// Every constant's name, with its height in seconds at each level that has one.
    fn heights(&self) -> Vec<(String, HeightsByLevel)> {
        let mut named = Vec::new();
        for ((line, ..), found) in LINES.iter().zip(&self.lines) {
            for (index, (figure, _)) in FIGURES.iter().enumerate() {
                let heights = found.iter().flat_map(|line| &line.heights);
                let heights = heights.filter_map(|(level, p95)| Some((*level, p95[index]?)));
                named.push((format!("{line}_{figure}_p95"), heights.collect()));
            }
        }
        named
    }

    /// Where the lines come from, in one sentence.
    pub(crate) fn origin(&self) -> String {
        let created = UNIX_EPOCH + Duration::from_millis(self.created_ms);
        let found = LINES.iter().zip(&self.lines);
        let modes = found.filter_map(|((_, words, _), line)| Some((words, line.as_ref()?)));
        let modes = modes.map(|(words, line)| format!("{words}: {}", line.mode));
        format!(
            "Reference lines ({}) {}, from run {} of {}, {}.",
            modes.collect::<Vec<String>>().join(", "),
            match self.level {
                Some(level) => format!("at {level} conversations"),
                None => "at the level of the load, where the file has it".to_owned(),
            },
            self.run_id,
            strftime("%F", created),
            if self.simulated {
                "simulated"
            } else {
                "measured"
            },
        )
    }
}

impl Line {
    fn of(mode: &str, levels: &[&BaselineLevel]) -> Option<Self> {
        // To the microsecond: more would be noise of the division.
        let seconds = |ms: f64| (ms * 1e3).round() / 1e6;
        let heights = levels.iter().filter_map(|level| {
            let cell = level.cells.iter().find(|cell| cell.mode == mode)?;
            let p95 = FIGURES.map(|(_, figures)| figures(cell).p95.map(seconds));
            Some((level.concurrency, p95))
        });
        let heights: Vec<_> = heights.collect();
        (!heights.is_empty()).then(|| Self {
            mode: mode.to_owned(),
            heights,
        })
    }
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin())?;
        for (name, heights) in self.heights() {
            let heights = heights.iter();
            let heights = heights.map(|(level, seconds)| match self.level {
                Some(_) => format!("{seconds} s"),
                None => format!("{seconds} s at {level}"),
            });
            let heights = heights.collect::<Vec<String>>().join(", ");
            match heights.as_str() {
                "" => write!(f, "\n  {name:<18} no line: no figure in the file")?,
                heights => write!(f, "\n  {name:<18} {heights}")?,
            }
        }
        Ok(())
    }
}

fn chosen_levels(baseline: &Baseline, wanted: Option<u32>) -> anyhow::Result<Vec<&BaselineLevel>> {
    let all: Vec<&BaselineLevel> = baseline.levels.iter().collect();
    if all.is_empty() {
        bail!("`levels` is empty");
    }
    let Some(wanted) = wanted else {
        return Ok(all);
    };
    match all.iter().find(|level| level.concurrency == wanted) {
        Some(level) => Ok(vec![level]),
        None => {
            let known = all.iter().map(|level| level.concurrency.to_string());
            let known: Vec<String> = known.collect();
            bail!("no level {wanted}; available: {}", known.join(", "))
        }
    }
}

/// What to say where a mode is in none of them.
fn lacks(mode: &str, levels: &[&BaselineLevel]) -> String {
    let place = match levels {
        [one] => format!("at {} conversations", one.concurrency),
        _ => "at any level".to_owned(),
    };
    let mut modes: Vec<&str> = Vec::new();
    for cell in levels.iter().flat_map(|level| &level.cells) {
        if !modes.contains(&cell.mode.as_str()) {
            modes.push(&cell.mode);
        }
    }
    format!("no mode {mode} {place}; available: {}", modes.join(", "))
}

/// The dashboard with its constants set and its description saying where they come from. All of
/// them have to be there; nothing else changes but the order of keys.
pub(crate) fn fill(dashboard: &str, lines: &Lines) -> anyhow::Result<String> {
    let mut json: Value =
        serde_json::from_str(dashboard).context("the dashboard is not valid JSON")?;
    let variables = json.pointer_mut("/templating/list");
    let variables = variables.and_then(Value::as_array_mut);
    let variables = variables.context("the dashboard has no variables")?;
    for (name, value) in lines.constants() {
        let mut same = variables
            .iter_mut()
            .filter(|variable| variable["name"] == name);
        let variable = same.next();
        let variable = variable.with_context(|| format!("the dashboard has no variable {name}"))?;
        set(variable, &value);
    }
    let description = json["description"].as_str().unwrap_or_default();
    let described = format!("{description} {}", lines.origin());
    json["description"] = described.trim_start().into();
    Ok(serde_json::to_string_pretty(&json)? + "\n")
}

/// Sets a constant. Where the file also says what is chosen, it chooses the same.
fn set(variable: &mut Value, value: &str) {
    let options = variable.get_mut("options").and_then(Value::as_array_mut);
    for option in options.into_iter().flatten() {
        choose(option, value);
    }
    if let Some(current) = variable.get_mut("current") {
        choose(current, value);
    }
    variable["query"] = value.into();
}

fn choose(option: &mut Value, value: &str) {
    option["text"] = value.into();
    option["value"] = value.into();
}
