//! The demo dashboard as its walkthrough describes it, panel by panel.
//!
//! Presenters learn that text by heart, so titles, order, queries, units, colours and
//! objectives are fixed here. What comes after these panels is ours to choose.

use serde_json::{Value, json};

use super::board::{Board, list, place, text};

/// One panel of the walkthrough.
struct Wanted {
    title: &'static str,
    kind: &'static str,
    unit: &'static str,
    /// Legend (empty for a stat), colour (empty where any will do) and query.
    series: &'static [(&'static str, &'static str, &'static str)],
    /// Where the red area begins.
    objective: Option<f64>,
    /// The upper end of the axis, where it is fixed.
    highest: Option<f64>,
}

const BOARD: &str = "gtc-demo";
const TITLE: &str = "GTC Demo: Optimized LLM Inference";
const ROW: &str = "Per Worker Metrics";

/// Panels before the row.
const ABOVE: usize = 10;

const INFLIGHT: (&str, &str, &str) = (
    "Inflight",
    "light-blue",
    r#"sum(dynamo_frontend_inflight_requests{namespace="dynamo-workload"})"#,
);
const TTFT_P95: (&str, &str, &str) = (
    "p95",
    "orange",
    r#"loadgen_ttft_all_seconds{quantile="0.95"}"#,
);
const TPOT_P95: (&str, &str, &str) = (
    "p95",
    "orange",
    r#"loadgen_tpot_all_seconds{quantile="0.95"}"#,
);

const PANELS: [Wanted; 13] = [
    stat(
        "Request Rate",
        "reqps",
        &[("", "", r#"sum(rate(dynamo_frontend_requests_total{namespace="dynamo-workload"}[1m]))"#)],
    ),
    stat("Inflight", "none", &[("", "", INFLIGHT.2)]),
    stat(
        "Queued",
        "none",
        &[("", "", r#"sum(dynamo_frontend_queued_requests{namespace="dynamo-workload"})"#)],
    ),
    stat(
        "Output Tokens/s",
        "none",
        &[("", "", r#"sum(rate(dynamo_frontend_output_tokens_total{namespace="dynamo-workload"}[1m]))"#)],
    ),
    chart("TTFT p95 (SLO: 600ms)", "s", &[TTFT_P95, INFLIGHT]).objective(0.6),
    chart("TPOT p95 (SLO: 60ms)", "s", &[TPOT_P95, INFLIGHT]).objective(0.06),
    chart(
        "TTFT (p50 and p95)",
        "s",
        &[("p50", "green", r#"loadgen_ttft_all_seconds{quantile="0.5"}"#), TTFT_P95],
    ),
    chart(
        "TPOT (p50 and p95)",
        "s",
        &[("p50", "green", r#"loadgen_tpot_all_seconds{quantile="0.5"}"#), TPOT_P95],
    ),
    chart(
        "Latency",
        "s",
        &[("avg", "", r#"sum(rate(dynamo_frontend_request_duration_seconds_sum{namespace="dynamo-workload"}[1m])) / sum(rate(dynamo_frontend_request_duration_seconds_count{namespace="dynamo-workload"}[1m]))"#)],
    ),
    chart(
        "KV Cache",
        "percentunit",
        &[("Cache Hit Rate", "", r#"rate(dynamo_frontend_cached_tokens_sum{namespace="dynamo-workload"}[1m]) / rate(dynamo_frontend_input_sequence_tokens_sum{namespace="dynamo-workload"}[1m])"#)],
    )
    .highest(1.0),
    chart(
        "Inflight Requests (per worker)",
        "none",
        &[("{{pod}}", "", r#"dynamo_component_inflight_requests{namespace="dynamo-workload"}"#)],
    ),
    chart(
        "GPU Utilization (per GPU)",
        "percent",
        &[("{{Hostname}} GPU {{gpu}}", "", r#"DCGM_FI_DEV_GPU_UTIL{exported_namespace="dynamo-workload"}"#)],
    )
    .highest(100.0),
    chart(
        "Engine Queue Wait Time (per worker)",
        "s",
        &[("{{pod}}", "", r#"rate(trtllm_request_queue_time_seconds_sum{namespace="dynamo-workload"}[1m]) / rate(trtllm_request_queue_time_seconds_count{namespace="dynamo-workload"}[1m])"#)],
    ),
];

const fn stat(
    title: &'static str,
    unit: &'static str,
    series: &'static [(&'static str, &'static str, &'static str)],
) -> Wanted {
    Wanted {
        kind: "stat",
        ..chart(title, unit, series)
    }
}

const fn chart(
    title: &'static str,
    unit: &'static str,
    series: &'static [(&'static str, &'static str, &'static str)],
) -> Wanted {
    Wanted {
        title,
        kind: "timeseries",
        unit,
        series,
        objective: None,
        highest: None,
    }
}

impl Wanted {
    const fn objective(mut self, seconds: f64) -> Self {
        self.objective = Some(seconds);
        self
    }

    const fn highest(mut self, value: f64) -> Self {
        self.highest = Some(value);
        self
    }
}

/// Whether the walkthrough prescribes this query, windows included.
pub(super) fn fixes(expression: &str) -> bool {
    let mut queries = PANELS.iter().flat_map(|panel| panel.series);
    queries.any(|(_, _, query)| *query == expression)
}

pub(super) fn problems(board: &Board) -> Vec<String> {
    if board.name != BOARD {
        return Vec::new();
    }
    let mut problems = Vec::new();
    let mut demand = |met: bool, wanted: &str| {
        if !met {
            problems.push(format!("the walkthrough wants {wanted}"));
        }
    };
    demand(board.json["title"] == TITLE, TITLE);
    let range = json!({ "from": "now-30m", "to": "now" });
    demand(board.json["time"] == range, "the last 30 minutes");
    let panels = board.panels();
    let titles: Vec<&str> = panels.iter().map(|panel| text(&panel["title"])).collect();
    let (above, below) = PANELS.split_at(ABOVE);
    let wanted: Vec<&str> = above
        .iter()
        .map(|panel| panel.title)
        .chain([ROW])
        .chain(below.iter().map(|panel| panel.title))
        .collect();
    if !titles.starts_with(&wanted) {
        problems.push(format!("the walkthrough wants first {wanted:?}"));
        return problems;
    }
    let charts = board.charts().zip(&PANELS);
    problems.extend(charts.flat_map(|(panel, wanted)| differences(panel, wanted)));
    problems
}

fn differences(panel: &Value, wanted: &Wanted) -> Vec<String> {
    let mut problems = Vec::new();
    let mut demand = |met: bool, what: String| {
        if !met {
            problems.push(format!("{}: the walkthrough wants {what}", place(panel)));
        }
    };
    let defaults = &panel["fieldConfig"]["defaults"];
    demand(panel["type"] == wanted.kind, wanted.kind.to_owned());
    demand(
        defaults["unit"] == wanted.unit,
        format!("unit {}", wanted.unit),
    );
    let sparkline = wanted.kind != "stat" || panel["options"]["graphMode"] == "area";
    demand(sparkline, "a sparkline".to_owned());
    if let Some(highest) = wanted.highest {
        demand(
            defaults["max"].as_f64() == Some(highest),
            format!("an axis up to {highest}"),
        );
    }
    let stacked = wanted.title.starts_with("Inflight Requests");
    let stacking = &defaults["custom"]["stacking"]["mode"];
    demand(
        (stacking == "normal") == stacked,
        format!("stacking: {stacked}"),
    );
    let style = &defaults["custom"]["thresholdsStyle"]["mode"];
    demand(
        (style == "line+area") == wanted.objective.is_some(),
        "a line and an area at its objective, or none".to_owned(),
    );
    if let Some(objective) = wanted.objective {
        let red = list(&defaults["thresholds"]["steps"])
            .any(|step| step["color"] == "red" && step["value"].as_f64() == Some(objective));
        demand(red, format!("red from {objective}"));
    }
    for (at, (legend, colour, query)) in wanted.series.iter().enumerate() {
        let target = &panel["targets"][at];
        demand(target["expr"] == *query, format!("the query {query}"));
        demand(
            text(&target["legendFormat"]) == *legend,
            format!("the legend {legend}"),
        );
        let fixed = property(panel, legend, "color")["fixedColor"].clone();
        demand(
            colour.is_empty() || fixed == *colour,
            format!("{legend} in {colour}"),
        );
        if *legend == INFLIGHT.0 {
            let right = property(panel, legend, "custom.axisPlacement") == "right";
            let dashed = property(panel, legend, "custom.lineStyle")["fill"] == "dash";
            demand(
                right && dashed,
                format!("{legend} dashed, on the right axis"),
            );
        }
    }
    problems
}

/// What the overrides say about a property of a series.
fn property(panel: &Value, legend: &str, id: &str) -> Value {
    list(&panel["fieldConfig"]["overrides"])
        .filter(|rule| rule["matcher"]["options"] == legend)
        .flat_map(|rule| list(&rule["properties"]))
        .find(|property| property["id"] == id)
        .map(|property| property["value"].clone())
        .unwrap_or_default()
}
