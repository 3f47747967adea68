//! Every query of the dashboards against a Prometheus that watches a loaded demo.
//!
//! A query that parses can still find nothing: a metric was renamed, a label is another, a
//! relabelling rule went. Each has to find at least one series, with a number in it, that
//! carries the labels which its legend prints.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::super::demo::Demo;
use super::PROMETHEUS;
use super::board::{Board, list, substitute, text, variables_in};
use super::prometheus::{Prometheus, encode, for_cluster, for_demo};
use crate::repository;

/// A profile with speculation, so that its panels have something to show.
const LOAD: [&str; 5] = [
    "--autostart",
    "--concurrency",
    "20",
    "--profile",
    "h200-llama-70b-fp8-eagle3",
];

/// Longer than the first conversations' answers take on a busy machine.
const TRIES: u32 = 180;
const PAUSE: Duration = Duration::from_secs(1);

/// Series that are there and print NaN at this load, and why.
const QUIET: [(&str, &str); 1] = [(
    "homing_router_queue_wait_seconds_bucket",
    "nobody waits while slots are free",
)];

/// What `homing dashboards` fills in where a reference line asks for its height: of one level, and as
/// it follows the load.
const SOME_HEIGHTS: [&str; 2] = [
    "0.5",
    "0.5 * (scalar(max(loadgen_target_conversations)) == bool 20) \
     + 0.7 * (scalar(max(loadgen_target_conversations)) == bool 40)",
];

/// What a query has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Numbers,
    /// Series, whose values may all be NaN.
    Series,
    Nothing,
}

/// One thing to ask.
#[derive(Debug)]
struct Question {
    place: String,
    expression: String,
    /// Labels that the legend prints.
    labels: Vec<String>,
    expected: Expected,
}

pub(super) fn check(boards: &[Board]) -> anyhow::Result<()> {
    let demo = Demo::start(&LOAD)?;
    let address = demo.address()?;
    println!("demo serves {address}");
    let shipped = |name: &str| {
        let path = repository::root().join(PROMETHEUS).join(name);
        fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))
    };
    let local = for_demo(&shipped("demo.yml")?, &address)?;
    let prometheus = Prometheus::start("dashboards-demo", &local)?;
    let (_, port) = address.rsplit_once(':').context("an address has a port")?;
    let cluster = for_cluster(&shipped("kubernetes.yml")?, port.parse()?)?;
    let in_cluster = Prometheus::start("dashboards-cluster", &cluster)?;

    let questions: Vec<Question> = boards.iter().flat_map(questions).collect();
    ask_until_answered(&prometheus, &questions)?;
    println!("{} queries find what they should", questions.len());
    for (metric, reason) in QUIET {
        println!("without a number, which is right: {metric} ({reason})");
    }
    for board in boards {
        check_choices(&prometheus, board)?;
    }
    patiently(|| check_rules(&prometheus))?;
    patiently(|| check_cluster(&in_cluster))?;
    in_cluster.stop()?;
    prometheus.stop()?;
    demo.stop()
}

fn questions(board: &Board) -> Vec<Question> {
    board
        .targets()
        .flat_map(|target| {
            let constants = constants(board, target.expression());
            let quiet = QUIET
                .iter()
                .any(|(metric, _)| target.expression().contains(metric));
            let question = |constant: Option<&str>, expected| Question {
                place: format!("{}: {}", board.name, target.place()),
                expression: fill(target.expression(), |name| {
                    let value = constant.map(str::to_owned);
                    value.or_else(|| constants.get(name).cloned())
                }),
                labels: labels_in(target.legend()),
                expected,
            };
            match (constants.is_empty(), quiet) {
                (true, true) => vec![question(None, Expected::Series)],
                (true, false) => vec![question(None, Expected::Numbers)],
                // A reference line: invisible as it is shipped, visible once it is filled.
                (false, _) => {
                    let shipped = question(None, Expected::Nothing);
                    let filled =
                        SOME_HEIGHTS.map(|height| question(Some(height), Expected::Numbers));
                    [shipped].into_iter().chain(filled).collect()
                }
            }
        })
        .collect()
}

/// The constants in a query, with their values as shipped.
fn constants(board: &Board, expression: &str) -> BTreeMap<String, String> {
    let used = variables_in(expression);
    board
        .variables()
        .filter(|variable| variable["type"] == "constant")
        .map(|variable| (text(&variable["name"]), text(&variable["query"])))
        .filter(|(name, _)| used.contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// A query as Grafana would send it with everything chosen. Scrapes are a second apart, so
/// both windows hold many.
fn fill(expression: &str, constant: impl Fn(&str) -> Option<String>) -> String {
    substitute(expression, |name| match name {
        "__rate_interval" => Some("20s".to_owned()),
        "__range" => Some("1m".to_owned()),
        "job" | "worker" => Some(".*".to_owned()),
        _ => constant(name),
    })
}

/// The labels in a legend such as `{{Hostname}} GPU {{gpu}}`.
fn labels_in(legend: &str) -> Vec<String> {
    legend
        .split("{{")
        .skip(1)
        .filter_map(|after| after.split_once("}}"))
        .map(|(label, _)| label.trim().to_owned())
        .collect()
}

/// Tries until it works, or until patience ends.
fn patiently(attempt: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    for _ in 1..TRIES {
        if attempt().is_ok() {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
    attempt()
}

/// Asks again what was not answered well, until all is or patience ends.
fn ask_until_answered(prometheus: &Prometheus, questions: &[Question]) -> anyhow::Result<()> {
    let mut open: Vec<&Question> = questions.iter().collect();
    let mut faults = Vec::new();
    for _ in 0..TRIES {
        thread::sleep(PAUSE);
        faults.clear();
        open.retain(|question| {
            let answer = prometheus.query(&question.expression);
            let verdict = answer.and_then(|series| judge(question, &series));
            verdict
                .map_err(|fault| {
                    faults.push(format!(
                        "{}: {fault}\n    {}",
                        question.place, question.expression
                    ));
                })
                .is_err()
        });
        if open.is_empty() {
            return Ok(());
        }
    }
    bail!("{} queries fail:\n{}", faults.len(), faults.join("\n"))
}

fn judge(question: &Question, series: &[Value]) -> anyhow::Result<()> {
    match (question.expected, series.is_empty()) {
        (Expected::Nothing, true) => return Ok(()),
        (Expected::Nothing, false) => bail!("finds a series and should not"),
        (Expected::Numbers | Expected::Series, true) => bail!("finds nothing"),
        (Expected::Numbers | Expected::Series, false) => {}
    }
    for label in &question.labels {
        if let Some(without) = series.iter().find(|one| one["metric"][label].is_null()) {
            bail!("no label `{label}` in {}", without["metric"]);
        }
    }
    let is_number = |one: &Value| text(&one["value"][1]).parse().is_ok_and(f64::is_finite);
    if question.expected == Expected::Numbers && !series.iter().any(is_number) {
        bail!("finds no number");
    }
    Ok(())
}

/// The variables that offer a choice have something to choose from.
fn check_choices(prometheus: &Prometheus, board: &Board) -> anyhow::Result<()> {
    for variable in board
        .variables()
        .filter(|variable| variable["type"] == "query")
    {
        let query = fill(text(&variable["query"]["query"]), |_| None);
        let (selector, label) = query
            .strip_prefix("label_values(")
            .and_then(|rest| rest.strip_suffix(')'))
            .and_then(|inside| inside.rsplit_once(','))
            .with_context(|| format!("`{query}` is not label_values(series, label)"))?;
        let path = format!(
            "/api/v1/label/{}/values?match[]={}",
            label.trim(),
            encode(selector)
        );
        let values = prometheus.get(&path)?;
        ensure!(
            list(&values).count() > 0,
            "{}: `{query}` offers nothing",
            board.name
        );
        println!("{}: {} offers {values}", board.name, variable["name"]);
    }
    Ok(())
}

/// Every rule evaluates, and every recording has recorded something.
fn check_rules(prometheus: &Prometheus) -> anyhow::Result<()> {
    let answer = prometheus.get("/api/v1/rules")?;
    let rules: Vec<&Value> = list(&answer["groups"])
        .flat_map(|group| list(&group["rules"]))
        .collect();
    ensure!(!rules.is_empty(), "no rules are loaded");
    let mut firing = Vec::new();
    for rule in &rules {
        let name = text(&rule["name"]);
        ensure!(
            rule["health"] == "ok",
            "rule {name}: {} {}",
            rule["health"],
            rule["lastError"]
        );
        if rule["type"] == "recording" {
            let series = prometheus.query(name)?;
            ensure!(!series.is_empty(), "recording {name} is empty");
        } else if rule["state"] == "firing" {
            firing.push(name);
        }
    }
    // Not a fault: a slow machine may miss an objective.
    println!("{} rules evaluate, firing now: {firing:?}", rules.len());
    Ok(())
}

/// The cluster's rules take the right pod and label it so that the same queries work.
fn check_cluster(prometheus: &Prometheus) -> anyhow::Result<()> {
    let answer = prometheus.get("/api/v1/targets?state=active")?;
    let targets: Vec<&Value> = list(&answer["activeTargets"]).collect();
    ensure!(
        targets.len() == 1,
        "one pod is to be scraped, not {targets:?}"
    );
    let labels = &targets[0]["labels"];
    let wanted = [
        ("namespace", "dynamo-workload"),
        ("pod", "homing-0"),
        ("node", "node-a"),
        ("job", "homing-demo"),
    ];
    for (label, value) in wanted {
        ensure!(labels[label] == value, "{label} of {labels} is not {value}");
    }
    ensure!(targets[0]["health"] == "up", "{}", targets[0]);
    let gpus = "DCGM_FI_DEV_GPU_UTIL{exported_namespace=\"dynamo-workload\"}";
    ensure!(
        !prometheus.query(gpus)?.is_empty(),
        "`{gpus}` finds nothing"
    );
    println!("a pod is found, labelled and scraped as in a cluster");
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn question(expected: Expected, labels: &[&str]) -> Question {
        Question {
            place: String::new(),
            expression: String::new(),
            labels: labels.iter().map(|&label| label.to_owned()).collect(),
            expected,
        }
    }

    #[test]
    fn an_answer_is_judged_by_what_was_expected() {
        let number = json!({ "metric": { "pod": "a" }, "value": [0, "1.5"] });
        let nan = json!({ "metric": { "pod": "b" }, "value": [0, "NaN"] });
        let infinite = json!({ "metric": {}, "value": [0, "+Inf"] });
        let check = |expected, labels: &[&str], series: &[&Value]| {
            let series: Vec<Value> = series.iter().copied().cloned().collect();
            judge(&question(expected, labels), &series)
                .err()
                .map_or_else(String::new, |fault| fault.to_string())
        };
        assert_eq!(check(Expected::Numbers, &["pod"], &[&nan, &number]), "");
        assert_eq!(check(Expected::Numbers, &[], &[]), "finds nothing");
        assert_eq!(
            check(Expected::Numbers, &[], &[&nan, &infinite]),
            "finds no number"
        );
        assert_eq!(check(Expected::Series, &[], &[&nan]), "");
        assert_eq!(
            check(Expected::Series, &["pod"], &[&infinite]),
            "no label `pod` in {}"
        );
        assert_eq!(check(Expected::Nothing, &[], &[]), "");
        assert_eq!(
            check(Expected::Nothing, &[], &[&nan]),
            "finds a series and should not"
        );
    }

    #[test]
    fn the_labels_of_a_legend_are_found() {
        assert_eq!(labels_in("{{Hostname}} GPU {{ gpu }}"), ["Hostname", "gpu"]);
        assert_eq!(labels_in("p95 {{"), Vec::<String>::new());
    }
}
