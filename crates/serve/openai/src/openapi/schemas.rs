//! The schemas behind the paths.

use serde_json::{Map, Value, json};

use super::{agents, fields, reference, workers};
use crate::routing::MOST_CANDIDATES;

pub(super) fn all(router_modes: &[&str]) -> Value {
    let mut schemas = Map::new();
    for group in [
        requests(),
        parts(),
        answers(),
        extensions(),
        logprobs(),
        agents::schemas(),
        models(),
        control(router_modes),
        workers::schemas(),
    ] {
        let Value::Object(group) = group else {
            unreachable!("every group of schemas is an object");
        };
        schemas.extend(group);
    }
    Value::Object(schemas)
}

fn requests() -> Value {
    let mut chat = options();
    merge(&mut chat, agents::chat());
    chat["messages"] = json!({ "type": "array", "minItems": 1, "items": reference("Message") });
    chat["logprobs"] = json!({ "type": ["boolean", "null"] });
    chat["top_logprobs"] = json!({ "type": ["integer", "null"], "minimum": 0, "maximum": 20 });
    let mut completion = options();
    let ids = json!({ "type": "array", "minItems": 1, "items": { "type": "integer" } });
    completion["prompt"] = json!({
        "oneOf": [
            { "type": "string", "minLength": 1 },
            { "type": "array", "minItems": 1, "items": { "type": "string", "minLength": 1 } },
            ids,
            { "type": "array", "minItems": 1, "items": ids },
        ]
    });
    completion["echo"] = json!({ "type": ["boolean", "null"] });
    completion["best_of"] = json!({ "type": ["integer", "null"], "enum": [1, null] });
    completion["logprobs"] = json!({ "type": ["integer", "null"], "minimum": 0, "maximum": 5 });
    json!({
        "ChatRequest": {
            "type": "object",
            "required": ["model", "messages"],
            "properties": chat,
            "description": "docs/request-fields.md says what becomes of other fields."
        },
        "CompletionRequest": {
            "type": "object",
            "required": ["model", "prompt"],
            "properties": completion,
            "description": "docs/request-fields.md says what becomes of other fields."
        },
    })
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}

/// What both requests take.
fn options() -> Value {
    let mut options = sampling_options();
    merge(&mut options, agents::constraints());
    options
}

fn sampling_options() -> Value {
    let penalty = json!({ "type": ["number", "null"], "minimum": -2, "maximum": 2 });
    let text = json!({ "type": "string", "minLength": 1 });
    json!({
        "model": { "type": "string", "minLength": 1 },
        "max_tokens": { "type": ["integer", "null"], "minimum": 1 },
        "max_completion_tokens": {
            "type": ["integer", "null"],
            "minimum": 1,
            "description": "Wins over max_tokens."
        },
        "min_tokens": { "type": ["integer", "null"], "minimum": 0 },
        "ignore_eos": { "type": ["boolean", "null"] },
        "temperature": { "type": ["number", "null"], "minimum": 0, "maximum": 2 },
        "top_p": { "type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1 },
        "top_k": {
            "type": ["integer", "null"],
            "minimum": -1,
            "description": "-1 and 0 switch it off."
        },
        "seed": { "type": ["integer", "null"] },
        "n": { "type": ["integer", "null"], "minimum": 1, "maximum": 128 },
        "presence_penalty": penalty,
        "frequency_penalty": penalty,
        "min_p": {
            "type": ["number", "null"],
            "minimum": 0,
            "maximum": 1,
            "description": "Leaves out tokens less likely than this share of the likeliest."
        },
        "repetition_penalty": {
            "type": ["number", "null"],
            "minimum": 0.01,
            "maximum": 100,
            "description": "Above 1: tokens of the prompt and the answer become less likely."
        },
        "stop": {
            "oneOf": [
                text,
                { "type": "array", "maxItems": 16, "items": text },
                { "type": "null" },
            ]
        },
        "stream": { "type": ["boolean", "null"] },
        "stream_options": {
            "type": ["object", "null"],
            "properties": {
                "include_usage": { "type": ["boolean", "null"] },
                "continuous_usage_stats": { "type": ["boolean", "null"] },
            }
        },
        "user": { "type": ["string", "null"] },
        "conversation_id": { "type": ["string", "null"] },
        "cache_salt": {
            "type": ["string", "null"], "minLength": 1,
            "description": "Keeps this request's cache apart from that of other salts."
        },
        "nvext": reference("Extensions"),
    })
}

fn parts() -> Value {
    json!({
        "Message": {
            "type": "object",
            "required": ["role"],
            "properties": {
                "role": {
                    "enum": ["system", "developer", "user", "assistant", "tool", "function"]
                },
                "content": {
                    "description": "May be absent for the assistant only.",
                    "oneOf": [
                        { "type": "string" },
                        { "type": "array", "minItems": 1, "items": reference("TextPart") },
                        { "type": "null" },
                    ]
                },
                "name": { "type": ["string", "null"] },
                "tool_calls": { "type": ["array", "null"], "items": reference("ToolCall") },
                "tool_call_id": { "type": ["string", "null"] },
                "reasoning_content": { "type": ["string", "null"] },
            }
        },
        "TextPart": {
            "type": "object",
            "required": ["type", "text"],
            "properties": {
                "type": { "enum": ["text", "input_text"] },
                "text": { "type": "string" },
            }
        },
        "Extensions": {
            "description": "NVIDIA's extensions.",
            "type": "object",
            "properties": {
                "extra_fields": {
                    "type": "array",
                    "items": { "type": "string" },
                    "description":
                        "`worker_id`, `timing` and `routing` add these to the answer's nvext."
                },
                "cache_salt": {
                    "type": "string",
                    "description": "Keeps this request's cache apart from that of other salts."
                },
            }
        },
    })
}

fn answers() -> Value {
    let answer = |object: &str, choice: Value| {
        json!({
            "type": "object",
            "required": ["id", "object", "created", "model", "choices"],
            "properties": {
                "id": { "type": "string" },
                "object": { "const": object },
                "created": { "type": "integer", "description": "Unix seconds" },
                "model": { "type": "string" },
                "choices": { "type": "array", "items": choice },
                "usage": reference("Usage"),
                "nvext": reference("AnswerExtensions"),
            }
        })
    };
    let choice = |field: &str, value: Value, logprobs: &str| {
        json!({
            "type": "object",
            "required": ["index", field, "finish_reason"],
            "properties": {
                "index": { "type": "integer" },
                field: value,
                "logprobs": { "oneOf": [reference(logprobs), { "type": "null" }] },
                "finish_reason": { "enum": ["stop", "length", "tool_calls", null] },
            }
        })
    };
    let message = json!({
        "type": "object",
        "properties": {
            "role": { "const": "assistant" },
            "content": { "type": ["string", "null"] },
            "reasoning_content": { "type": "string" },
            "tool_calls": { "type": "array", "items": reference("ToolCall") },
        }
    });
    json!({
        "ChatCompletion":
            answer("chat.completion", choice("message", message.clone(), "ChatLogprobs")),
        "ChatCompletionChunk":
            answer("chat.completion.chunk", choice("delta", message, "ChatLogprobs")),
        "Completion": answer(
            "text_completion",
            choice("text", json!({ "type": "string" }), "CompletionLogprobs"),
        ),
        "Usage": usage(),
    })
}

fn usage() -> Value {
    json!({
        "type": "object",
        "required": ["prompt_tokens", "completion_tokens", "total_tokens"],
        "properties": {
            "prompt_tokens": { "type": "integer" },
            "completion_tokens": { "type": "integer" },
            "total_tokens": { "type": "integer" },
            "prompt_tokens_details": {
                "type": ["object", "null"],
                "properties": {
                    "cached_tokens": {
                        "type": "integer",
                        "description": "Prompt tokens that the engine did not compute."
                    }
                }
            },
            "completion_tokens_details": {
                "type": ["object", "null"],
                "description": "Only where the engine guessed tokens ahead.",
                "properties": {
                    "accepted_prediction_tokens": {
                        "type": "integer",
                        "description": "Guessed tokens that became part of the answer."
                    },
                    "rejected_prediction_tokens": {
                        "type": "integer",
                        "description": "Guessed tokens that did not."
                    }
                }
            },
        }
    })
}

fn extensions() -> Value {
    let mut times = fields("number", &["prefill_wait_time_ms", "prefill_time_ms"]);
    times.extend(fields(
        "number",
        &["ttft_ms", "itl_ms", "total_time_ms", "kv_hit_rate"],
    ));
    let workers = fields("integer", &["prefill_worker_id", "decode_worker_id"]);
    let mut candidate = fields("string", &["worker"]);
    candidate.extend(fields("integer", &["overlap_blocks", "in_flight"]));
    candidate.insert("cost".to_owned(), json!({ "type": ["number", "null"] }));
    candidate.extend(fields("number", &["ttft_ms"]));
    let candidate = json!({ "type": "object", "properties": candidate });
    json!({
        "AnswerExtensions": {
            "description": "What the request's extra_fields asked for.",
            "type": "object",
            "properties": {
                "worker_id": { "type": "object", "properties": workers },
                "timing": { "type": "object", "properties": times },
                "routing": reference("Routing"),
            }
        },
        "Routing": {
            "description": "Why the request went where it went.",
            "type": "object",
            "required": [
                "mode", "reason", "blocks", "queued_ms", "predicted_ttft_ms", "candidates",
            ],
            "properties": {
                "mode": { "type": "string" },
                "reason": { "type": "string" },
                "blocks": { "type": "integer", "description": "Full blocks of the prompt." },
                "queued_ms": { "type": "number" },
                "predicted_ttft_ms": { "type": "number" },
                "candidates": {
                    "type": "array",
                    "maxItems": MOST_CANDIDATES,
                    "items": candidate,
                    "description": "Cheapest first."
                },
            }
        },
    })
}

fn logprobs() -> Value {
    let token = json!({
        "token": { "type": "string" },
        "logprob": { "type": "number" },
        "bytes": { "type": ["array", "null"], "items": { "type": "integer" } },
    });
    let mut with_top = token.clone();
    with_top["top_logprobs"] =
        json!({ "type": "array", "items": { "type": "object", "properties": token } });
    let list = |items: Value| json!({ "type": "array", "items": items });
    json!({
        "ChatLogprobs": {
            "type": "object",
            "properties": { "content": list(json!({ "type": "object", "properties": with_top })) }
        },
        "CompletionLogprobs": {
            "type": "object",
            "properties": {
                "tokens": list(json!({ "type": "string" })),
                "token_logprobs": list(json!({ "type": ["number", "null"] })),
                "top_logprobs": list(json!({
                    "type": ["object", "null"],
                    "additionalProperties": { "type": "number" }
                })),
                "text_offset": list(json!({ "type": "integer" })),
            }
        },
    })
}

fn models() -> Value {
    json!({
        "Model": {
            "type": "object",
            "required": ["id", "object", "created", "owned_by"],
            "properties": {
                "id": { "type": "string" },
                "object": { "const": "model" },
                "created": { "type": "integer" },
                "owned_by": { "type": "string" },
                "max_model_len": { "type": "integer" },
                "parent": { "type": "string", "description": "The model that it is an adapter of." },
                "simulated": { "type": "boolean", "description": "Whether its workers are simulations." },
            }
        },
        "ModelList": {
            "type": "object",
            "required": ["object", "data"],
            "properties": {
                "object": { "const": "list" },
                "data": { "type": "array", "items": reference("Model") },
            }
        },
        "Error": {
            "type": "object",
            "required": ["error"],
            "properties": {
                "error": {
                    "type": "object",
                    "required": ["message", "type", "param", "code"],
                    "properties": {
                        "message": { "type": "string" },
                        "type": { "type": "string" },
                        "param": { "type": ["string", "null"] },
                        "code": { "type": ["string", "null"] },
                    }
                }
            }
        },
        "Health": {
            "type": "object",
            "required": ["status"],
            "properties": { "status": { "type": "string" } }
        },
    })
}

fn control(router_modes: &[&str]) -> Value {
    let settings = json!({
        "mode": {
            "enum": router_modes
        },
        "overlap_score_weight": { "type": "number", "minimum": 0 },
        "router_temperature": { "type": "number", "minimum": 0 },
    });
    let cost = json!({
        "type": "object",
        "properties": {
            "worker": { "type": "string" },
            "overlap_blocks": { "type": "integer" },
            "prefill_blocks": { "type": "number" },
            "decode_blocks": { "type": "number" },
            "cost": { "type": "number" },
        }
    });
    json!({
        "Router": { "type": "object", "required": ["mode"], "properties": settings },
        "RouterChange": {
            "type": "object",
            "properties": settings,
            "description": "What is absent stays as it is."
        },
        "CacheReset": {
            "type": "object",
            "properties": { "workers": { "type": "integer" } }
        },
        "Decision": {
            "type": "object",
            "required": ["number", "request", "mode", "winner", "reason", "candidates"],
            "properties": {
                "number": { "type": "integer", "description": "Counts from 1" },
                "request": { "type": "string" },
                "mode": { "type": "string" },
                "winner": { "type": "string", "description": "The id of the worker that was chosen" },
                "reason": { "type": "string", "description": "Why it won" },
                "prompt_tokens": { "type": "integer" },
                "blocks": { "type": "integer", "description": "Full blocks of the prompt" },
                "predicted_cached_tokens": { "type": "integer" },
                "actual_cached_tokens": { "type": ["integer", "null"] },
                "forwarded": {
                    "type": ["string", "null"],
                    "description": "What the request needed for which the engine's own server answers it"
                },
                "normalized": {
                    "type": "boolean",
                    "description": "A line that changes with every request was removed from the prompt's head"
                },
                "candidates": { "type": "array", "items": cost },
            }
        },
        "DecisionList": {
            "type": "object",
            "required": ["decisions", "next"],
            "properties": {
                "decisions": { "type": "array", "items": reference("Decision") },
                "next": { "type": ["integer", "null"], "description": "`before` of the next page, if there is one" },
            }
        },
    })
}
