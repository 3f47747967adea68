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
        : at_s last_failure phase running_s
        by_mode[]: mode
        by_mode[].turns[]: cached_pct samples ttft_ms_p50 ttft_ms_p95 turn
        conversation: duration_s id number started_ms status title turns_answered turns_planned
        conversation.turns[]: assistant user
        conversation.turns[].answered: attempt cached_tokens chunks conversation conversation_id dispatch_lag_ms due_s e2e_ms ended_s itl_p50_ms longest_gap_ms output_tokens prompt_tokens sent_s tpot_ms ttft_ms turn turn_type turns
        conversation.turns[].answered.routing: blocks mode predicted_ttft_ms queued_ms reason
        conversation.turns[].answered.routing.candidates[]: cost in_flight overlap_blocks worker
        conversations: active begun completed failed idle in_flight stopped writing
        settings: arrivals_per_second concurrency max_requests_per_second max_tokens starts_per_second
        settings.think_time_s: end start
        settings.turns: end start
        target: model url user_model
        totals: cached_tokens failures output_tokens prompt_tokens requests user_model_fallbacks
        window: cached_pct error_pct failures requests rps seconds tokens_per_chunk tops
        window.followup: cached_pct
        window.initial: cached_pct
        window.ttft_ms: p50 p95 p99 samples
        workload: seed starters unique
    "#]].assert_eq(&lines.collect::<String>());
}
