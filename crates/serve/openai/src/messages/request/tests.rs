//! Bodies as Anthropic's clients send them, and as they should not.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{JsonText, OutputConstraint, OutputFormat, RequestErrorKind, Tool, ToolCall};

/// The smallest body with `extra`, whose nulls remove fields.
fn body(extra: &Value) -> Vec<u8> {
    let mut body = json!({
        "model": "m", "max_tokens": 9, "messages": [{ "role": "user", "content": "hi" }],
    });
    for (name, value) in extra.as_object().unwrap() {
        body[name] = value.clone();
    }
    serde_json::to_vec(&body).unwrap()
}

fn strict(extra: &Value) -> Result<MessagesRequest, RequestError> {
    parse(&body(extra), UnknownFields::Refuse, false)
}

#[track_caller]
fn accepted(extra: &Value) -> ChatRequest {
    strict(extra)
        .unwrap_or_else(|error| panic!("{extra}: {error}"))
        .chat
}

#[track_caller]
fn refused(cases: &[Value], expected: &Expect) {
    let lines: Vec<String> = cases
        .iter()
        .map(|case| match strict(case) {
            Ok(_) => format!("accepted {case}"),
            Err(error) => {
                let path = error.param.as_deref().unwrap_or("-");
                assert!(
                    error.message.contains(&format!("`{path}`")) || path == "-",
                    "{error}"
                );
                format!("{:?} {}", error.kind, error.message)
            }
        })
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

/// Only the user's message of `content`.
fn user(content: Value) -> Value {
    json!({ "messages": [{ "role": "user", "content": content }] })
}

/// The assistant's message of `content`, and one after it.
fn assistant(content: Value) -> Value {
    json!({ "messages": [
        { "role": "assistant", "content": content },
        { "role": "user", "content": "go on" },
    ] })
}

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
fn tools_and_the_choice_among_them_arrive() {
    let tools = json!([
        { "name": "a", "input_schema": { "type": "object", "b": 1, "a": 2 }, "description": "d",
          "cache_control": { "type": "ephemeral" }, "strict": true },
        { "name": "b", "input_schema": {}, "type": "custom", "defer_loading": false,
          "allowed_callers": ["direct"], "eager_input_streaming": true, "input_examples": [] },
    ]);
    let request = accepted(&json!({ "tools": tools }));
    let tool = |name: &str, description: Option<&str>, schema: &str| Tool {
        name: name.to_owned(),
        description: description.map(str::to_owned),
        parameters: Some(JsonText::parse(schema).unwrap()),
    };
    let expected = [
        tool("a", Some("d"), &tools[0]["input_schema"].to_string()),
        tool("b", None, "{}"),
    ];
    assert_eq!(request.tools, expected);
    for (choice, expected, parallel) in [
        (json!({ "type": "auto" }), ToolChoice::Auto, true),
        (
            json!({ "type": "auto", "disable_parallel_tool_use": true }),
            ToolChoice::Auto,
            false,
        ),
        (
            json!({ "type": "any", "disable_parallel_tool_use": false }),
            ToolChoice::Required,
            true,
        ),
        (
            json!({ "type": "tool", "name": "b" }),
            ToolChoice::Named("b".to_owned()),
            true,
        ),
        (json!({ "type": "none" }), ToolChoice::None, true),
    ] {
        let request = accepted(&json!({ "tools": tools, "tool_choice": choice }));
        assert_eq!(request.tool_choice, expected, "{choice}");
        assert_eq!(request.parallel_tool_calls, parallel, "{choice}");
    }
}

#[test]
fn a_conversation_with_tools_becomes_our_messages() {
    let cache = json!({ "type": "ephemeral" });
    let request = accepted(&json!({
        "system": [
            { "type": "text", "text": "You are", "cache_control": cache },
            { "type": "text", "text": "short.", "citations": null },
        ],
        "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "weather?", "citations": [] }] },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "hm", "signature": "x" },
                { "type": "redacted_thinking", "data": "abc" },
                { "type": "text", "text": "I look." },
                { "type": "tool_use", "id": "t1", "name": "get", "input": { "b": 1, "a": 2 },
                  "caller": { "type": "direct" } },
                { "type": "tool_use", "id": "t2", "name": "get", "input": {}, "cache_control": cache },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "t1", "content": "sun", "cache_control": cache },
                { "type": "text", "text": "and" },
                { "type": "tool_result", "tool_use_id": "t2", "is_error": true, "content": [
                    { "type": "text", "text": "no" }, { "type": "text", "text": "net" },
                ] },
                { "type": "text", "text": "now?" },
            ] },
            { "role": "system", "content": "Be quick." },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "", "signature": "" },
                { "type": "text", "text": "ok" },
            ] },
            { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t3" }] },
        ],
    }));
    let result = |id: &str, content: &str| Message {
        tool_call_id: Some(id.to_owned()),
        ..Message::new(Role::Tool, content)
    };
    let call = |id: &str, input: &Value| ToolCall {
        id: Some(id.to_owned()),
        name: "get".to_owned(),
        arguments: JsonText::parse(&input.to_string()).unwrap(),
    };
    let expected = [
        Message::new(Role::System, "You are\nshort."),
        Message::new(Role::User, "weather?"),
        Message {
            tool_calls: vec![
                call("t1", &json!({ "b": 1, "a": 2 })),
                call("t2", &json!({})),
            ],
            reasoning: Some("hm".to_owned()),
            ..Message::new(Role::Assistant, "I look.")
        },
        result("t1", "sun"),
        result("t2", "Error: no\nnet"),
        Message::new(Role::User, "and\nnow?"),
        Message::new(Role::System, "Be quick."),
        Message::new(Role::Assistant, "ok"),
        result("t3", ""),
    ];
    assert_eq!(request.messages, expected);
}

#[test]
fn a_changing_line_is_removed_only_on_request() {
    let header = "x-anthropic-billing-header: cc_version=2.1; cch=1;";
    let blocks = |texts: &[&str]| -> Value {
        let block = |text: &&str| json!({ "type": "text", "text": text });
        texts.iter().map(block).collect()
    };
    let joined = format!("{header}\nYou are");
    for (system, kept, stable) in [
        (
            blocks(&[header, "You are"]),
            Some(&*joined),
            Some("You are"),
        ),
        (json!(joined), Some(&*joined), Some("You are")),
        (json!(header), Some(header), None),
        (json!("You are"), Some("You are"), Some("You are")),
        (json!(""), None, None),
        (json!([]), None, None),
    ] {
        let body = body(&json!({ "system": system }));
        for (normalize, expected) in [(false, kept), (true, stable)] {
            let request = parse(&body, UnknownFields::Refuse, normalize).unwrap();
            let first = &request.chat.messages[0];
            let found = (first.role == Role::System).then_some(&*first.content);
            assert_eq!(found, expected, "{system}");
            assert_eq!(request.normalized, kept != expected, "{system}");
        }
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

#[test]
fn bad_messages_are_refused_by_path() {
    let result = |content: Value| {
        user(json!([{ "type": "tool_result", "tool_use_id": "t", "content": content }]))
    };
    refused(
        &[
            json!({ "messages": ["hi"] }),
            json!({ "messages": [{ "content": "hi" }] }),
            json!({ "messages": [{ "role": "user" }] }),
            json!({ "messages": [{ "role": "tool", "content": "hi" }] }),
            json!({ "messages": [
                { "role": "user", "content": "a" }, { "role": "assistant", "content": "b" },
            ] }),
            user(json!(5)),
            user(json!([])),
            user(json!(["a"])),
            user(json!([{ "text": "a" }])),
            user(json!([{ "type": "text" }])),
            user(json!([{ "type": "text", "text": 5 }])),
            user(json!([{ "type": "text", "text": "a", "citations": [{}] }])),
            user(json!([
                { "type": "text", "text": "a" },
                { "type": "image", "source": { "type": "url", "url": "u" } },
            ])),
            user(json!([{ "type": "document", "source": {}, "title": "t" }])),
            user(json!([{ "type": "search_result", "content": [] }])),
            user(json!([{ "type": "tool_use", "id": "t", "name": "n", "input": {} }])),
            user(json!([{ "type": "tool_result" }])),
            result(json!(5)),
            result(json!([{ "type": "text", "text": "a" }, { "type": "image" }])),
            result(json!([{ "type": "text", "text": "a", "x": 1 }])),
        ],
        &expect![[r#"
            Invalid invalid value for `messages[0]`: invalid type: string "hi", expected a message object
            Invalid `messages[0].role` is required
            Invalid `messages[0].content` is required
            Invalid invalid value for `messages[0].role`: `tool` is not one of user, assistant, system
            Unsupported `messages[1].role`: an answer that continues the assistant's last message is not supported
            Invalid invalid value for `messages[0].content`: invalid type: integer `5`, expected a string or a list of content blocks
            Invalid `messages[0].content` must hold at least one block
            Invalid invalid value for `messages[0].content[0]`: invalid type: string "a", expected a content block object
            Invalid `messages[0].content[0].type` is required
            Invalid `messages[0].content[0].text` is required
            Invalid invalid value for `messages[0].content[0].text`: invalid type: integer `5`, expected a string
            Unsupported `messages[0].content[0].citations` is not supported (citations): leave it out or send an empty one
            Unsupported `messages[0].content[1].type`: a block of type `image` is not supported
            Unsupported `messages[0].content[0].type`: a block of type `document` is not supported
            Unsupported `messages[0].content[0].type`: a block of type `search_result` is not supported
            Invalid invalid value for `messages[0].content[0].type`: only a message of role assistant has such a block
            Invalid `messages[0].content[0].tool_use_id` is required
            Invalid invalid value for `messages[0].content[0].content`: invalid type: integer `5`, expected a string or a list of text blocks
            Unsupported `messages[0].content[0].content[1].type`: a block of type `image` is not supported
            Unsupported `messages[0].content[0].content[0].x` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)"#]],
    );
}

#[test]
fn bad_blocks_of_an_assistant_are_refused_by_path() {
    refused(
        &[
            assistant(json!([{ "type": "tool_result", "tool_use_id": "t" }])),
            assistant(json!([{ "type": "server_tool_use", "id": "t", "name": "n", "input": {} }])),
            assistant(json!([{ "type": "thinking", "signature": "s" }])),
            assistant(json!([{ "type": "tool_use", "name": "n", "input": {} }])),
            assistant(json!([{ "type": "tool_use", "id": "t", "input": {} }])),
            assistant(json!([{ "type": "tool_use", "id": "t", "name": "a b", "input": {} }])),
            assistant(json!([{ "type": "tool_use", "id": "t", "name": "n" }])),
            assistant(json!([{ "type": "tool_use", "id": "t", "name": "n", "input": [] }])),
            assistant(json!([{
                "type": "tool_use", "id": "t", "name": "n", "input": {},
                "caller": { "type": "code_execution_20250825", "tool_id": "x" },
            }])),
            json!({ "messages": [{ "role": "system", "content": [
                { "type": "text", "text": "a" }, { "type": "thinking", "thinking": "b" },
            ] }] }),
        ],
        &expect![[r#"
            Invalid invalid value for `messages[0].content[0].type`: only a message of role user has such a block
            Unsupported `messages[0].content[0].type`: a block of type `server_tool_use` is not supported
            Invalid `messages[0].content[0].thinking` is required
            Invalid `messages[0].content[0].id` is required
            Invalid `messages[0].content[0].name` is required
            Invalid `messages[0].content[0].name` must be 1 to 128 letters, digits, underscores or dashes
            Invalid `messages[0].content[0].input` is required
            Invalid invalid value for `messages[0].content[0].input`: must be an object
            Unsupported `messages[0].content[0].caller` is not supported (calls by code that the server executes): leave it out or send `{"type": "direct"}`
            Invalid invalid value for `messages[0].content[1].type`: only a message of role user or assistant has such a block"#]],
    );
}

#[test]
fn bad_tools_are_refused_by_path() {
    let tool = json!({ "name": "a", "input_schema": {} });
    refused(
        &[
            json!({ "tools": [{ "type": "web_search_20250305", "name": "web_search" }] }),
            json!({ "tools": [tool, { "type": "bash_20250124", "name": "bash" }] }),
            json!({ "tools": [{
                "type": "text_editor_20250728", "name": "str_replace_based_edit_tool",
                "max_characters": 5,
            }] }),
            json!({ "tools": [{ "input_schema": {} }] }),
            json!({ "tools": [{ "name": "a" }] }),
            json!({ "tools": [{ "name": "a b", "input_schema": {} }] }),
            json!({ "tools": [{ "name": "a", "input_schema": [] }] }),
            json!({ "tools": [tool, tool] }),
            json!({ "tools": [{ "name": "a", "input_schema": {}, "defer_loading": true }] }),
            json!({ "tools": [{ "name": "a", "input_schema": {}, "x": 1 }] }),
            json!({ "tools": vec![tool.clone(); 1025] }),
            json!({ "tools": [tool], "tool_choice": "auto" }),
            json!({ "tools": [tool], "tool_choice": {} }),
            json!({ "tools": [tool], "tool_choice": { "type": "required" } }),
            json!({ "tools": [tool], "tool_choice": { "type": "tool" } }),
            json!({ "tools": [tool], "tool_choice": { "type": "tool", "name": "b" } }),
            json!({ "tools": [tool], "tool_choice": { "type": "auto", "name": "a" } }),
            json!({ "tool_choice": { "type": "any" } }),
            json!({
                "tools": [tool], "tool_choice": { "type": "any" },
                "output_format": { "type": "json_schema", "schema": {} },
            }),
        ],
        &expect![[r#"
            Unsupported `tools[0].type`: a tool of type `web_search_20250305` is not supported
            Unsupported `tools[1].type`: a tool of type `bash_20250124` is not supported
            Unsupported `tools[0].type`: a tool of type `text_editor_20250728` is not supported
            Invalid `tools[0].name` is required
            Invalid `tools[0].input_schema` is required
            Invalid `tools[0].name` must be 1 to 128 letters, digits, underscores or dashes
            Invalid invalid value for `tools[0].input_schema`: must be a JSON schema, which is an object
            Invalid invalid value for `tools[1].name`: `a` is the name of another tool too
            Unsupported `tools[0].defer_loading` is not supported (tools that the model must search): leave it out or send `false`
            Unsupported `tools[0].x` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
            Invalid invalid value for `tools`: more than 1024 tools
            Invalid invalid value for `tool_choice`: invalid type: string "auto", expected a tool choice object
            Invalid `tool_choice.type` is required
            Invalid invalid value for `tool_choice.type`: `required` is not one of auto, any, tool, none
            Invalid `tool_choice.name` is required
            Invalid invalid value for `tool_choice`: `b` is not the name of a tool
            Unsupported `tool_choice.name` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
            Invalid invalid value for `tool_choice`: needs `tools`
            Invalid invalid value for `tool_choice`: cannot be combined with `output_format.schema`: the answer is a call or the other"#]],
    );
}

#[test]
fn what_would_be_ignored_is_refused() {
    refused(
        &[
            json!({ "container": "c" }),
            json!({ "mcp_servers": [{ "type": "url" }] }),
            json!({ "inference_geo": "us" }),
            json!({ "service_tier": "priority" }),
            json!({ "speed": "fast" }),
            json!({ "fallbacks": [{ "model": "n" }] }),
            json!({ "betas": ["a"] }),
            json!({ "output_config": { "task_budget": { "type": "tokens", "total": 5 } } }),
            json!({ "context_management": { "edits": [{ "type": "clear_tool_uses_20250919" }] } }),
            json!({ "context_management": { "edits": [{ "type": "clear_thinking_20251015" }] } }),
            json!({ "context_management": { "edits": [{}] } }),
        ],
        &expect![[r#"
            Unsupported `container` is not supported (code execution by the server): leave it out
            Unsupported `mcp_servers` is not supported (tools that the server calls): leave it out or send an empty one
            Unsupported `inference_geo` is not supported (a choice of regions): leave it out or send `"global"`
            Unsupported `service_tier` is not supported (a choice of service tiers): leave it out or send `"auto"` or `"standard_only"`
            Unsupported `speed` is not supported (a choice of service tiers): leave it out or send `"standard"`
            Unsupported `fallbacks` is not supported (other models that may answer): leave it out or send an empty one
            Unsupported `betas` is not supported (features under test, which only the header `anthropic-beta` may name): leave it out or send an empty one
            Unsupported `output_config.task_budget` is not supported (a budget of tokens for several answers): leave it out
            Unsupported `context_management.edits[0].type`: an edit of type `clear_tool_uses_20250919` is not supported
            Unsupported `context_management.edits[0].keep`: anything but `all` is not supported
            Invalid `context_management.edits[0].type` is required"#]],
    );
}

#[test]
fn what_nobody_knows_is_refused_unless_the_operator_lets_it_pass() {
    let cases = [
        json!({ "n": 2 }),
        json!({ "metadata": { "x": 1 } }),
        json!({ "thinking": { "type": "adaptive", "x": 1 } }),
        json!({ "output_config": { "x": 1 } }),
        json!({ "output_format": { "type": "json_schema", "schema": {}, "x": 1 } }),
        json!({ "tools": [{ "name": "a", "input_schema": {}, "x": 1 }] }),
        json!({ "tool_choice": { "type": "auto", "x": 1 } }),
        json!({ "context_management": { "x": 1 } }),
        json!({ "context_management": { "edits": [
            { "type": "clear_thinking_20251015", "keep": "all", "x": 1 },
        ] } }),
        json!({ "system": [{ "type": "text", "text": "a", "x": 1 }] }),
        json!({ "messages": [{ "role": "user", "content": "hi", "x": 1 }] }),
        user(json!([{ "type": "text", "text": "hi", "x": 1 }])),
        user(json!([{ "type": "text", "text": "hi", "name": "n" }])),
        user(json!([{ "type": "text", "text": "hi", "is_error": false }])),
        assistant(
            json!([{ "type": "tool_use", "id": "t", "name": "n", "input": {}, "content": "" }]),
        ),
    ];
    for case in &cases {
        let error = strict(case).unwrap_err();
        assert_eq!(error.code, Some("unknown_parameter"), "{error}");
        let passed = parse(&body(case), UnknownFields::Ignore, false);
        assert!(passed.is_ok(), "{case}: {passed:?}");
    }
    // An unknown field does not hide what is wrong after it.
    let hidden = user(json!([
        { "type": "text", "text": "hi", "x": 1 },
        { "type": "image", "source": {} },
    ]));
    let error = parse(&body(&hidden), UnknownFields::Ignore, false).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("messages[0].content[1].type"));
}

#[test]
fn what_asks_for_nothing_is_accepted() {
    let request = accepted(&json!({
        "container": null, "mcp_servers": [], "inference_geo": "global", "service_tier": "auto",
        "speed": "standard", "fallbacks": [], "betas": [], "tools": [], "system": "",
        "output_config": {}, "metadata": {}, "stop_sequences": [], "thinking": null,
        "user_profile_id": "p", "tool_choice": { "type": "auto" },
        "context_management": { "edits": [
            { "type": "clear_thinking_20251015", "keep": "all" },
            { "type": "clear_thinking_20251015", "keep": { "type": "all" } },
        ] },
    }));
    assert_eq!(request, accepted(&json!({})));
}

/// The parameters of `client.messages.create` and `client.beta.messages.create` of Anthropic's
/// Python client, and values for them that ask for something.
#[test]
fn every_parameter_of_the_official_client_is_honoured_or_refused() {
    let honoured = [
        ("max_tokens", json!(5)),
        ("messages", json!([{ "role": "user", "content": "other" }])),
        ("model", json!("other")),
        (
            "output_config",
            json!({ "format": { "type": "json_schema", "schema": {} } }),
        ),
        (
            "output_format",
            json!({ "type": "json_schema", "schema": {} }),
        ),
        ("metadata", json!({ "user_id": "u" })),
        ("stop_sequences", json!(["a"])),
        ("stream", json!(true)),
        ("system", json!("s")),
        ("temperature", json!(0.5)),
        ("thinking", json!({ "type": "disabled" })),
        (
            "tool_choice",
            json!({ "type": "none", "disable_parallel_tool_use": true }),
        ),
        ("tools", json!([{ "name": "a", "input_schema": {} }])),
        ("top_k", json!(5)),
        ("top_p", json!(0.5)),
    ];
    // They change no answer.
    let accepted_as_they_are = [
        ("cache_control", json!({ "type": "ephemeral", "ttl": "1h" })),
        ("service_tier", json!("standard_only")),
        ("user_profile_id", json!("p")),
        ("workspace_id", json!("w")),
        ("diagnostics", json!({ "previous_message_id": "msg_1" })),
    ];
    let refused = [
        ("container", json!({ "skills": [{}] })),
        (
            "context_management",
            json!({ "edits": [{ "type": "compact_20260112" }] }),
        ),
        ("fallback_credit_token", json!("t")),
        ("fallbacks", json!([{ "model": "n" }])),
        ("inference_geo", json!("us")),
        ("mcp_servers", json!([{ "type": "url" }])),
        ("speed", json!("fast")),
        ("betas", json!(["a"])),
        ("compaction", json!({ "a": 1 })),
        ("thread", json!({ "a": 1 })),
    ];
    let plain = accepted(&json!({}));
    for (name, value) in honoured {
        assert_ne!(accepted(&json!({ name: value })), plain, "{name}");
    }
    for (name, value) in accepted_as_they_are {
        assert_eq!(accepted(&json!({ name: value })), plain, "{name}");
    }
    for (name, value) in refused {
        let error = strict(&json!({ name: value })).unwrap_err();
        assert_eq!(error.kind, RequestErrorKind::Unsupported, "{name}: {error}");
        // Known by name: no operator's choice lets it pass.
        let lenient = parse(&body(&json!({ name: value })), UnknownFields::Ignore, false);
        assert!(lenient.is_err(), "{name}");
    }
}

#[test]
fn long_lists_end_where_they_are_read() {
    let call = json!({ "type": "tool_use", "id": "t", "name": "n", "input": {} });
    let result = json!({ "type": "tool_result", "tool_use_id": "t" });
    let text = json!({ "type": "text", "text": "a" });
    for (role, block) in [("assistant", &call), ("user", &result)] {
        let message = |count: usize| {
            let mut blocks = vec![block.clone(); count];
            blocks.push(text.clone());
            let last = json!({ "role": "user", "content": "go on" });
            json!({ "messages": [{ "role": role, "content": blocks }, last] })
        };
        assert!(strict(&message(128)).is_ok());
        let error = strict(&message(129)).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("messages[0].content"));
        assert_eq!(error.code, Some("invalid_value"), "{error}");
    }
    let many = json!({ "messages": vec![json!({}); 65_537] });
    let error = strict(&many).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("messages"), "{error}");
    let parts = vec![json!({ "type": "text", "text": "" }); 100_000];
    assert_eq!(
        accepted(&user(json!(parts))).messages[0].content.len(),
        99_999
    );
}

#[test]
fn long_names_make_no_long_answer() {
    let long = "x".repeat(1 << 20);
    for case in [
        json!({ long.clone(): 1 }),
        user(json!([{ "type": long }])),
        user(json!([{ "type": "text", "text": "a", long.clone(): 1 }])),
        json!({ "messages": [{ "role": long, "content": "a" }] }),
        json!({ "tools": [{ "type": long }] }),
        json!({ "tool_choice": { "type": long } }),
        json!({ "thinking": { "type": long } }),
        json!({ "output_config": { "effort": long } }),
        json!({ "output_format": { "type": long } }),
        json!({ "context_management": { "edits": [{ "type": long }] } }),
    ] {
        let error = strict(&case).unwrap_err();
        assert!(error.message.len() < 300, "{} bytes", error.message.len());
    }
}

proptest! {
    /// Whatever arrives, there is a request with a message or an error with a text.
    #[test]
    fn any_change_of_a_body_is_answered(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut body = body(&json!({
            "system": [{ "type": "text", "text": "x-anthropic-billing-header: a\nYou" }],
            "tools": [{ "name": "a", "input_schema": {} }], "tool_choice": { "type": "any" },
            "thinking": { "type": "enabled", "budget_tokens": 5 },
            "messages": [
                { "role": "assistant", "content": [
                    { "type": "tool_use", "id": "t", "name": "a", "input": { "b": [1] } },
                ] },
                { "role": "user", "content": [
                    { "type": "tool_result", "tool_use_id": "t", "content": [
                        { "type": "text", "text": "a" },
                    ] },
                ] },
            ],
        }));
        for (index, byte) in changes {
            let index = index.index(body.len());
            body[index] = byte;
        }
        if cut {
            body.truncate(length.index(body.len()));
        }
        for unknown in [UnknownFields::Refuse, UnknownFields::Ignore] {
            match parse(&body, unknown, true) {
                Ok(request) => prop_assert!(!request.chat.messages.is_empty()),
                Err(error) => prop_assert!(!error.message.is_empty()),
            }
        }
    }
}
