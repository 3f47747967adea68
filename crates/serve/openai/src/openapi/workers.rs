//! Schemas of workers, their cards and their load.

use serde_json::{Value, json};

use super::{fields, reference};

pub(super) fn schemas() -> Value {
    json!({
        "Worker": {
            "type": "object",
            "required": ["card", "status"],
            "properties": {
                "card": { "type": "object", "properties": worker_card() },
                "status": { "type": "object", "properties": worker_status() },
            }
        },
        "WorkerList": {
            "type": "object",
            "required": ["workers"],
            "properties": { "workers": { "type": "array", "items": reference("Worker") } }
        },
        "NewWorkers": {
            "type": "object",
            "required": ["workers"],
            "properties": {
                "workers": {
                    "type": "array",
                    "items": { "type": "object", "properties": worker_card() }
                }
            }
        },
        "WorkerRequest": {
            "type": "object",
            "required": ["profile"],
            "properties": {
                "profile": { "type": "string", "description": "A shipped profile of the simulator." }
            }
        },
    })
}

fn worker_card() -> Value {
    let mut card = fields("string", &["id", "name", "model", "engine", "speculation"]);
    card.extend(fields(
        "boolean",
        &["simulated", "logprobs", "grammars", "logit_bias"],
    ));
    let sizes = [
        "block_size",
        "total_blocks",
        "slots",
        "max_step_tokens",
        "max_context_tokens",
    ];
    card.extend(fields("integer", &sizes));
    for list in ["forwards", "adapters"] {
        let texts = json!({ "type": "array", "items": { "type": "string" } });
        card.insert(list.to_owned(), texts);
    }
    let mut gpu = fields("string", &["kind"]);
    gpu.extend(fields("integer", &["count", "memory_bytes"]));
    card.insert(
        "gpu".to_owned(),
        json!({ "type": "object", "properties": gpu }),
    );
    Value::Object(card)
}

fn worker_status() -> Value {
    let mut status = fields("integer", &["running", "waiting", "steps", "preemptions"]);
    status.extend(fields(
        "integer",
        &["active_blocks", "cached_blocks", "free_blocks"],
    ));
    status.extend(fields(
        "integer",
        &["prompt_tokens", "cached_tokens", "output_tokens"],
    ));
    status.extend(fields("integer", &["gpu_memory_used_bytes"]));
    status.extend(fields("number", &["utilization"]));
    let counts = fields("integer", &["drafts", "drafted_tokens", "accepted_tokens"]);
    status.insert(
        "speculation".to_owned(),
        json!({ "type": "object", "properties": counts }),
    );
    Value::Object(status)
}
