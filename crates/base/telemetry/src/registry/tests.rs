//! The registry as a scraper sees it.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::catalog::{
    BUILD_INFO, COMPONENT_KV_CACHE_EVENTS_APPLIED, FRONTEND_INFLIGHT_REQUESTS,
    FRONTEND_OUTPUT_TOKENS_TOTAL, FRONTEND_REQUEST_DURATION_SECONDS, FRONTEND_TTFT_WINDOW_SECONDS,
    ROUTER_DECISIONS_TOTAL, ROUTER_INDEX_BLOCKS, SPECULATION_DRAFT_SECONDS_TOTAL,
};

const START: Duration = Duration::ZERO;

#[track_caller]
fn check(report: impl FnOnce(&Registry), expected: Expect) {
    let registry = Registry::new();
    report(&registry);
    expected.assert_eq(&registry.render(START));
}

#[test]
fn nothing_reported_is_nothing_shown() {
    check(|_| {}, expect![""]);
}

#[test]
fn families_come_in_catalogue_order_and_cells_by_label() {
    check(
        |registry| {
            registry.gauge(&ROUTER_INDEX_BLOCKS, &[]).set(12.5);
            registry
                .counter(&COMPONENT_KV_CACHE_EVENTS_APPLIED, &["ok", "stored", "1"])
                .add(3);
            registry
                .counter(&FRONTEND_OUTPUT_TOKENS_TOTAL, &["llama \"70b\""])
                .add(7);
            registry
                .counter(&FRONTEND_OUTPUT_TOKENS_TOTAL, &["a"])
                .inc();
        },
        expect![[r#"
            # HELP dynamo_frontend_output_tokens_total Tokens generated, counted as they are streamed.
            # TYPE dynamo_frontend_output_tokens_total counter
            dynamo_frontend_output_tokens_total{model="a"} 1
            dynamo_frontend_output_tokens_total{model="llama \"70b\""} 7
            # HELP homing_router_index_blocks Distinct blocks with at least one known holder in the index.
            # TYPE homing_router_index_blocks gauge
            homing_router_index_blocks 12.5
            # HELP dynamo_component_kv_cache_events_applied KV events of the worker that the router has processed (a counter).
            # TYPE dynamo_component_kv_cache_events_applied untyped
            dynamo_component_kv_cache_events_applied{status="ok",event_type="stored",worker_id="1"} 3
        "#]],
    );
}

#[test]
fn counted_time_is_shown_in_seconds() {
    check(
        |registry| {
            let time = registry.time(&SPECULATION_DRAFT_SECONDS_TOTAL, &["1", "ngram"]);
            time.add(Duration::from_millis(1500));
            time.add(Duration::from_micros(250));
        },
        expect![[r#"
            # HELP homing_speculation_draft_seconds_total Time spent on making drafts and on keeping the drafter up to date.
            # TYPE homing_speculation_draft_seconds_total counter
            homing_speculation_draft_seconds_total{worker_id="1",method="ngram"} 1.50025
        "#]],
    );
}

#[test]
fn a_histogram_shows_cumulative_buckets() {
    check(
        |registry| {
            let duration = registry.histogram(&FRONTEND_REQUEST_DURATION_SECONDS, &["m"]);
            duration.observe(2.0);
            duration.observe_many(30.5, 2);
            duration.observe(1000.0);
        },
        expect![[r#"
            # HELP dynamo_frontend_request_duration_seconds From the arrival of a request to its end.
            # TYPE dynamo_frontend_request_duration_seconds histogram
            dynamo_frontend_request_duration_seconds_bucket{model="m",le="0"} 0
            dynamo_frontend_request_duration_seconds_bucket{model="m",le="2"} 1
            dynamo_frontend_request_duration_seconds_bucket{model="m",le="4"} 1
            dynamo_frontend_request_duration_seconds_bucket{model="m",le="8"} 1
            dynamo_frontend_request_duration_seconds_bucket{model="m",le="16"} 1
            dynamo_frontend_request_duration_seconds_bucket{model="m",le="32"} 3
            dynamo_frontend_request_duration_seconds_bucket{model="m",le="64"} 3
            dynamo_frontend_request_duration_seconds_bucket{model="m",le="130"} 3
            dynamo_frontend_request_duration_seconds_bucket{model="m",le="260"} 3
            dynamo_frontend_request_duration_seconds_bucket{model="m",le="510"} 3
            dynamo_frontend_request_duration_seconds_bucket{model="m",le="+Inf"} 4
            dynamo_frontend_request_duration_seconds_sum{model="m"} 1063
            dynamo_frontend_request_duration_seconds_count{model="m"} 4
        "#]],
    );
}

#[test]
fn a_summary_forgets_its_quantiles_after_a_minute_but_not_its_count() {
    let registry = Registry::new();
    let window = registry.summary(&FRONTEND_TTFT_WINDOW_SECONDS, &["m"]);
    window.observe(Duration::from_secs(1), 0.25);
    window.observe(Duration::from_secs(2), 0.75);
    let shown = |seconds| {
        let text = registry.render(Duration::from_secs(seconds));
        text.lines().skip(2).collect::<Vec<_>>().join("\n")
    };
    expect![[r#"
        homing_frontend_ttft_window_seconds{model="m",quantile="0.5"} 0.25
        homing_frontend_ttft_window_seconds{model="m",quantile="0.95"} 0.75
        homing_frontend_ttft_window_seconds{model="m",quantile="0.99"} 0.75
        homing_frontend_ttft_window_seconds_sum{model="m"} 1
        homing_frontend_ttft_window_seconds_count{model="m"} 2"#]]
    .assert_eq(&shown(2));
    expect![[r#"
        homing_frontend_ttft_window_seconds{model="m",quantile="0.5"} NaN
        homing_frontend_ttft_window_seconds{model="m",quantile="0.95"} NaN
        homing_frontend_ttft_window_seconds{model="m",quantile="0.99"} NaN
        homing_frontend_ttft_window_seconds_sum{model="m"} 1
        homing_frontend_ttft_window_seconds_count{model="m"} 2"#]]
    .assert_eq(&shown(62));
}

#[test]
fn a_forgotten_cell_starts_again_from_zero() {
    let registry = Registry::new();
    let old = registry.counter(&FRONTEND_OUTPUT_TOKENS_TOTAL, &["m"]);
    old.add(5);
    registry.forget(&FRONTEND_OUTPUT_TOKENS_TOTAL, &["unknown"]);
    assert_eq!(
        registry
            .counter(&FRONTEND_OUTPUT_TOKENS_TOTAL, &["m"])
            .get(),
        5
    );
    registry.forget(&FRONTEND_OUTPUT_TOKENS_TOTAL, &["m"]);
    assert_eq!(registry.render(START), "");
    old.inc();
    assert_eq!(
        registry
            .counter(&FRONTEND_OUTPUT_TOKENS_TOTAL, &["m"])
            .get(),
        0
    );
}

#[test]
fn a_worker_that_leaves_takes_all_its_cells() {
    let registry = Registry::new();
    registry
        .counter(&ROUTER_DECISIONS_TOTAL, &["kv-blocks", "1"])
        .inc();
    registry
        .counter(&ROUTER_DECISIONS_TOTAL, &["random", "1"])
        .inc();
    registry.counter(&ROUTER_DECISIONS_TOTAL, &["1", "2"]).inc();
    registry
        .counter(&COMPONENT_KV_CACHE_EVENTS_APPLIED, &["ok", "stored", "1"])
        .inc();
    registry.gauge(&BUILD_INFO, &["1"]).set(1.0);
    registry.forget_where("worker_id", "1");
    let text = registry.render(START);
    assert!(!text.contains("worker_id=\"1\""), "{text}");
    assert!(
        text.contains("homing_router_decisions_total{mode=\"1\",worker_id=\"2\"} 1"),
        "{text}"
    );
    assert!(
        text.contains("homing_build_info{version=\"1\"} 1"),
        "{text}"
    );
}

#[test]
#[should_panic(expected = "dynamo_frontend_inflight_requests is a gauge, not a counter")]
fn a_wrong_kind_is_a_bug() {
    Registry::new().counter(&FRONTEND_INFLIGHT_REQUESTS, &["m"]);
}

#[test]
#[should_panic(expected = "dynamo_frontend_inflight_requests is labelled [\"model\"]")]
fn a_missing_label_is_a_bug() {
    Registry::new().gauge(&FRONTEND_INFLIGHT_REQUESTS, &[]);
}

#[test]
#[should_panic(expected = "homing_made_up is not in the catalogue")]
fn an_uncatalogued_metric_is_a_bug() {
    static MADE_UP: Metric = Metric {
        name: "homing_made_up",
        kind: Kind::Gauge,
        help: "",
        labels: &[],
        buckets: &[],
    };
    Registry::new().gauge(&MADE_UP, &[]);
}

proptest! {
    #[test]
    fn cells_agree_with_a_map_by_labels(
        additions in prop::collection::vec(("[ab]{0,2}", "[ab]{0,2}", 0_u64..9), 0..60),
    ) {
        let registry = Registry::new();
        let mut naive = std::collections::BTreeMap::new();
        for (mode, worker, count) in &additions {
            registry.counter(&ROUTER_DECISIONS_TOTAL, &[mode, worker]).add(*count);
            *naive.entry((mode, worker)).or_insert(0) += count;
        }
        let shown: Vec<String> =
            registry.render(START).lines().skip(2).map(str::to_owned).collect();
        let expected: Vec<String> = naive
            .into_iter()
            .map(|((mode, worker), count)| format!(
                "homing_router_decisions_total{{mode=\"{mode}\",worker_id=\"{worker}\"}} {count}"
            ))
            .collect();
        prop_assert_eq!(shown, expected);
    }
}

#[test]
fn models_are_told_apart_where_the_catalogue_does_not() {
    check(
        |registry| {
            let (a, b) = (registry.of_model("a"), registry.of_model("b"));
            registry.gauge(&ROUTER_INDEX_BLOCKS, &[]).set(1.0);
            a.gauge(&ROUTER_INDEX_BLOCKS, &[]).set(2.0);
            b.gauge(&ROUTER_INDEX_BLOCKS, &[]).set(3.0);
            a.counter(&FRONTEND_OUTPUT_TOKENS_TOTAL, &["a"]).inc();
            registry
                .counter(&FRONTEND_OUTPUT_TOKENS_TOTAL, &["a"])
                .inc();
            for registry in [&a, &b] {
                for worker in ["1", "2"] {
                    let labels = ["kv", worker];
                    registry.counter(&ROUTER_DECISIONS_TOTAL, &labels).inc();
                }
            }
            a.forget_where("worker_id", "1");
            b.forget(&ROUTER_DECISIONS_TOTAL, &["kv", "2"]);
        },
        expect![[r##"
            # HELP dynamo_frontend_output_tokens_total Tokens generated, counted as they are streamed.
            # TYPE dynamo_frontend_output_tokens_total counter
            dynamo_frontend_output_tokens_total{model="a"} 2
            # HELP homing_router_decisions_total Requests placed on a worker.
            # TYPE homing_router_decisions_total counter
            homing_router_decisions_total{mode="kv",worker_id="1",model="b"} 1
            homing_router_decisions_total{mode="kv",worker_id="2",model="a"} 1
            # HELP homing_router_index_blocks Distinct blocks with at least one known holder in the index.
            # TYPE homing_router_index_blocks gauge
            homing_router_index_blocks 1
            homing_router_index_blocks{model="a"} 2
            homing_router_index_blocks{model="b"} 3
        "##]],
    );
}
