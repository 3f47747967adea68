//! The names under which others read what a run says of itself.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{bench, seconds, settings};
use crate::mock::Manner;

/// Every path of a JSON value, without what is below lists' first elements.
fn paths(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                paths(field, &format!("{at}.{name}"), found);
            }
        }
        Value::Array(items) => {
            if let Some(first) = items.first() {
                paths(first, &format!("{at}[]"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            found.push(at.trim_start_matches('.').to_owned());
        }
    }
}

/// What the console reads. A name that disappears from here breaks a page.
#[tokio::test(start_paused = true)]
async fn names_in_snapshots_and_conversations_are_an_interface() {
    let bench = bench(settings(1), Manner::default());
    bench.load.start().await;
    seconds(10).await;
    let mut found = Vec::new();
    let snapshot = serde_json::to_value(bench.load.snapshot()).unwrap();
    paths(&snapshot, "", &mut found);
    // The five latencies look alike.
    found.retain(|path| !path.contains("_ms.") || path.starts_with("window.ttft_ms"));
    let last = bench.load.conversations().pop().unwrap();
    let told = serde_json::to_value(bench.load.conversation(&last.id).unwrap()).unwrap();
    paths(&told, "conversation", &mut found);
    let mut objects: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in &found {
        let (object, name) = path.rsplit_once('.').unwrap_or(("", path));
        objects.entry(object).or_default().push(name);
    }
    let lines = objects
        .iter()
        .map(|(at, names)| format!("{at}: {}\n", names.join(" ")));
    expect_test::expect![[r#"
        : phase at_s running_s unchanged_s last_failure
        by_mode[]: mode
        by_mode[].turns[]: turn ttft_ms_p50 ttft_ms_p95 samples cached_pct
        conversation: id number title status turns_answered turns_planned started_ms duration_s
        conversation.turns[]: user assistant
        conversation.turns[].answered: conversation_id conversation turn turns turn_type attempt due_s sent_s ended_s dispatch_lag_ms ttft_ms tpot_ms itl_p50_ms longest_gap_ms e2e_ms prompt_tokens cached_tokens output_tokens chunks
        conversation.turns[].answered.routing: mode reason blocks queued_ms predicted_ttft_ms
        conversation.turns[].answered.routing.candidates[]: worker overlap_blocks in_flight cost ttft_ms
        conversations: active in_flight writing idle begun completed stopped failed
        settings: concurrency max_tokens starts_per_second max_requests_per_second arrivals_per_second starters zipf
        settings.think_time_s: start end
        settings.turns: start end
        target: url model user_model
        totals: requests failures prompt_tokens cached_tokens output_tokens user_model_fallbacks
        window: seconds requests failures error_pct rps tops cached_pct tokens_per_chunk
        window.followup: cached_pct
        window.initial: cached_pct
        window.ttft_ms: p50 p95 p99 samples
        workload: seed starters unique
    "#]].assert_eq(&lines.collect::<String>());
}
