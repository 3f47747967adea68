//! Values of another type, bodies that are not JSON, and lists without an end.

use expect_test::expect;
use serde_json::json;

use super::*;

#[test]
fn values_of_the_wrong_type_are_refused_by_path() {
    refused(
        &[
            json!({ "model": 5 }),
            json!({ "messages": "é".repeat(500) }),
            json!({ "messages": "hi" }),
            json!({ "messages": ["hi"] }),
            json!({ "messages": [{ "role": "user", "content": "a" }, { "role": "user", "content": 5 }] }),
            json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": 5 }] }] }),
            json!({ "messages": [{ "role": "user", "content": ["a"] }] }),
            json!({ "messages": [{ "role": "user", "content": [] }] }),
            json!({ "messages": [{ "role": "user", "content": [{ "text": "a" }] }] }),
            json!({ "messages": [{ "role": "user", "content": [{ "type": "text" }] }] }),
            json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "image_url", "image_url": { "url": "x" } }] }] }),
            json!({ "messages": [{ "role": "user", "content": null }] }),
            json!({ "messages": [{ "content": "a" }] }),
            json!({ "messages": [{ "role": "robot", "content": "a" }] }),
            json!({ "max_tokens": "5" }),
            json!({ "max_tokens": 1.5 }),
            json!({ "max_tokens": 18_446_744_073_709_551_615_u64 }),
            json!({ "temperature": "hot" }),
            json!({ "stream": "yes" }),
            json!({ "stream_options": 5 }),
            json!({ "stream_options": { "include_usage": 1 } , "stream": true }),
            json!({ "stop": 5 }),
            json!({ "stop": ["a", 5] }),
            json!({ "seed": 0.5 }),
            json!({ "logprobs": 2 }),
        ],
        &expect![[r#"
            Invalid model invalid_type: invalid value for `model`: invalid type: integer `5`, expected a string
            Invalid messages invalid_type: invalid value for `messages`: invalid type: string "éééééééééééééééééééééééééééééééééééééééééééééééééééééééééé…, expected a list
            Invalid messages invalid_type: invalid value for `messages`: invalid type: string "hi", expected a list
            Invalid messages[0] invalid_type: invalid value for `messages[0]`: invalid type: string "hi", expected a message object
            Invalid messages[1].content invalid_type: invalid value for `messages[1].content`: invalid type: integer `5`, expected a string or a list of text parts
            Invalid messages[0].content[0].text invalid_type: invalid value for `messages[0].content[0].text`: invalid type: integer `5`, expected a string
            Invalid messages[0].content[0] invalid_type: invalid value for `messages[0].content[0]`: invalid type: string "a", expected a content part object
            Invalid messages[0].content invalid_value: `messages[0].content` must hold at least one part
            Invalid messages[0].content[0].type missing_required_parameter: `messages[0].content[0].type` is required
            Invalid messages[0].content[0].text missing_required_parameter: `messages[0].content[0].text` is required
            Unsupported messages[0].content[1].type unsupported_value: `messages[0].content[1].type`: a part of type `image_url` is not supported
            Invalid messages[0].content missing_required_parameter: `messages[0].content` is required
            Invalid messages[0].role missing_required_parameter: `messages[0].role` is required
            Invalid messages[0].role invalid_value: invalid value for `messages[0].role`: `robot` is not one of system, developer, user, assistant, tool, function
            Invalid max_tokens invalid_type: invalid value for `max_tokens`: invalid type: string "5", expected an integer
            Invalid max_tokens invalid_type: invalid value for `max_tokens`: invalid type: floating point `1.5`, expected an integer
            Invalid max_tokens invalid_type: invalid value for `max_tokens`: invalid value: integer `18446744073709551615`, expected an integer
            Invalid temperature invalid_type: invalid value for `temperature`: invalid type: string "hot", expected a number
            Invalid stream invalid_type: invalid value for `stream`: invalid type: string "yes", expected a boolean
            Invalid stream_options invalid_type: invalid value for `stream_options`: invalid type: integer `5`, expected an object
            Invalid stream_options.include_usage invalid_type: invalid value for `stream_options.include_usage`: invalid type: integer `1`, expected a boolean
            Invalid stop invalid_type: invalid value for `stop`: invalid type: integer `5`, expected a string or a list of strings
            Invalid stop[1] invalid_type: invalid value for `stop[1]`: invalid type: integer `5`, expected a string
            Invalid seed invalid_type: invalid value for `seed`: invalid type: floating point `0.5`, expected an integer
            Invalid logprobs invalid_type: invalid value for `logprobs`: invalid type: integer `2`, expected a boolean"#]],
    );
}

#[test]
fn what_is_not_a_json_object_is_refused() {
    let lines: Vec<String> = [
        &b""[..],
        b"{",
        b"{\"model\": \"m\",}",
        b"{\"model\": \"m\"} x",
        b"hello",
        b"[1, 2]",
        b"null",
        b"5",
        b"{\"model\": \"\xff\"}",
        b"{\"temperature\": 1e999}",
        b"{\"model\": \"m\", \"model\": \"m\"}",
    ]
    .into_iter()
    .map(|body| describe(&ChatRequest::parse(body, UnknownFields::Refuse).unwrap_err()))
    .collect();
    expect![[r#"
        Malformed - -: the body is not valid JSON: EOF while parsing a value at line 1 column 0
        Malformed - -: the body is not valid JSON: EOF while parsing an object at line 1 column 1
        Malformed - -: the body is not valid JSON: trailing comma at line 1 column 15
        Malformed - -: the body is not valid JSON: trailing characters at line 1 column 16
        Malformed - -: the body is not valid JSON: expected value at line 1 column 1
        Invalid - invalid_type: the body must be a JSON object
        Invalid - invalid_type: the body does not fit: invalid type: null, expected a JSON object
        Invalid - invalid_type: the body does not fit: invalid type: integer `5`, expected a JSON object
        Malformed - -: the body is not valid JSON: invalid unicode code point at line 1 column 12
        Invalid temperature invalid_type: invalid value for `temperature`: number out of range
        Invalid - invalid_type: the body does not fit: duplicate field `model`"#]].assert_eq(&lines.join("\n"));
}

/// What a list may hold ends with the list's limit, and what is not known is not kept: a body
/// must not become many times its size in memory. Here the values are of the right type, so
/// that only their number can be wrong.
#[test]
fn long_lists_end_where_they_are_read() {
    let many = |element: &str| format!("[{}]", vec![element; 300_000].join(","));
    for (body, field) in [
        (
            format!(r#"{{"model":"m","messages":{}}}"#, many("{}")),
            "messages",
        ),
        (
            format!(r#"{{"model":"m","stop":{}}}"#, many("\"a\"")),
            "stop",
        ),
    ] {
        let error = ChatRequest::parse(body.as_bytes(), UnknownFields::Refuse).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(field));
        assert_eq!(error.code, Some("invalid_value"), "{error}");
    }
    let body = format!(r#"{{"model":"m","prompt":{}}}"#, many("[1]"));
    let error = CompletionRequest::parse(body.as_bytes(), UnknownFields::Refuse).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("prompt"));
    // Parts are many only if they say nothing, and are joined as they come.
    let parts = many(r#"{"type":"text","text":""}"#);
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":{parts}}}]}}"#);
    let request = ChatRequest::parse(body.as_bytes(), UnknownFields::Refuse).unwrap();
    assert_eq!(request.messages[0].content.len(), 299_999);
}
