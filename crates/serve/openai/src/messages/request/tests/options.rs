//! How to generate and to think: what arrives, and what is refused.

use expect_test::expect;
use serde_json::json;

use super::*;
use crate::{JsonText, OutputConstraint, OutputFormat, ToolChoice};

#[test]
fn the_smallest_request_has_defaults() {
    let request = strict(&json!({})).unwrap();
    let expected = ChatRequest {
        model: "m".to_owned(),
        messages: vec![Message::new(Role::User, "hi")],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: true,
        reasoning_effort: None,
        template_arguments: None,
        options: GenerationOptions {
            max_tokens: Some(9),
            include_usage: true,
            ..GenerationOptions::default()
        },
    };
    assert_eq!(request.chat, expected);
    assert!(!request.normalized && !request.omit_thinking);
}

#[test]
fn every_option_arrives() {
    let options = accepted(&json!({
        "stop_sequences": ["a", "b"], "stream": true, "temperature": 0.5, "top_p": 0.25,
        "top_k": 40, "metadata": { "user_id": "u" }, "service_tier": "standard_only",
        "cache_control": { "type": "ephemeral" }, "max_tokens": 7,
        "output_config": { "format": { "type": "json_schema", "schema": { "type": "object" } } },
    }))
    .options;
    let expected = GenerationOptions {
        max_tokens: Some(7),
        temperature: Some(0.5),
        top_p: Some(0.25),
        top_k: Some(40),
        stop: vec!["a".to_owned(), "b".to_owned()],
        stream: true,
        include_usage: true,
        user: Some("u".to_owned()),
        constraint: Some(OutputConstraint {
            format: OutputFormat::JsonSchema(JsonText::parse(r#"{"type":"object"}"#).unwrap()),
            param: "output_config.format.schema",
        }),
        ..GenerationOptions::default()
    };
    assert_eq!(options, expected);
    let older = json!({ "output_format": { "type": "json_schema", "schema": {} } });
    let constraint = accepted(&older).options.constraint.unwrap();
    assert_eq!(constraint.param, "output_format.schema");
}

#[test]
fn thinking_and_effort_become_an_effort() {
    use ReasoningEffort::{ExtraHigh, High, Low, Medium, None as NoEffort};

    let enabled = |budget: i64| json!({ "type": "enabled", "budget_tokens": budget });
    let effort = |effort: &str| json!({ "effort": effort });
    for (thinking, output, expected) in [
        (json!(null), json!(null), None),
        (json!({ "type": "disabled" }), json!(null), Some(NoEffort)),
        (json!({ "type": "adaptive" }), json!(null), None),
        (enabled(4095), json!(null), Some(Low)),
        (enabled(4096), json!(null), Some(Medium)),
        (enabled(16_383), json!(null), Some(Medium)),
        (enabled(16_384), json!(null), Some(High)),
        (json!(null), effort("low"), Some(Low)),
        (json!(null), effort("medium"), Some(Medium)),
        (json!(null), effort("high"), Some(High)),
        (json!(null), effort("xhigh"), Some(ExtraHigh)),
        (json!(null), effort("max"), Some(ExtraHigh)),
        (json!(null), json!({}), None),
        // What is asked for by name counts, unless there is to be no thought at all.
        (enabled(4095), effort("high"), Some(High)),
        (json!({ "type": "adaptive" }), effort("low"), Some(Low)),
        (json!({ "type": "disabled" }), effort("low"), Some(NoEffort)),
    ] {
        let extra = json!({ "thinking": thinking, "output_config": output });
        assert_eq!(accepted(&extra).reasoning_effort, expected, "{extra}");
    }
    for (display, omit) in [("summarized", false), ("omitted", true)] {
        let extra = json!({ "thinking": { "type": "adaptive", "display": display } });
        assert_eq!(strict(&extra).unwrap().omit_thinking, omit);
    }
}

#[test]
fn tokens_are_counted_without_a_limit() {
    let count = |extra: Value| parse_count(&body(&extra), UnknownFields::Refuse, false);
    let request = count(json!({ "max_tokens": null, "system": "s" })).unwrap();
    assert_eq!(request.chat.options.max_tokens, None);
    assert_eq!(request.chat.messages.len(), 2);
    // Nothing is generated, so nothing would have to be continued.
    let ends = json!({ "messages": [{ "role": "assistant", "content": "a" }] });
    assert!(count(ends).is_ok());
    assert!(count(json!({ "unknown": 1 })).is_err());
}

#[test]
fn bad_bodies_are_refused_by_path() {
    refused(
        &[
            json!({ "max_tokens": null }),
            json!({ "max_tokens": 0 }),
            json!({ "max_tokens": "9" }),
            json!({ "model": null }),
            json!({ "model": "" }),
            json!({ "messages": null }),
            json!({ "messages": [] }),
            json!({ "messages": "hi" }),
            json!({ "temperature": 1.5 }),
            json!({ "temperature": -0.5 }),
            json!({ "top_p": 1.5 }),
            json!({ "top_k": -2 }),
            json!({ "stop_sequences": "a" }),
            json!({ "stop_sequences": ["a", ""] }),
            json!({ "stop_sequences": ["a", 5] }),
            json!({ "stop_sequences": vec!["a"; 17] }),
            json!({ "stream": 1 }),
            json!({ "system": 5 }),
            json!({ "system": [{ "type": "image", "source": {} }] }),
            json!({ "system": [{ "type": "text", "text": "a" }, { "type": "text" }] }),
            json!({ "metadata": { "user_id": 5 } }),
        ],
        &expect![[r#"
            Invalid `max_tokens` is required
            Invalid invalid value for `max_tokens`: 0 is not between 1 and 4294967295
            Invalid invalid value for `max_tokens`: invalid type: string "9", expected an integer
            Invalid `model` is required
            Invalid `model` must not be empty
            Invalid `messages` is required
            Invalid `messages` must hold at least one message
            Invalid invalid value for `messages`: invalid type: string "hi", expected a list
            Invalid invalid value for `temperature`: 1.5 is not between 0 and 1
            Invalid invalid value for `temperature`: -0.5 is not between 0 and 1
            Invalid invalid value for `top_p`: 1.5 is not between 0 and 1
            Invalid invalid value for `top_k`: -2 is not between -1 and 4294967295
            Invalid invalid value for `stop_sequences`: invalid type: string "a", expected a list
            Invalid `stop_sequences[1]` must not be empty
            Invalid invalid value for `stop_sequences[1]`: invalid type: integer `5`, expected a string
            Invalid invalid value for `stop_sequences`: more than 16 stop strings
            Invalid invalid value for `stream`: invalid type: integer `1`, expected a boolean
            Invalid invalid value for `system`: invalid type: integer `5`, expected a string or a list of text blocks
            Unsupported `system[0].type`: a block of type `image` is not supported
            Invalid `system[1].text` is required
            Invalid invalid value for `metadata.user_id`: invalid type: integer `5`, expected a string"#]],
    );
}

#[test]
fn bad_thinking_and_bad_formats_are_refused_by_path() {
    refused(
        &[
            json!({ "thinking": {} }),
            json!({ "thinking": { "type": "always" } }),
            json!({ "thinking": { "type": "enabled" } }),
            json!({ "thinking": { "type": "enabled", "budget_tokens": 0 } }),
            json!({ "thinking": { "type": "disabled", "budget_tokens": 5 } }),
            json!({ "thinking": { "type": "adaptive", "display": "loud" } }),
            json!({ "output_config": { "effort": "huge" } }),
            json!({ "output_config": { "format": { "type": "text" } } }),
            json!({ "output_config": { "format": { "type": "json_schema" } } }),
            json!({ "output_format": { "schema": {} } }),
            json!({ "output_format": { "type": "json_schema", "schema": [] } }),
            json!({
                "output_format": { "type": "json_schema", "schema": {} },
                "output_config": { "format": { "type": "json_schema", "schema": {} } },
            }),
        ],
        &expect![[r#"
            Invalid `thinking.type` is required
            Invalid invalid value for `thinking.type`: `always` is not one of enabled, disabled, adaptive
            Invalid `thinking.budget_tokens` is required
            Invalid invalid value for `thinking.budget_tokens`: 0 is not between 1 and 4294967295
            Unsupported `thinking.budget_tokens` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
            Invalid invalid value for `thinking.display`: `loud` is not one of summarized, omitted
            Invalid invalid value for `output_config.effort`: `huge` is not one of low, medium, high, xhigh, max
            Unsupported `output_config.format.type`: a format of type `text` is not supported
            Invalid `output_config.format.schema` is required
            Invalid `output_format.type` is required
            Invalid `output_format.schema` must be a JSON schema, which is an object
            Invalid invalid value for `output_format`: cannot be combined with `output_config.format`"#]],
    );
}
