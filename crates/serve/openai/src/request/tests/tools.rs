//! Tools, their calls, and what an answer must look like.

use expect_test::expect;
use serde_json::json;

use super::*;

#[test]
fn tools_and_formats_arrive() {
    let request = chat(json!({
        "tools": [{ "type": "function", "function": {
            "name": "f", "description": "d", "strict": true, "parameters": { "type": "object" },
        } }],
        "tool_choice": { "type": "function", "function": { "name": "f" } },
        "parallel_tool_calls": false,
        "reasoning_effort": "high",
        "chat_template_kwargs": { "z": 1, "a": 2 },
        "messages": [
            { "role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
                { "id": "c1", "type": "function",
                  "function": { "name": "f", "arguments": "{\"b\": 1, \"a\": 2}" } },
                { "function": { "name": "g", "arguments": "" } },
            ] },
            { "role": "tool", "tool_call_id": "c1", "content": "3" },
        ],
    }))
    .unwrap();
    let tool = Tool {
        name: "f".to_owned(),
        description: Some("d".to_owned()),
        parameters: Some(JsonText::parse(r#"{"type":"object"}"#).unwrap()),
    };
    assert_eq!(request.tools, [tool]);
    assert_eq!(request.tool_choice, ToolChoice::Named("f".to_owned()));
    assert!(!request.parallel_tool_calls);
    assert_eq!(request.reasoning_effort, Some(ReasoningEffort::High));
    assert_eq!(
        request.template_arguments.unwrap().as_str(),
        r#"{"z":1,"a":2}"#
    );
    let [assistant, tool] = &request.messages[..] else {
        panic!("two messages")
    };
    assert_eq!(assistant.reasoning.as_deref(), Some("hm"));
    let calls: Vec<(Option<&str>, &str, &str)> = assistant
        .tool_calls
        .iter()
        .map(|call| (call.id.as_deref(), &*call.name, call.arguments.as_str()))
        .collect();
    let expected = [(Some("c1"), "f", r#"{"b": 1, "a": 2}"#), (None, "g", "{}")];
    assert_eq!(calls, expected);
    assert_eq!(tool.tool_call_id.as_deref(), Some("c1"));
}

#[test]
fn constraints_have_many_names() {
    for (body, param, format) in [
        (
            json!({ "response_format": { "type": "json_object" } }),
            "response_format",
            OutputFormat::JsonObject,
        ),
        (
            json!({ "response_format": { "type": "json_schema", "json_schema":
                { "name": "n", "strict": true, "schema": { "type": "string" } } } }),
            "response_format.json_schema.schema",
            OutputFormat::JsonSchema(JsonText::parse(r#"{"type":"string"}"#).unwrap()),
        ),
        (
            json!({ "guided_json": "{\"a\": 1}" }),
            "guided_json",
            OutputFormat::JsonSchema(JsonText::parse(r#"{"a": 1}"#).unwrap()),
        ),
        (
            json!({ "guided_choice": ["a", "b"] }),
            "guided_choice",
            OutputFormat::Choice(vec!["a".to_owned(), "b".to_owned()]),
        ),
        (
            json!({ "structured_outputs": { "regex": "a+" } }),
            "structured_outputs.regex",
            OutputFormat::Regex("a+".to_owned()),
        ),
        (
            json!({ "structured_outputs": { "grammar": "start: \"a\"" } }),
            "structured_outputs.grammar",
            OutputFormat::Grammar("start: \"a\"".to_owned()),
        ),
    ] {
        let expected = OutputConstraint { format, param };
        assert_eq!(chat(body).unwrap().options.constraint, Some(expected));
    }
}

#[test]
fn what_would_be_ignored_is_refused() {
    refused(
        &[
            json!({ "tools": [{ "type": "function" }] }),
            json!({ "tools": [{ "type": "web_search" }] }),
            json!({ "tools": [{ "type": "function", "function": { "name": "a b" } }] }),
            json!({ "tools": [{ "type": "function", "function": { "name": "f", "more": 1 } }] }),
            json!({ "tools": [{ "type": "function", "function": { "name": "f", "parameters": [] } }] }),
            json!({ "tools": [
                { "type": "function", "function": { "name": "f" } },
                { "type": "function", "function": { "name": "f" } },
            ] }),
            json!({ "tool_choice": "required" }),
            json!({ "tool_choice": "sometimes" }),
            json!({ "tool_choice": { "type": "function" } }),
            json!({ "tool_choice": { "type": "allowed_tools" } }),
            json!({ "tools": [{ "type": "function", "function": { "name": "f" } }],
                "tool_choice": { "type": "function", "function": { "name": "g" } } }),
            json!({ "tools": [{ "type": "function", "function": { "name": "f" } }],
                "tool_choice": "required", "guided_regex": "a" }),
            json!({ "response_format": { "type": "xml" } }),
            json!({ "response_format": { "type": "json_schema" } }),
            json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "n" } } }),
            json!({ "response_format": { "type": "json_schema", "json_schema":
                { "name": "n", "schema": 5 } } }),
            json!({ "response_format": { "type": "json_object" }, "guided_regex": "a" }),
            json!({ "response_format": { "type": "json_object" }, "ignore_eos": true }),
            json!({ "guided_choice": [] }),
            json!({ "guided_choice": ["a", ""] }),
            json!({ "guided_grammar": "" }),
            json!({ "guided_json": "{" }),
            json!({ "structured_outputs": { "regex": "a", "structural_tag": "b" } }),
        ],
        &expect![[r#"
            Invalid tools[0].function missing_required_parameter: `tools[0].function` is required
            Unsupported tools[0].type unsupported_value: `tools[0].type`: a tool of type `web_search` is not supported
            Invalid tools[0].function.name invalid_value: `tools[0].function.name` must be 1 to 128 letters, digits, underscores or dashes
            Unsupported tools[0].function.more unknown_parameter: `tools[0].function.more` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
            Invalid tools[0].function.parameters invalid_value: invalid value for `tools[0].function.parameters`: must be a JSON schema, which is an object
            Invalid tools[1].function.name invalid_value: invalid value for `tools[1].function.name`: `f` is the name of another tool too
            Invalid tool_choice invalid_value: invalid value for `tool_choice`: needs `tools`
            Invalid tool_choice invalid_value: invalid value for `tool_choice`: `sometimes` is not one of none, auto, required
            Invalid tool_choice.function.name missing_required_parameter: `tool_choice.function.name` is required
            Unsupported tool_choice.type unsupported_value: `tool_choice.type`: a choice of type `allowed_tools` is not supported
            Invalid tool_choice invalid_value: invalid value for `tool_choice`: `g` is not the name of a tool
            Invalid tool_choice invalid_value: invalid value for `tool_choice`: cannot be combined with `guided_regex`: the answer is a call or the other
            Unsupported response_format.type unsupported_value: `response_format.type`: a format of type `xml` is not supported
            Invalid response_format.json_schema missing_required_parameter: `response_format.json_schema` is required
            Invalid response_format.json_schema.schema missing_required_parameter: `response_format.json_schema.schema` is required
            Invalid response_format.json_schema.schema invalid_value: `response_format.json_schema.schema` must be a JSON schema, which is an object
            Invalid guided_regex invalid_value: invalid value for `guided_regex`: cannot be combined with `response_format`
            Invalid ignore_eos invalid_value: invalid value for `ignore_eos`: cannot be combined with `response_format`, which decides where the answer ends
            Invalid guided_choice invalid_value: `guided_choice` must hold at least one text
            Invalid guided_choice invalid_value: `guided_choice` must not hold an empty text
            Invalid guided_grammar invalid_value: `guided_grammar` must not be empty
            Invalid guided_json invalid_type: invalid value for `guided_json`: EOF while parsing an object
            Unsupported structured_outputs.structural_tag unsupported_parameter: `structured_outputs.structural_tag` is not supported (tags: use `structured_outputs.grammar`): leave it out"#]],
    );
}

#[test]
fn other_values_that_make_no_sense_are_refused() {
    refused(
        &[
            json!({ "logit_bias": { "fifty": 100 } }),
            json!({ "logit_bias": { "50": 101 } }),
            json!({ "n": 0 }),
            json!({ "reasoning_effort": "much" }),
            json!({ "chat_template_kwargs": [] }),
            json!({ "functions": [{ "name": "f" }] }),
            json!({ "modalities": ["text", "audio"] }),
            json!({ "store": true }),
            json!({ "messages": [{ "role": "assistant", "tool_calls": [{}] }] }),
            json!({ "messages": [{ "role": "user", "content": "a", "tool_calls":
                [{ "function": { "name": "f" } }] }] }),
            json!({ "messages": [{ "role": "assistant", "tool_calls":
                [{ "function": { "name": "f", "arguments": "[1]" } }] }] }),
            json!({ "messages": [{ "role": "assistant", "tool_calls":
                [{ "function": { "name": "f", "arguments": "{" } }] }] }),
            json!({ "stream_options": { "include_obfuscation": true } }),
        ],
        &expect![[r#"
            Invalid logit_bias invalid_value: invalid value for `logit_bias`: `fifty` is not a token id
            Invalid logit_bias.50 invalid_value: invalid value for `logit_bias.50`: 101 is not between -100 and 100
            Invalid n invalid_value: invalid value for `n`: 0 is not between 1 and 128
            Invalid reasoning_effort invalid_value: invalid value for `reasoning_effort`: `much` is not one of none, minimal, low, medium, high, xhigh
            Invalid chat_template_kwargs invalid_value: invalid value for `chat_template_kwargs`: must be an object
            Unsupported functions unsupported_parameter: `functions` is not supported (the older form of tool calls: use `tools`): leave it out or send an empty one
            Unsupported modalities unsupported_parameter: `modalities` is not supported (output other than text): leave it out or send `["text"]`
            Unsupported store unsupported_parameter: `store` is not supported (storing answers): leave it out or send `false`
            Invalid messages[0].tool_calls[0].function missing_required_parameter: `messages[0].tool_calls[0].function` is required
            Invalid messages[0].tool_calls invalid_value: invalid value for `messages[0].tool_calls`: only an assistant's message has them
            Invalid messages[0].tool_calls[0].function.arguments invalid_value: invalid value for `messages[0].tool_calls[0].function.arguments`: must be the text of a JSON object
            Invalid messages[0].tool_calls[0].function.arguments invalid_value: invalid value for `messages[0].tool_calls[0].function.arguments`: must be the text of a JSON object: EOF while parsing an object at line 1 column 1
            Unsupported stream_options.include_obfuscation unsupported_parameter: `stream_options.include_obfuscation` is not supported (padding of events): leave it out or send `false`"#]],
    );
}
