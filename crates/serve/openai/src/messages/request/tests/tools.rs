//! Tools and the choice among them.

use expect_test::expect;
use serde_json::json;

use super::*;
use crate::{JsonText, Tool, ToolChoice};

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
