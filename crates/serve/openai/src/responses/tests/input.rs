//! Items of `input`, and the messages that they become.

use expect_test::expect;
use serde_json::json;

use super::*;
use crate::request::Role;

#[track_caller]
fn refused_items(items: &[Value], expected: &Expect) {
    let cases: Vec<Value> = items
        .iter()
        .map(|item| json!({ "input": [{ "role": "user", "content": "hi" }, item] }))
        .collect();
    refused(&cases, expected);
}

fn tool_output(id: &str, content: &str) -> Message {
    Message {
        tool_call_id: Some(id.to_owned()),
        ..Message::new(Role::Tool, content)
    }
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
