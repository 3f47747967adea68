//! Fields that are unknown, or that change nothing here.

use expect_test::expect;
use serde_json::json;

use super::*;
use crate::RequestErrorKind;

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
