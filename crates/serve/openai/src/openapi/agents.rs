//! Schemas of tools, constrained output and the APIs that agents speak.

use serde_json::{Value, json};

use super::reference;

/// Fields that constrain an answer, and others that both requests take.
pub(super) fn constraints() -> Value {
    json!({
        "logit_bias": {
            "type": ["object", "null"],
            "additionalProperties": { "type": "number", "minimum": -100, "maximum": 100 },
            "description": "By token id; refused where a worker's engine cannot."
        },
        "stop_token_ids": { "type": ["array", "null"], "items": { "type": "integer" } },
        "response_format": reference("ResponseFormat"),
        "structured_outputs": {
            "type": ["object", "null"],
            "description": "As vLLM has it; one of them.",
            "properties": {
                "json": { "description": "A JSON schema, or a string that holds one." },
                "json_object": { "type": "boolean" },
                "regex": { "type": "string" },
                "choice": { "type": "array", "items": { "type": "string" } },
                "grammar": { "type": "string", "description": "In llguidance's dialect of Lark." },
            }
        },
        "guided_json": { "description": "A JSON schema, or a string that holds one." },
        "guided_regex": { "type": ["string", "null"] },
        "guided_choice": { "type": ["array", "null"], "items": { "type": "string" } },
        "guided_grammar": { "type": ["string", "null"] },
    })
}

/// Fields of a chat request about tools and reasoning.
pub(super) fn chat() -> Value {
    json!({
        "tools": { "type": ["array", "null"], "maxItems": 128, "items": reference("Tool") },
        "tool_choice": {
            "oneOf": [
                { "enum": ["none", "auto", "required", null] },
                {
                    "type": "object",
                    "properties": {
                        "type": { "const": "function" },
                        "function": {
                            "type": "object",
                            "required": ["name"],
                            "properties": { "name": { "type": "string" } }
                        },
                    }
                },
            ]
        },
        "parallel_tool_calls": { "type": ["boolean", "null"] },
        "reasoning_effort": {
            "enum": ["none", "minimal", "low", "medium", "high", "xhigh", null],
            "description": "Refused where the model's chat template does not know it."
        },
        "chat_template_kwargs": {
            "type": ["object", "null"],
            "description": "Variables of the chat template."
        },
    })
}

pub(super) fn schemas() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "Tool": {
            "type": "object",
            "required": ["type", "function"],
            "properties": {
                "type": { "const": "function" },
                "function": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": { "type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}$" },
                        "description": text,
                        "parameters": { "type": "object", "description": "A JSON schema" },
                        "strict": { "type": ["boolean", "null"] },
                    }
                },
            }
        },
        "ToolCall": {
            "type": "object",
            "required": ["function"],
            "properties": {
                "id": text,
                "type": { "const": "function" },
                "function": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": text,
                        "arguments": { "type": "string", "description": "A JSON object" },
                    }
                },
            }
        },
        "ResponseFormat": {
            "type": ["object", "null"],
            "required": ["type"],
            "properties": {
                "type": { "enum": ["text", "json_object", "json_schema"] },
                "json_schema": {
                    "type": "object",
                    "required": ["schema"],
                    "properties": {
                        "name": text,
                        "description": text,
                        "schema": { "type": "object" },
                        "strict": { "type": ["boolean", "null"] },
                    }
                },
            }
        },
        "ResponsesRequest": {
            "type": "object",
            "required": ["model", "input"],
            "description": "As OpenAI documents it; docs/responses-fields.md lists the fields.",
        },
        "Response": { "type": "object", "description": "As OpenAI documents it." },
        "MessagesRequest": {
            "type": "object",
            "required": ["model", "messages", "max_tokens"],
            "description": "As Anthropic documents it; docs/messages-fields.md lists the fields.",
        },
        "MessagesResponse": { "type": "object", "description": "As Anthropic documents it." },
        "CountTokensResponse": {
            "type": "object",
            "required": ["input_tokens"],
            "properties": { "input_tokens": { "type": "integer" } }
        },
    })
}
