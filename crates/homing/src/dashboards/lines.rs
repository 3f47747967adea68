//! Reference lines: how high they are, where that comes from, and how a dashboard takes them.
//!
//! A dashboard has six constants, the p95 of TTFT, TPOT and ITL without optimisation and with
//! one, in seconds. Each is shipped as `NaN`, which draws nothing. Pure: a baseline and texts
//! in, lines and texts out.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use loadgen::baseline::{Baseline, BaselineCell, BaselineLevel};
use preprocess::template::strftime;
use serde_json::Value;

#[cfg(test)]
mod tests;

/// Modes with one optimisation, the better known first.
const SINGLE_MODES: [&str; 2] = ["kv", "kv-blocks"];

/// Which of a baseline's cells the lines are.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// By default the highest that has the mode without optimisation.
    pub(crate) level: Option<u32>,
    pub(crate) baseline_mode: String,
    /// By default the first of [`SINGLE_MODES`] that is there.
    pub(crate) single_mode: Option<String>,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            level: None,
            baseline_mode: "round-robin".to_owned(),
            single_mode: None,
        }
    }
}

/// Heights for all lines, and where they come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lines {
    run_id: String,
    created_ms: u64,
    simulated: bool,
    level: u32,
    baseline: Heights,
    /// `None` if the file has no mode with one optimisation at that level.
    single: Option<Heights>,
}

/// The p95 of one mode, in seconds; `None` draws no line.
#[derive(Clone, Debug, PartialEq)]
struct Heights {
    mode: String,
    ttft: Option<f64>,
    tpot: Option<f64>,
    itl: Option<f64>,
}

impl Lines {
    /// Refuses a level or a mode that the baseline does not have, and names those it has.
    pub(crate) fn choose(baseline: &Baseline, choice: &Choice) -> anyhow::Result<Self> {
        let level = find_level(baseline, choice)?;
        let named = |mode: &str| {
            cell(level, mode).with_context(|| {
                let (at, modes) = (level.concurrency, modes(level));
                format!("no mode {mode} at {at} conversations; available: {modes}")
            })
        };
        let single = match &choice.single_mode {
            Some(mode) => Some(named(mode)?),
            None => SINGLE_MODES.iter().find_map(|mode| cell(level, mode)),
        };
        Ok(Self {
            run_id: baseline.run_id.clone(),
            created_ms: baseline.created_ms,
            simulated: baseline.simulated,
            level: level.concurrency,
            baseline: Heights::of(named(&choice.baseline_mode)?),
            single: single.map(Heights::of),
        })
    }

    /// Every constant with its value, in the order of the panels.
    fn constants(&self) -> Vec<(String, Option<f64>)> {
        let single = self.single.as_ref();
        let heights = [("baseline", Some(&self.baseline)), ("single", single)];
        let mut constants = Vec::new();
        for (line, heights) in heights {
            let figures: [(&str, Option<f64>); 3] = [
                ("ttft", heights.and_then(|heights| heights.ttft)),
                ("tpot", heights.and_then(|heights| heights.tpot)),
                ("itl", heights.and_then(|heights| heights.itl)),
            ];
            for (figure, seconds) in figures {
                constants.push((format!("{line}_{figure}_p95"), seconds));
            }
        }
        constants
    }

    /// Where the lines come from, in one sentence.
    pub(crate) fn origin(&self) -> String {
        let created = UNIX_EPOCH + Duration::from_millis(self.created_ms);
        let single = match &self.single {
            Some(heights) => format!("one optimisation is {}", heights.mode),
            None => "there is none with one optimisation".to_owned(),
        };
        format!(
            "Reference lines: baseline is {}, {single}, at {} conversations, from run {} of {}, {}.",
            self.baseline.mode,
            self.level,
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

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin())?;
        for (name, seconds) in self.constants() {
            match seconds {
                Some(seconds) => write!(f, "\n  {name:<18} {seconds} s")?,
                None => write!(f, "\n  {name:<18} no line: no figure in the file")?,
            }
        }
        Ok(())
    }
}

impl Heights {
    fn of(cell: &BaselineCell) -> Self {
        // To the microsecond: more would be noise of the division.
        let seconds = |ms: Option<f64>| ms.map(|ms| (ms * 1e3).round() / 1e6);
        Self {
            mode: cell.mode.clone(),
            ttft: seconds(cell.ttft_ms.p95),
            tpot: seconds(cell.tpot_ms.p95),
            itl: seconds(cell.itl_ms.p95),
        }
    }
}

fn find_level<'a>(baseline: &'a Baseline, choice: &Choice) -> anyhow::Result<&'a BaselineLevel> {
    let levels = baseline.levels.iter();
    if let Some(wanted) = choice.level {
        let mut same = levels.filter(|level| level.concurrency == wanted);
        return same.next().with_context(|| {
            let known = baseline.levels.iter();
            let known: Vec<_> = known.map(|level| level.concurrency.to_string()).collect();
            format!("no level {wanted}; available: {}", known.join(", "))
        });
    }
    let mode = &choice.baseline_mode;
    let with_mode = levels.filter(|level| cell(level, mode).is_some());
    match with_mode.max_by_key(|level| level.concurrency) {
        Some(level) => Ok(level),
        None => match baseline.levels.first() {
            Some(level) => bail!("no mode {mode} at any level; available: {}", modes(level)),
            None => bail!("`levels` is empty"),
        },
    }
}

fn cell<'a>(level: &'a BaselineLevel, mode: &str) -> Option<&'a BaselineCell> {
    level.cells.iter().find(|cell| cell.mode == mode)
}

fn modes(level: &BaselineLevel) -> String {
    let modes: Vec<&str> = level.cells.iter().map(|cell| cell.mode.as_str()).collect();
    modes.join(", ")
}

/// The dashboard with its constants set and its description saying where they come from. All
/// six have to be there; nothing else changes but the order of keys.
pub(crate) fn fill(dashboard: &str, lines: &Lines) -> anyhow::Result<String> {
    let mut json: Value =
        serde_json::from_str(dashboard).context("the dashboard is not valid JSON")?;
    let variables = json.pointer_mut("/templating/list");
    let variables = variables.and_then(Value::as_array_mut);
    let variables = variables.context("the dashboard has no variables")?;
    for (name, seconds) in lines.constants() {
        let mut same = variables
            .iter_mut()
            .filter(|variable| variable["name"] == name);
        let variable = same.next();
        let variable = variable.with_context(|| format!("the dashboard has no variable {name}"))?;
        set(variable, seconds);
    }
    let description = json["description"].as_str().unwrap_or_default();
    let described = format!("{description} {}", lines.origin());
    json["description"] = described.trim_start().into();
    Ok(serde_json::to_string_pretty(&json)? + "\n")
}

/// Sets a constant. Where the file also says what is chosen, it chooses the same.
fn set(variable: &mut Value, seconds: Option<f64>) {
    let value = seconds.map_or_else(|| "NaN".to_owned(), |seconds| seconds.to_string());
    let options = variable.get_mut("options").and_then(Value::as_array_mut);
    for option in options.into_iter().flatten() {
        choose(option, &value);
    }
    if let Some(current) = variable.get_mut("current") {
        choose(current, &value);
    }
    variable["query"] = value.into();
}

fn choose(option: &mut Value, value: &str) {
    option["text"] = value.into();
    option["value"] = value.into();
}
