//! The system prompt, the messages and their blocks.

use expect_test::expect;
use serde_json::json;

use super::*;
use crate::{JsonText, ToolCall};

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
