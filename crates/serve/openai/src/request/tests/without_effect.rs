//! Fields that are unknown or change nothing, and `nvext`, of which only a part is known.

use expect_test::expect;
use serde_json::json;

use super::*;

#[test]
fn what_asks_for_nothing_is_accepted() {
    let body = json!({
        "tools": [], "tool_choice": "auto", "functions": [], "function_call": "none",
        "parallel_tool_calls": true, "response_format": { "type": "text" }, "logit_bias": {},
        "modalities": ["text"], "store": false, "service_tier": "auto", "length_penalty": 1,
        "stop_token_ids": [], "skip_special_tokens": true, "metadata": { "a": "b" },
        "prompt_cache_key": "k", "prediction": { "type": "content" }, "audio": null,
        "stream_options": { "include_obfuscation": false },
        "messages": [
            { "role": "assistant", "content": "a", "tool_calls": [], "refusal": null },
            { "role": "user", "content": [
                { "type": "text", "text": "hi", "cache_control": { "type": "ephemeral" } }
            ] },
        ],
    });
    assert_eq!(chat(body).unwrap().messages.len(), 2);
}

#[test]
fn what_nobody_knows_is_refused_unless_the_operator_lets_it_pass() {
    refused(
        &[
            json!({ "prompt": 5 }),
            json!({ "unknown": { "deep": [1] } }),
            json!({ "stream_options": { "x": 1 } }),
            json!({ "nvext": { "annotations": ["a"] } }),
            json!({ "nvext": { "cache_salt": 5 } }),
            json!({ "messages": [{ "role": "user", "content": "hi", "x": 1 }] }),
            json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": "hi", "x": 1 }] }] }),
        ],
        &expect![[r#"
            Unsupported prompt unknown_parameter: `prompt` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
            Unsupported unknown unknown_parameter: `unknown` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
            Unsupported stream_options.x unknown_parameter: `stream_options.x` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
            Unsupported nvext.annotations unknown_parameter: `nvext.annotations` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
            Unsupported nvext.cache_salt unknown_parameter: `nvext.cache_salt` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
            Unsupported messages[0].x unknown_parameter: `messages[0].x` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
            Unsupported messages[0].content[0].x unknown_parameter: `messages[0].content[0].x` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)"#]],
    );
    assert!(completion(json!({ "messages": 5 })).is_err());
    for passed in [
        json!({ "unknown": { "deep": [1] }, "stream_options": { "x": 1 } }),
        json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": "hi", "x": 1 }], "x": 1 }] }),
    ] {
        assert_eq!(lenient(passed).messages[0].content, "hi");
    }
    assert!(chat(json!({ "unknown": null })).is_ok(), "asks for nothing");
}

#[test]
fn fields_without_an_effect_take_little_memory_and_no_long_answer() {
    let many: Vec<String> = (0..100_000).map(|at| format!("\"a{at}\":1")).collect();
    let body = format!(r#"{{"model":"m",{}}}"#, many.join(","));
    for unknown in [UnknownFields::Refuse, UnknownFields::Ignore] {
        let error = ChatRequest::parse(body.as_bytes(), unknown).unwrap_err();
        assert!(
            error.message.contains("more than 64 other fields"),
            "{error}"
        );
    }
    let long = "x".repeat(1 << 20);
    for body in [
        json!({ long.clone(): 1 }),
        json!({ "nvext": { long.clone(): 1 } }),
        json!({ "messages": [{ "role": "user", "content": "hi", long: 1 }] }),
    ] {
        let error = chat(body).unwrap_err();
        assert!(error.message.len() < 300, "{} bytes", error.message.len());
    }
}

#[test]
fn extensions_are_taken_where_they_are_as_expected() {
    for (nvext, asks, salt) in [
        (
            json!({ "extra_fields": ["timing", 1, null, ["worker_id"], {}] }),
            (false, true),
            None,
        ),
        (json!({ "extra_fields": "timing" }), (false, false), None),
        (
            json!({ "extra_fields": { "timing": true }, "cache_salt": "s" }),
            (false, false),
            Some("s"),
        ),
        (json!({ "cache_salt": 5 }), (false, false), None),
        (json!({ "cache_salt": "" }), (false, false), None),
        (
            json!({ "unknown": [[[1.5, -1, true]]], "cache_salt": "s" }),
            (false, false),
            Some("s"),
        ),
        (json!([1, { "cache_salt": "s" }]), (false, false), None),
        (json!("text"), (false, false), None),
        (json!(7), (false, false), None),
    ] {
        let extensions = lenient(json!({ "nvext": nvext })).options.extensions;
        assert_eq!((extensions.worker_id, extensions.timing), asks, "{nvext}");
        assert_eq!(extensions.cache_salt.as_deref(), salt, "{nvext}");
    }
}

#[test]
fn a_strange_nvext_can_be_let_pass() {
    for nvext in [
        json!(5),
        json!("x"),
        json!([1]),
        json!({}),
        json!({ "extra_fields": "worker_id", "cache_salt": 5 }),
        json!({ "cache_salt": "" }),
    ] {
        let request = lenient(json!({ "nvext": nvext }));
        assert_eq!(request.options.extensions, Extensions::default(), "{nvext}");
    }
}
