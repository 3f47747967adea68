//! Requests as clients send them, and as they should not; and what answers look like.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::request::{
    JsonText, Message, OutputFormat, ReasoningEffort, RequestError, Role, ToolCall, ToolChoice,
    UnknownFields,
};
use crate::response::{CallMade, ChatMessage, ErrorBody, FinishReason, Usage};

fn body(extra: Value) -> Vec<u8> {
    let mut body = json!({ "model": "m", "input": "hi" });
    let Value::Object(extra) = extra else {
        panic!("an object")
    };
    for (name, value) in extra {
        body[name] = value;
    }
    serde_json::to_vec(&body).unwrap()
}

fn request(extra: Value) -> Result<ResponsesRequest, RequestError> {
    parse(&body(extra), UnknownFields::Refuse)
}

fn messages(input: Value) -> Vec<Message> {
    request(json!({ "input": input })).unwrap().chat.messages
}

fn describe(error: &RequestError) -> String {
    format!(
        "{:?} {} {}: {}",
        error.kind,
        error.param.as_deref().unwrap_or("-"),
        error.code.unwrap_or("-"),
        error.message
    )
}

#[track_caller]
fn refused(cases: &[Value], expected: &Expect) {
    let lines: Vec<String> = cases
        .iter()
        .map(|case| match request(case.clone()) {
            Ok(_) => format!("accepted {case}"),
            Err(error) => describe(&error),
        })
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

#[track_caller]
fn refused_items(items: &[Value], expected: &Expect) {
    let cases: Vec<Value> = items
        .iter()
        .map(|item| json!({ "input": [{ "role": "user", "content": "hi" }, item] }))
        .collect();
    refused(&cases, expected);
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: Some(id.to_owned()),
        name: name.to_owned(),
        arguments: JsonText::parse(arguments).unwrap(),
    }
}

fn tool_output(id: &str, content: &str) -> Message {
    Message {
        tool_call_id: Some(id.to_owned()),
        ..Message::new(Role::Tool, content)
    }
}

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
    assert_eq!((options.top_k, options.min_p), (Some(40), 0.125));
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
fn messages_of_every_kind_arrive() {
    let parts = json!([
        { "type": "input_text", "text": "a", "prompt_cache_breakpoint": { "mode": "explicit" } },
        { "type": "input_text", "text": "b" },
    ]);
    assert_eq!(
        messages(json!([
            { "role": "developer", "content": "d" },
            { "type": "message", "role": "system", "content": "s" },
            { "role": "user", "content": parts },
            {
                "type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
                "phase": null, "content": [{
                    "type": "output_text", "text": "c", "annotations": [], "logprobs": [],
                }],
            },
            { "role": "assistant", "content": "another" },
        ])),
        [
            Message::new(Role::Developer, "d"),
            Message::new(Role::System, "s"),
            Message::new(Role::User, "a\nb"),
            Message::new(Role::Assistant, "c"),
            Message::new(Role::Assistant, "another"),
        ]
    );
}

#[test]
fn the_items_of_one_turn_become_one_message() {
    let reasoning = |text: &str| {
        json!({
            "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": null,
            "content": [{ "type": "reasoning_text", "text": text }],
        })
    };
    let function_call = |id: &str| {
        json!({
            "type": "function_call", "call_id": id, "name": "f", "arguments": "{\"a\": 1}",
            "id": "fc_1", "status": "completed",
        })
    };
    let assistant = |text: &str| json!({ "role": "assistant", "content": text });
    let output = |id: &str, output: Value| {
        json!({
            "type": "function_call_output", "call_id": id, "output": output,
        })
    };
    let turn = |content: &str, thought: Option<&str>, calls: &[&str]| Message {
        reasoning: thought.map(str::to_owned),
        tool_calls: calls.iter().map(|id| call(id, "f", "{\"a\": 1}")).collect(),
        ..Message::new(Role::Assistant, content)
    };
    let encrypted = json!({ "type": "reasoning", "summary": [], "encrypted_content": "x" });
    let cases = [
        (
            json!([
                reasoning("why"),
                assistant("t"),
                function_call("1"),
                function_call("2")
            ]),
            vec![turn("t", Some("why"), &["1", "2"])],
        ),
        (
            json!([reasoning("a"), reasoning("b"), function_call("1")]),
            vec![turn("", Some("a\nb"), &["1"])],
        ),
        (
            json!([
                function_call("1"),
                function_call("2"),
                output("2", json!("two")),
                output("1", json!([{ "type": "input_text", "text": "one" }])),
                encrypted,
                function_call("3"),
            ]),
            vec![
                turn("", None, &["1", "2"]),
                tool_output("2", "two"),
                tool_output("1", "one"),
                turn("", None, &["3"]),
            ],
        ),
        (
            json!([function_call("1"), assistant("t"), { "role": "user", "content": "u" }]),
            vec![turn("t", None, &["1"]), Message::new(Role::User, "u")],
        ),
        (
            json!([assistant("a"), reasoning("why"), assistant("b")]),
            vec![turn("a", None, &[]), turn("b", Some("why"), &[])],
        ),
        (json!([reasoning("why")]), vec![turn("", Some("why"), &[])]),
    ];
    for (input, expected) in cases {
        assert_eq!(messages(input.clone()), expected, "{input}");
    }
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
fn what_asks_for_nothing_is_accepted() {
    let neutral = json!({
        "background": false, "conversation": null, "prompt": null, "truncation": "disabled",
        "context_management": [], "max_tool_calls": null, "top_logprobs": 0,
        "service_tier": "auto", "moderation": null, "prompt_cache_options": {},
        "prompt_cache_retention": "24h", "stream_options": { "include_obfuscation": false },
        "include": ["reasoning.encrypted_content"], "tools": [], "tool_choice": "auto",
        "text": { "format": { "type": "text" }, "verbosity": "medium" },
        "reasoning": { "effort": null, "summary": null, "context": "auto", "mode": "standard" },
    });
    assert_eq!(request(neutral).unwrap(), request(json!({})).unwrap());
    let unknown = body(json!({ "nobody": 1, "text": { "knows": 1 }, "input": [
        { "role": "user", "content": [{ "type": "input_text", "text": "hi", "it": 1 }], "it": 1 },
    ] }));
    let lenient = parse(&unknown, UnknownFields::Ignore).unwrap();
    assert_eq!(lenient, request(json!({})).unwrap());
}

/// The parameters of `client.responses.create` in OpenAI's Python client 3.51, each with a value
/// that asks for something.
fn client_parameters() -> Vec<(&'static str, Value)> {
    let function = json!({ "type": "function", "name": "f", "parameters": {}, "strict": true });
    vec![
        ("access_programs", json!({ "cyber": "standard" })),
        ("background", json!(true)),
        ("context_management", json!([{ "type": "compaction" }])),
        ("conversation", json!("conv_1")),
        ("image", json!({ "context_compression": "enabled" })),
        ("include", json!(["message.output_text.logprobs"])),
        ("input", json!("other")),
        ("instructions", json!("be brief")),
        ("max_output_tokens", json!(5)),
        ("max_tool_calls", json!(1)),
        ("metadata", json!({ "a": "b" })),
        ("model", json!("other")),
        ("moderation", json!({ "model": "m" })),
        ("parallel_tool_calls", json!(false)),
        ("previous_response_id", json!("resp_1")),
        ("prompt", json!({ "id": "pmpt_1" })),
        ("prompt_cache_key", json!("k")),
        ("prompt_cache_options", json!({ "prewarm": true })),
        ("prompt_cache_retention", json!("24h")),
        ("reasoning", json!({ "effort": "high" })),
        ("safety_identifier", json!("s")),
        ("service_tier", json!("flex")),
        ("store", json!(false)),
        ("stream", json!(true)),
        ("stream_options", json!({ "include_obfuscation": true })),
        ("temperature", json!(0.5)),
        ("text", json!({ "format": { "type": "json_object" } })),
        ("tool_choice", json!("none")),
        ("tools", json!([function])),
        ("top_logprobs", json!(2)),
        ("top_p", json!(0.5)),
        ("truncation", json!("auto")),
        ("user", json!("u")),
    ]
}

#[test]
fn every_parameter_of_the_official_client_is_honoured_or_refused() {
    let plain = request(json!({})).unwrap();
    let lines: Vec<String> = client_parameters()
        .into_iter()
        .map(|(name, value)| match request(json!({ name: value })) {
            Ok(request) if request.chat != plain.chat => format!("{name}: honoured"),
            Ok(request) if request != plain => format!("{name}: repeated, or for the store"),
            Ok(_) => format!("{name}: changes no answer"),
            Err(error) => describe(&error),
        })
        .collect();
    expect![[r#"
        Unsupported access_programs unsupported_parameter: `access_programs` is not supported (access programs): leave it out
        Unsupported background unsupported_parameter: `background` is not supported (answers to fetch later): leave it out or send `false`
        Unsupported context_management unsupported_parameter: `context_management` is not supported (compaction of conversations): leave it out or send an empty one
        Unsupported conversation unsupported_parameter: `conversation` is not supported (stored conversations other than by `previous_response_id`): leave it out
        Unsupported image unsupported_parameter: `image` is not supported (images): leave it out
        Unsupported include[0] unsupported_value: `include[0]`: `message.output_text.logprobs` is not supported
        input: honoured
        instructions: repeated, or for the store
        max_output_tokens: honoured
        Unsupported max_tool_calls unsupported_parameter: `max_tool_calls` is not supported (tools of the server): leave it out
        metadata: repeated, or for the store
        model: honoured
        Unsupported moderation unsupported_parameter: `moderation` is not supported (moderation): leave it out
        parallel_tool_calls: honoured
        previous_response_id: repeated, or for the store
        Unsupported prompt unsupported_parameter: `prompt` is not supported (stored prompts): leave it out
        prompt_cache_key: repeated, or for the store
        Unsupported prompt_cache_options unsupported_parameter: `prompt_cache_options` is not supported (prefixes are found by their content): leave it out or send an empty one
        prompt_cache_retention: changes no answer
        reasoning: honoured
        safety_identifier: repeated, or for the store
        Unsupported service_tier unsupported_parameter: `service_tier` is not supported (a choice of service tiers): leave it out or send `"auto"` or `"default"`
        store: repeated, or for the store
        stream: honoured
        Unsupported stream_options.include_obfuscation unsupported_parameter: `stream_options.include_obfuscation` is not supported (padding of events): leave it out or send `false`
        temperature: honoured
        text: honoured
        tool_choice: honoured
        tools: honoured
        Unsupported top_logprobs unsupported_parameter: `top_logprobs` is not supported (log-probabilities: use `/v1/chat/completions`): leave it out or send `0`
        top_p: honoured
        Unsupported truncation unsupported_parameter: `truncation` is not supported (cutting prompts): leave it out or send `"disabled"`
        user: honoured"#]].assert_eq(&lines.join("\n"));
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
fn what_cannot_be_honoured_is_refused_by_name() {
    let tool = |kind: &str| json!({ "tools": [{ "type": kind, "name": "t" }] });
    let cases = [
        tool("web_search"),
        tool("file_search"),
        tool("code_interpreter"),
        tool("mcp"),
        tool("image_generation"),
        tool("local_shell"),
        tool("custom"),
        json!({ "tools": [{ "type": "function", "name": "f", "defer_loading": true }] }),
        json!({ "tool_choice": { "type": "allowed_tools", "mode": "auto", "tools": [] } }),
        json!({ "text": { "verbosity": "low" } }),
        json!({ "reasoning": { "summary": "detailed" } }),
        json!({ "include": ["reasoning.encrypted_content", "file_search_call.results"] }),
        json!({ "max_tokens": 5 }),
        json!({ "messages": [] }),
        json!({ "nobody": 5 }),
        json!({ "stream_options": { "include_usage": true } }),
        json!({ "nvext": { "nobody": 5 } }),
    ];
    refused(
        &cases,
        &expect![[r#"
        Unsupported tools[0].type unsupported_value: `tools[0].type`: a tool of type `web_search` is not supported
        Unsupported tools[0].type unsupported_value: `tools[0].type`: a tool of type `file_search` is not supported
        Unsupported tools[0].type unsupported_value: `tools[0].type`: a tool of type `code_interpreter` is not supported
        Unsupported tools[0].type unsupported_value: `tools[0].type`: a tool of type `mcp` is not supported
        Unsupported tools[0].type unsupported_value: `tools[0].type`: a tool of type `image_generation` is not supported
        Unsupported tools[0].type unsupported_value: `tools[0].type`: a tool of type `local_shell` is not supported
        Unsupported tools[0].type unsupported_value: `tools[0].type`: a tool of type `custom` is not supported
        Unsupported tools[0].defer_loading unsupported_parameter: `tools[0].defer_loading` is not supported (a search for tools): leave it out or send `false`
        Unsupported tool_choice.type unsupported_value: `tool_choice.type`: a choice of type `allowed_tools` is not supported
        Unsupported text.verbosity unsupported_parameter: `text.verbosity` is not supported (control of an answer's length other than by `max_output_tokens`): leave it out or send `"medium"`
        Unsupported reasoning.summary unsupported_parameter: `reasoning.summary` is not supported (summaries: the reasoning itself is in the answer): leave it out or send `"auto"`
        Unsupported include[1] unsupported_value: `include[1]`: `file_search_call.results` is not supported
        Unsupported max_tokens unsupported_parameter: `max_tokens` is not supported (use `max_output_tokens`): leave it out
        Unsupported messages unsupported_parameter: `messages` is not supported (use `input`): leave it out
        Unsupported nobody unknown_parameter: `nobody` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
        Unsupported stream_options.include_usage unknown_parameter: `stream_options.include_usage` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
        Unsupported nvext.nobody unknown_parameter: `nvext.nobody` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)"#]],
    );
}

#[test]
fn items_that_cannot_be_used_are_refused_by_name() {
    let user = |part: Value| json!({ "role": "user", "content": [part] });
    let text = json!({ "type": "input_text", "text": "a" });
    let refusal = json!({ "type": "refusal", "refusal": "no" });
    let items = [
        json!({ "type": "item_reference", "id": "msg_1" }),
        json!({ "type": "web_search_call", "id": "ws_1", "status": "completed" }),
        json!({ "type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "" }),
        user(json!({ "type": "input_image", "image_url": "data:" })),
        user(json!({ "type": "input_file", "file_id": "f" })),
        user(json!({ "type": "input_audio" })),
        user(json!({ "type": "text", "text": "a" })),
        user(json!({ "text": "a" })),
        user(json!({ "type": "input_text" })),
        user(json!({ "type": "input_text", "text": 5 })),
        user(json!({ "type": "input_text", "text": "a", "nobody": 1 })),
        json!({ "role": "assistant", "content": [{ "type": "output_text", "text": "" }, refusal] }),
        json!({ "role": "user", "content": [] }),
        json!({ "role": "user", "content": [text, { "type": "reasoning_text", "text": "b" }] }),
        json!({ "role": "user" }),
        json!({ "content": "a" }),
        json!({ "role": "tool", "content": "a" }),
        json!({ "role": "user", "content": "a", "arguments": "{}" }),
        json!({ "role": "user", "content": "a", "nobody": 1 }),
        json!({ "type": "function_call", "name": "f", "arguments": "{}" }),
        json!({ "type": "function_call", "call_id": "c", "arguments": "{}" }),
        json!({ "type": "function_call", "call_id": "c", "name": "f", "arguments": "[1" }),
        json!({ "type": "function_call", "call_id": "c", "name": "f", "namespace": "n" }),
        json!({ "type": "function_call_output", "call_id": "c" }),
        json!({ "type": "function_call_output", "output": "o" }),
        json!({ "type": "function_call_output", "call_id": "c", "output": [refusal] }),
        json!({ "type": "reasoning", "content": [text] }),
    ];
    refused_items(
        &items,
        &expect![[r#"
        Unsupported input[1].type unsupported_value: `input[1].type`: an item of type `item_reference` is not supported
        Unsupported input[1].type unsupported_value: `input[1].type`: an item of type `web_search_call` is not supported
        Unsupported input[1].type unsupported_value: `input[1].type`: an item of type `custom_tool_call` is not supported
        Unsupported input[1].content[0].type unsupported_value: `input[1].content[0].type`: a part of type `input_image` is not supported
        Unsupported input[1].content[0].type unsupported_value: `input[1].content[0].type`: a part of type `input_file` is not supported
        Unsupported input[1].content[0].type unsupported_value: `input[1].content[0].type`: a part of type `input_audio` is not supported
        Unsupported input[1].content[0].type unsupported_value: `input[1].content[0].type`: a part of type `text` is not supported
        Invalid input[1].content[0].type missing_required_parameter: `input[1].content[0].type` is required
        Invalid input[1].content[0].text missing_required_parameter: `input[1].content[0].text` is required
        Invalid input[1].content[0].text invalid_type: invalid value for `input[1].content[0].text`: invalid type: integer `5`, expected a string
        Unsupported input[1].content[0].nobody unknown_parameter: `input[1].content[0].nobody` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
        Unsupported input[1].content[1].type unsupported_value: `input[1].content[1].type`: a part of type `refusal` is not supported
        Invalid input[1].content invalid_value: `input[1].content` must hold at least one part
        Unsupported input[1].content[1].type unsupported_value: `input[1].content[1].type`: a part of type `reasoning_text` is not supported
        Invalid input[1].content missing_required_parameter: `input[1].content` is required
        Invalid input[1].role missing_required_parameter: `input[1].role` is required
        Invalid input[1].role invalid_value: invalid value for `input[1].role`: `tool` is not one of user, system, developer, assistant
        Unsupported input[1].arguments unknown_parameter: `input[1].arguments` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
        Unsupported input[1].nobody unknown_parameter: `input[1].nobody` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
        Invalid input[1].call_id missing_required_parameter: `input[1].call_id` is required
        Invalid input[1].name missing_required_parameter: `input[1].name` is required
        Invalid input[1].arguments invalid_value: invalid value for `input[1].arguments`: must be the text of a JSON object: EOF while parsing a list at line 1 column 2
        Unsupported input[1].namespace unsupported_parameter: `input[1].namespace` is not supported (namespaces of functions): leave it out
        Invalid input[1].output missing_required_parameter: `input[1].output` is required
        Invalid input[1].call_id missing_required_parameter: `input[1].call_id` is required
        Unsupported input[1].output[0].type unsupported_value: `input[1].output[0].type`: a part of type `refusal` is not supported
        Unsupported input[1].content[0].type unsupported_value: `input[1].content[0].type`: a part of type `input_text` is not supported"#]],
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

fn answer(message: ChatMessage, finish: FinishReason) -> Response {
    let echo = request(json!({})).unwrap().echo;
    Response::new("resp_1", 1_700_000_000, "m", echo).answered(
        message,
        Some(finish),
        &Usage::new(12, 5, 8),
    )
}

fn calling(arguments: &[&str]) -> ChatMessage {
    let calls = arguments.iter().enumerate().map(|(at, arguments)| {
        let mut call = CallMade::new(format!("call_{at}"), "f".to_owned());
        call.function.arguments = (*arguments).to_owned();
        call
    });
    ChatMessage {
        reasoning_content: Some("why".to_owned()),
        tool_calls: calls.collect(),
        ..ChatMessage::assistant("text".to_owned())
    }
}

#[test]
fn an_answer_looks_like_this() {
    let request = request(json!({
        "instructions": "be brief", "max_output_tokens": 9, "temperature": 0.5,
        "metadata": { "a": "b" }, "reasoning": { "effort": "low" }, "previous_response_id": "resp_0",
        "tools": [{ "type": "function", "name": "f", "parameters": {} }],
        "tool_choice": { "type": "function", "name": "f" },
    }))
    .unwrap();
    let response = Response::new("resp_1", 1_700_000_000, "m", request.echo).answered(
        calling(&["{}"]),
        Some(FinishReason::ToolCalls),
        &Usage::new(12, 5, 8),
    );
    let text = serde_json::to_string(&response).unwrap();
    let members: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
    let lines: Vec<String> = members
        .into_iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    expect![[r#"
        id: "resp_1"
        object: "response"
        created_at: 1700000000
        status: "completed"
        error: null
        incomplete_details: null
        model: "m"
        output: [{"type":"reasoning","id":"rs_1_0","summary":[],"content":[{"type":"reasoning_text","text":"why"}],"encrypted_content":null,"status":"completed"},{"type":"message","id":"msg_1_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"text","annotations":[],"logprobs":[]}]},{"type":"function_call","id":"fc_1_2","call_id":"call_0","name":"f","arguments":"{}","status":"completed"}]
        usage: {"input_tokens":12,"input_tokens_details":{"cached_tokens":8,"cache_write_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":17}
        instructions: "be brief"
        previous_response_id: "resp_0"
        store: true
        max_output_tokens: 9
        max_tool_calls: null
        temperature: 0.5
        top_p: null
        top_logprobs: 0
        text: {"format":{"type":"text"}}
        reasoning: {"effort":"low","summary":null}
        tools: [{"type":"function","name":"f","description":null,"parameters":{},"strict":null}]
        tool_choice: {"type":"function","name":"f"}
        parallel_tool_calls: true
        truncation: "disabled"
        service_tier: "default"
        background: false
        metadata: {"a":"b"}
        user: null
        safety_identifier: null
        prompt_cache_key: null"#]].assert_eq(&lines.join("\n"));
    assert_eq!(
        serde_json::from_str::<Response>(&text).unwrap(),
        response,
        "reads back"
    );
}

#[test]
fn formats_and_choices_read_back() {
    for extra in [
        json!({ "text": { "format": { "type": "json_object" } } }),
        json!({ "text": { "format": {
            "type": "json_schema", "name": "n", "description": "d", "schema": {}, "strict": true,
        } } }),
        json!({ "tool_choice": "none" }),
    ] {
        let echo = request(extra.clone()).unwrap().echo;
        let response = Response::new("resp_1", 5, "m", echo);
        let text = serde_json::to_string(&response).unwrap();
        assert_eq!(serde_json::from_str::<Response>(&text).unwrap(), response);
        for (name, value) in extra.as_object().unwrap() {
            assert_eq!(
                &serde_json::from_str::<Value>(&text).unwrap()[name],
                value,
                "repeated"
            );
        }
    }
}

#[test]
fn an_answer_that_was_cut_is_incomplete() {
    let response = answer(calling(&["{}", "{\"a\": "]), FinishReason::Length);
    assert_eq!(response.status, ResponseStatus::Incomplete);
    assert_eq!(
        response.incomplete_details.as_ref().unwrap().reason,
        "max_output_tokens"
    );
    let statuses: Vec<Value> = response
        .output
        .iter()
        .map(|item| serde_json::to_value(item).unwrap()["status"].clone())
        .collect();
    assert_eq!(
        statuses,
        ["completed", "completed", "completed", "incomplete"]
    );
    let message = message_of(&response.output);
    assert_eq!(message.tool_calls, [call("call_0", "f", "{}")]);
}

#[test]
fn an_answer_sent_back_is_the_message_that_is_stored() {
    let silent = ChatMessage {
        content: None,
        ..ChatMessage::assistant(String::new())
    };
    for message in [
        calling(&["{}", "{\"a\":1}"]),
        calling(&[]),
        ChatMessage::assistant("a".to_owned()),
        ChatMessage {
            reasoning_content: None,
            content: None,
            ..calling(&["{}"])
        },
        ChatMessage {
            reasoning_content: Some("why".to_owned()),
            ..silent.clone()
        },
    ] {
        let output = answer(message, FinishReason::Stop).output;
        let input = serde_json::to_value(&output).unwrap();
        assert_eq!(messages(input), [message_of(&output)]);
    }
    assert_eq!(answer(silent, FinishReason::Stop).output, []);
}

#[test]
fn a_failed_answer_has_a_code_that_clients_know() {
    for (error, code) in [
        (ErrorBody::new("server_error", "gone"), "server_error"),
        (ErrorBody::new("overloaded", "later"), "server_error"),
        (
            ErrorBody::new("invalid_request_error", "no"),
            "invalid_prompt",
        ),
        (
            ErrorBody::new("requests", "no").with_code(Some("rate_limit_exceeded")),
            "rate_limit_exceeded",
        ),
    ] {
        let mut response = answer(calling(&[]), FinishReason::Stop);
        response.fail(&error);
        assert_eq!(response.status, ResponseStatus::Failed);
        let failure = response.error.unwrap();
        assert_eq!(
            (failure.code.as_str(), failure.message),
            (code, error.error.message)
        );
    }
}
