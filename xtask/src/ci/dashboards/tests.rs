//! The rules against dashboards with one fault each, and against those that are shipped.

use serde_json::{Value, json};

use super::board::Board;
use super::{lint, problems, query, read_boards, walkthrough};

#[test]
fn the_shipped_dashboards_have_no_problem() {
    for board in read_boards().unwrap() {
        assert_eq!(problems(&board), Vec::<String>::new());
    }
}

/// A small dashboard without a fault.
fn sound() -> Value {
    json!({
        "uid": "small", "title": "Small", "schemaVersion": 39,
        "templating": { "list": [
            { "name": "datasource", "type": "datasource", "query": "prometheus" },
            { "name": "level", "type": "constant", "query": "NaN" },
        ] },
        "panels": [
            panel(1, 0, "sum(rate(dynamo_frontend_requests_total[$__rate_interval])) > $level"),
            panel(2, 12, "homing_engine_running_requests"),
            { "id": 3, "type": "row", "title": "More", "collapsed": true,
              "gridPos": { "x": 0, "y": 8, "w": 24, "h": 1 },
              "panels": [panel(4, 0, "homing_engine_waiting_requests")] },
        ],
    })
}

fn panel(id: u64, x: u64, expression: &str) -> Value {
    let datasource = json!({ "type": "prometheus", "uid": "${datasource}" });
    json!({
        "id": id, "type": "timeseries", "title": "A title", "description": "What it shows.",
        "gridPos": { "x": x, "y": 0, "w": 12, "h": 8 },
        "datasource": datasource, "options": {},
        "fieldConfig": { "defaults": { "unit": "none" }, "overrides": [
            { "matcher": { "id": "byName", "options": "one" },
              "properties": [{ "id": "unit", "value": "s" }] },
        ] },
        "targets": [{ "refId": "A", "datasource": datasource, "expr": expression,
                      "legendFormat": "one", "range": true, "instant": false }],
    })
}

/// The problems of a dashboard in which what stands at `pointer` is replaced.
fn found(pointer: &str, value: Value) -> Vec<String> {
    let mut json = sound();
    *json.pointer_mut(pointer).expect("a place in the dashboard") = value;
    let board = Board {
        name: "small".to_owned(),
        json,
    };
    let mut found = lint::problems(&board);
    found.extend(query::problems(&board));
    found
}

#[track_caller]
fn check(pointer: &str, value: Value, expected: &str) {
    let found = found(pointer, value);
    assert!(
        found.iter().any(|problem| problem.contains(expected)),
        "{found:#?}"
    );
}

#[test]
fn a_sound_dashboard_has_no_problem() {
    assert_eq!(found("/uid", json!("small")), Vec::<String>::new());
}

#[test]
fn each_fault_of_shape_is_found() {
    check("/uid", json!("other"), "not the file's name");
    check("/title", json!(""), "no title");
    check("/schemaVersion", json!("39"), "schemaVersion is not 39");
    check(
        "/templating/list/0/type",
        json!("custom"),
        "no variable `datasource`",
    );
    check(
        "/panels/0/datasource/uid",
        json!("abc"),
        "panel 1 \"A title\": datasource is not",
    );
    check(
        "/panels/2/panels/0/targets/0/datasource",
        json!("-- Mixed --"),
        "\"A\": datasource",
    );
    check("/panels/0/title", json!(" "), "no title");
    check("/panels/2/title", json!(null), "no title");
    check(
        "/panels/2/panels/0/description",
        json!(""),
        "no description",
    );
    check(
        "/panels/0/fieldConfig/defaults/unit",
        json!("seconds"),
        "unit \"seconds\" is not known",
    );
    check(
        "/panels/0/fieldConfig/overrides/0/properties/0/value",
        json!("sec"),
        "unit \"sec\"",
    );
    check("/panels/0/targets", json!([]), "no target");
    check(
        "/panels/0/targets/0/refId",
        json!(""),
        "refIds are not distinct",
    );
}

#[test]
fn each_fault_of_order_is_found() {
    check("/panels/2/panels/0/id", json!(1), "id is missing or taken");
    check("/panels/1/gridPos/x", json!(11), "lies on panel 1");
    check("/panels/1/gridPos/w", json!(13), "not inside the grid");
    check(
        "/panels/2/collapsed",
        json!(false),
        "is open, so its panels must follow it",
    );
    check(
        "/panels/2/panels",
        json!([]),
        "is collapsed and holds no panel",
    );
    check("/panels/2/collapsed", json!(null), "does not say");
    check(
        "/templating/list/1/name",
        json!("height"),
        "variable `level` is not defined",
    );
    check(
        "/templating/list/1/name",
        json!("height"),
        "variable `height` is not used",
    );
    check(
        "/panels/0/fieldConfig/overrides/0/matcher/options",
        json!("two"),
        "no series \"two\"",
    );
    check(
        "/panels/0/fieldConfig/overrides/0/matcher/id",
        json!("byType"),
        "matcher `byType`",
    );
}

#[test]
fn each_fault_of_a_query_is_found() {
    let place = "/panels/0/targets/0/expr";
    check(place, json!("sum(rate(x[$__rate_interval])"), "not PromQL");
    check(
        place,
        json!("rate(homing_engine_steps_total[5m]) > $level"),
        "[5m] instead of",
    );
    check(
        place,
        json!("homing_engine_steps_total > $level"),
        "take its rate",
    );
    check(
        place,
        json!("loadgen_ttft_seconds_sum > $level"),
        "take its rate",
    );
    check(
        place,
        json!("rate(homing_engine_running_requests[$__rate_interval])"),
        "has no rate",
    );
    check(
        place,
        json!("vllm:spec_decode_num_drafts_total > $level"),
        "take its rate",
    );
    check(
        place,
        json!("rate(vllm:num_requests_running[$__rate_interval])"),
        "has no rate",
    );
    check(
        "/panels/0/targets/0/instant",
        json!(true),
        "wrong `instant`",
    );
    let job = json!({ "name": "job", "type": "query" });
    check("/templating/list/1", job, "not limited to job");
}

#[test]
fn a_key_too_many_or_too_few_is_found() {
    let mut changed = panel(1, 0, "homing_engine_running_requests");
    changed["colour"] = json!("red");
    check("/panels/0", changed.clone(), "key `colour` is not known");
    changed.as_object_mut().unwrap().remove("options");
    check("/panels/0", changed, "key `options` is missing");
}

#[test]
fn the_walkthrough_is_kept_to_the_letter() {
    let shipped = &read_boards().unwrap()[0];
    let check = |pointer: &str, value: Value, expected: &str| {
        let mut json = shipped.json.clone();
        *json.pointer_mut(pointer).expect("a place in the dashboard") = value;
        let changed = Board {
            name: shipped.name.clone(),
            json,
        };
        let found = walkthrough::problems(&changed);
        assert!(
            found.iter().any(|problem| problem.contains(expected)),
            "{found:#?}"
        );
    };
    check("/title", json!("Demo"), "GTC Demo");
    check("/time/from", json!("now-1h"), "the last 30 minutes");
    check("/panels/0/title", json!("Requests"), "wants first");
    check("/panels/0/type", json!("gauge"), "wants stat");
    check("/panels/0/options/graphMode", json!("none"), "sparkline");
    check(
        "/panels/0/targets/0/expr",
        json!("1"),
        "the query sum(rate(dynamo_frontend_requests",
    );
    check(
        "/panels/4/fieldConfig/defaults/thresholds/steps/1/value",
        json!(0.7),
        "red from 0.6",
    );
    check(
        "/panels/4/fieldConfig/defaults/custom/thresholdsStyle/mode",
        json!("off"),
        "an area",
    );
    check(
        "/panels/4/fieldConfig/overrides/1/properties/1/value",
        json!("left"),
        "right axis",
    );
    check(
        "/panels/4/fieldConfig/overrides/0/properties/0/value/fixedColor",
        json!("blue"),
        "p95 in orange",
    );
    check(
        "/panels/9/fieldConfig/defaults/max",
        json!(2),
        "an axis up to 1",
    );
    check(
        "/panels/11/fieldConfig/defaults/custom/stacking/mode",
        json!("none"),
        "stacking: true",
    );
    check(
        "/panels/11/targets/0/legendFormat",
        json!("x"),
        "the legend {{pod}}",
    );
}
