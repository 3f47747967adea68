//! How to generate, what a conversation begins with, and which values are refused.

use expect_test::expect;
use serde_json::json;

use super::*;
use crate::request::{OutputFormat, ReasoningEffort, Role, ToolChoice};

#[test]
fn the_smallest_request_has_defaults() {
    let request = request(json!({})).unwrap();
    assert_eq!(request.chat.model, "m");
    assert_eq!(request.chat.messages, [Message::new(Role::User, "hi")]);
    assert_eq!(request.chat.options, crate::GenerationOptions::default());
    assert_eq!(request.chat.tool_choice, ToolChoice::Auto);
    assert!(request.chat.parallel_tool_calls);
    assert!(request.store());
    assert_eq!(request.previous_response_id(), None);
}

#[test]
fn every_option_arrives() {
    let request = request(json!({
        "max_output_tokens": 7, "temperature": 0.5, "top_p": 0.25, "top_k": 40, "min_p": 0.125,
        "seed": -3, "presence_penalty": -1.5, "frequency_penalty": 2, "repetition_penalty": 1.5,
        "stop": "a", "stop_token_ids": [5], "logit_bias": { "3": 1 }, "stream": true,
        "user": "u", "conversation_id": "c", "cache_salt": "s",
        "nvext": { "extra_fields": ["worker_id"] }, "chat_template_kwargs": { "a": 1 },
        "reasoning": { "effort": "low", "summary": "auto" }, "store": false,
        "previous_response_id": "resp_1", "instructions": "be brief",
        "text": { "format": { "type": "json_schema", "name": "n", "schema": { "b": 1, "a": 2 } } },
        "parallel_tool_calls": false,
        "tools": [{
            "type": "function", "name": "f", "description": "d", "parameters": {}, "strict": true,
        }],
    }))
    .unwrap();
    let chat = &request.chat;
    let options = &chat.options;
    assert_eq!(options.max_tokens, Some(7));
    assert_eq!(options.temperature, Some(0.5));
    assert_eq!(options.top_p, Some(0.25));
    assert_eq!((options.top_k, options.min_p), (Some(40), Some(0.125)));
    assert_eq!(options.seed, Some(-3));
    assert_eq!(options.presence_penalty, -1.5);
    assert_eq!(options.frequency_penalty, 2.0);
    assert_eq!(options.repetition_penalty, Some(1.5));
    assert_eq!(options.stop, ["a"]);
    assert_eq!(options.stop_token_ids, [5]);
    assert_eq!(options.logit_bias, [(3, 1.0)]);
    assert!(options.stream && options.extensions.worker_id);
    assert_eq!(options.user.as_deref(), Some("u"));
    assert_eq!(options.conversation_id.as_deref(), Some("c"));
    assert_eq!(options.extensions.cache_salt.as_deref(), Some("s"));
    let constraint = options.constraint.as_ref().unwrap();
    assert_eq!(constraint.param, "text.format.schema");
    let schema = JsonText::parse(r#"{"b":1,"a":2}"#).unwrap();
    assert_eq!(constraint.format, OutputFormat::JsonSchema(schema));
    assert_eq!(chat.reasoning_effort, Some(ReasoningEffort::Low));
    assert_eq!(
        chat.template_arguments.as_ref().unwrap().as_str(),
        r#"{"a":1}"#
    );
    assert!(!chat.parallel_tool_calls);
    assert_eq!(chat.tools[0].name, "f");
    assert_eq!(chat.tools[0].description.as_deref(), Some("d"));
    assert!(!request.store());
    assert_eq!(request.previous_response_id(), Some("resp_1"));
    assert_eq!(request.echo.instructions.as_deref(), Some("be brief"));
}

#[test]
fn the_instructions_come_first_and_history_next() {
    let turn = |instructions: Value, store: bool| {
        request(json!({ "instructions": instructions, "store": store }))
            .unwrap()
            .with_history(vec![Message::new(Role::Assistant, "earlier")])
    };
    let with = turn(json!("be brief"), true);
    assert_eq!(
        with.chat.messages,
        [
            Message::new(Role::System, "be brief"),
            Message::new(Role::Assistant, "earlier"),
            Message::new(Role::User, "hi"),
        ]
    );
    assert_eq!(with.added, [Message::new(Role::User, "hi")]);
    let without = turn(json!(null), false);
    assert_eq!(without.chat.messages, with.chat.messages[1..]);
    assert_eq!(without.added, []);
}

#[test]
fn bad_values_are_named() {
    let function = json!({ "type": "function", "name": "f" });
    let schema = json!({ "type": "json_schema", "name": "n", "schema": [] });
    let cases = [
        json!({ "model": null }),
        json!({ "input": null }),
        json!({ "input": [] }),
        json!({ "input": 5 }),
        json!({ "input": ["a"] }),
        json!({ "input": [{ "type": "reasoning", "summary": [] }] }),
        json!({ "max_output_tokens": 0 }),
        json!({ "temperature": 3 }),
        json!({ "metadata": { "a": 1 } }),
        json!({ "metadata": { "a": "b".repeat(513) } }),
        json!({ "reasoning": { "effort": "lots" } }),
        json!({ "text": { "format": { "type": "json_schema", "name": "n" } } }),
        json!({ "text": { "format": schema } }),
        json!({ "text": { "format": { "type": "grammar" } } }),
        json!({ "tools": [{ "type": "function" }] }),
        json!({ "tools": [function, function] }),
        json!({ "tools": [{ "type": "function", "name": "f", "parameters": 5 }] }),
        json!({ "tool_choice": "required" }),
        json!({ "tool_choice": "perhaps" }),
        json!({ "tool_choice": { "type": "function" }, "tools": [function] }),
        json!({ "tool_choice": { "type": "function", "name": "g" }, "tools": [function] }),
        json!({
            "tool_choice": "required", "tools": [function],
            "text": { "format": { "type": "json_object" } },
        }),
        json!({ "chat_template_kwargs": [] }),
    ];
    refused(
        &cases,
        &expect![[r#"
        Invalid model missing_required_parameter: `model` is required
        Invalid input missing_required_parameter: `input` is required
        Invalid input invalid_value: `input` must hold at least one item
        Invalid input invalid_type: invalid value for `input`: invalid type: integer `5`, expected a string or a list of items
        Invalid input[0] invalid_type: invalid value for `input[0]`: invalid type: string "a", expected an item object
        Invalid input invalid_value: `input` must hold more than reasoning without text
        Invalid max_output_tokens invalid_value: invalid value for `max_output_tokens`: 0 is not between 1 and 4294967295
        Invalid temperature invalid_value: invalid value for `temperature`: 3 is not between 0 and 2
        Invalid metadata.a invalid_type: invalid value for `metadata.a`: invalid type: integer `1`, expected a string
        Invalid metadata invalid_value: invalid value for `metadata`: the value of `a` is longer than 512 characters
        Invalid reasoning.effort invalid_value: invalid value for `reasoning.effort`: `lots` is not one of none, minimal, low, medium, high, xhigh
        Invalid text.format.schema missing_required_parameter: `text.format.schema` is required
        Invalid text.format.schema invalid_value: `text.format.schema` must be a JSON schema, which is an object
        Unsupported text.format.type unsupported_value: `text.format.type`: a format of type `grammar` is not supported
        Invalid tools[0].name missing_required_parameter: `tools[0].name` is required
        Invalid tools[1].name invalid_value: invalid value for `tools[1].name`: `f` is the name of another tool too
        Invalid tools[0].parameters invalid_value: invalid value for `tools[0].parameters`: must be a JSON schema, which is an object
        Invalid tool_choice invalid_value: invalid value for `tool_choice`: needs `tools`
        Invalid tool_choice invalid_value: invalid value for `tool_choice`: `perhaps` is not one of none, auto, required
        Invalid tool_choice.name missing_required_parameter: `tool_choice.name` is required
        Invalid tool_choice invalid_value: invalid value for `tool_choice`: `g` is not the name of a tool
        Invalid tool_choice invalid_value: invalid value for `tool_choice`: cannot be combined with `text.format`: the answer is a call or the other
        Invalid chat_template_kwargs invalid_value: invalid value for `chat_template_kwargs`: must be an object"#]],
    );
}

#[test]
fn long_lists_end_where_they_are_read() {
    let refused = |extra: Value| request(extra).unwrap_err().message;
    let item = json!({ "role": "user", "content": "" });
    let tool = json!({ "type": "function", "name": "f" });
    let pairs: serde_json::Map<String, Value> =
        (0..17).map(|at| (at.to_string(), json!(""))).collect();
    let lines = [
        refused(json!({ "input": vec![item; crate::request::MAX_MESSAGES + 1] })),
        refused(json!({ "tools": vec![tool; 129] })),
        refused(json!({ "include": vec![""; 17] })),
        refused(json!({ "metadata": pairs })),
    ];
    expect![[r#"
        invalid value for `input`: more than 65536 items
        invalid value for `tools`: more than 128 tools
        invalid value for `include`: more than 16 entries
        invalid value for `metadata`: more than 16 pairs"#]]
    .assert_eq(&lines.join("\n"));
}
