//! Fields that are unknown, or that change nothing here.

use expect_test::expect;
use serde_json::json;

use super::*;

#[test]
fn an_unknown_field_that_is_let_pass_hides_nothing() {
    let body = json!({ "model": "m", "input": [{ "role": "user", "content": [
        { "type": "input_text", "text": "a", "nobody": 1 },
        { "type": "input_image", "image_url": "data:" },
    ] }] });
    let error = parse(body.to_string().as_bytes(), UnknownFields::Ignore).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("input[0].content[1].type"));
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
