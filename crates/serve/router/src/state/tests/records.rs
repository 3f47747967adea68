//! Decisions and workers as their readers see them.

use super::*;

#[test]
fn decisions_and_workers_read_well_as_json() {
    let (mut state, prompt) = specified();
    let claim = place(&mut state, &prompt);
    state.first_token(&claim, 2336, at(2));
    state.release(&claim, at(5));
    let mut decision = serde_json::to_value(&state.decisions(1)[0]).unwrap();
    decision["candidates"].as_array_mut().unwrap().truncate(1);
    assert!(decision["predicted_ttft_ms"].take().is_number());
    expect![[r#"
        {
          "number": 4,
          "at": 0.0,
          "request": "r",
          "mode": "kv-blocks",
          "prompt_tokens": 3200,
          "blocks": 100,
          "winner": "2",
          "reason": "lowest cost 30.00",
          "candidates": [
            {
              "worker": "1",
              "slots": 64,
              "in_flight": 1,
              "overlap_blocks": 20,
              "cached_tokens": 640,
              "pending_prefill_tokens": 0,
              "pending_requests": 0,
              "prefill_blocks": 80.0,
              "decode_blocks": 10,
              "new_blocks": 100,
              "cache_full": false,
              "cost": 90.0
            }
          ],
          "excluded": [],
          "hot_spread": false,
          "queued_ms": 0.0,
          "predicted_ttft_ms": null,
          "predicted_cached_tokens": 2400,
          "actual_cached_tokens": 2336,
          "outcome": {
            "state": "ended",
            "first_token_after": 2.0,
            "ended_after": 5.0
          },
          "forwarded": null,
          "normalized": false
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&decision).unwrap());
    state.drain(WorkerId(1));
    let mut worker = serde_json::to_value(&state.workers(Moment::ZERO)[0]).unwrap();
    worker["card"] = worker["card"]["name"].take();
    worker["status"] = worker["status"]["running"].take();
    assert!(worker["learned"].take()["step_ms"].as_f64() > Some(1.0));
    expect![[r#"{"card":"worker-1","status":0,"draining":true,"health":"sound","in_flight_elsewhere":0,"lease":null,"in_flight":1,"pending_prefill_tokens":0,"active_blocks":10,"indexed_blocks":20,"feed":"live","learned":null}"#]]
        .assert_eq(&worker.to_string());
    expect![[r#"{"mode":"kv-blocks","overlap_score_weight":1.0,"router_temperature":0.0}"#]]
        .assert_eq(&serde_json::to_string(&state.mode()).unwrap());
}
