//! Answers of Qwen and Hermes, and what small models make of the format.

use crate::ToolFormat;
use crate::testing::{self, check_content, check_stream, check_with, tools};

const FORMAT: ToolFormat = ToolFormat::Hermes;

#[track_caller]
fn check(answer: &str, expected: &[&str]) {
    testing::check(tools(FORMAT), answer, expected);
}

#[test]
fn calls_between_tags() {
    check(
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>",
        &["0 get_weather", r#"0: {"city": "Paris"}"#],
    );
    check(
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"arguments\": {\"a\": [1, {}]}, \"name\": \"g\"}\n</tool_call>\n",
        &["0 f", "0: {}", "1 g", r#"1: {"a": [1, {}]}"#],
    );
    check(r#"<tool_call>{"name":"f"}</tool_call>"#, &["0 f", "0: {}"]);
}

#[test]
fn strings_may_contain_anything() {
    check(
        r#"<tool_call>{"name": "f", "arguments": {"a": "} </tool_call> \" {é\u00e9"}}</tool_call>"#,
        &["0 f", r#"0: {"a": "} </tool_call> \" {é\u00e9"}"#],
    );
}

#[test]
fn content_before_and_after_calls() {
    check(
        "Let me look.\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\nDone: 1 < 2.",
        &["say Let me look.\n\n", "0 f", "0: {}", "say \nDone: 1 < 2."],
    );
    check(
        "\n\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n\n",
        &["0 f", "0: {}"],
    );
}

#[test]
fn a_closing_tag_may_be_absent() {
    let f = r#"<tool_call>{"name": "f", "arguments": {"a": 1}}"#;
    check(f, &["0 f", r#"0: {"a": 1}"#]);
    check(&format!("{f}\n"), &["0 f", r#"0: {"a": 1}"#]);
    check(
        &format!("{f}\n{f}</tool_call>"),
        &["0 f", r#"0: {"a": 1}"#, "1 f", r#"1: {"a": 1}"#],
    );
    check(
        "<tool_call>\n{\"name\": \"f\"}\n{\"name\": \"g\"}\n</tool_call>",
        &["0 f", "0: {}", "1 g", "1: {}"],
    );
}

#[test]
fn a_closing_brace_may_be_absent() {
    check(
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}\n</tool_call>\n<tool_call>{\"name\": \"g\"}",
        &["0 f", r#"0: {"a": 1}"#, "1 g", "1: {}"],
    );
}

#[test]
fn text_after_a_call_that_went_wrong_is_content() {
    check(
        "<tool_call>{\"name\": \"f\",</tool_call>",
        &["0 f", "0: {}", "say ,</tool_call>"],
    );
    check(
        "<tool_call>{\"name\": \"f\"}}\n</tool_call>",
        &["0 f", "0: {}", "say }\n</tool_call>"],
    );
}

#[test]
fn arguments_may_be_in_a_string() {
    check(
        r#"<tool_call>{"name": "f", "arguments": "{\"a\": \"x\\n\"}"}</tool_call>"#,
        &["0 f", r#"0: {"a": "x\n"}"#],
    );
}

#[test]
fn an_object_alone_is_a_call_at_the_start() {
    let object = r#"{"name": "f", "parameters": {"a": 1}}"#;
    let call = ["0 f", r#"0: {"a": 1}"#];
    check(object, &call);
    check(&format!("\n {object}\n</tool_call>"), &call);
    check(&format!("```json\n{object}\n```"), &call);
    check(&format!("```\n{object}```\n"), &call);
    check(
        &format!("{object}\n{object}"),
        &["0 f", r#"0: {"a": 1}"#, "1 f", r#"1: {"a": 1}"#],
    );
    check(
        &format!("```json\n{object}\n```\nThat is it. ```"),
        &["0 f", r#"0: {"a": 1}"#, "say \nThat is it. ```"],
    );
    check_content(tools(FORMAT), &format!("Call: {object}"));
    check_content(tools(FORMAT), &format!("```python\n{object}\n```"));
    check_content(tools(FORMAT), &format!("``` json\n{object}\n```"));
    check_with(tools(FORMAT), &[], object, &[&format!("say {object}")]);
}

#[test]
fn other_objects_are_content() {
    for answer in [
        "{",
        "{}",
        "  {\"a\": 1}\n",
        r#"{"name": "f"}"#,
        r#"{"name": "Anna", "arguments": {"a": 1}}"#,
        r#"{"name": "f", "arguments": {"a": 1}, "age": 3}"#,
        r#"{"name": "f", "arguments": {"a": 1}"#,
        "```json\n{\"name\": \"Anna\"}\n```",
        "```json",
        "``` json\n{}",
        "`f`",
    ] {
        check_content(tools(FORMAT), answer);
    }
}

#[test]
fn what_is_no_call_is_content() {
    for answer in [
        "  \n",
        "1 < 2 <tool",
        "<tool_call",
        "<tool_call>",
        "<tool_call>\n",
        "<tool_call> see above </tool_call>",
        "<tool_call><tool_call><",
        "<tool_call>{\"name\": \"f",
        "<tool_call>{'name': 'f'}</tool_call>",
        "<tool_call>{\"name\": \"unknown\", \"arguments\": {}}</tool_call>\n<tool",
        "<tool_call>[]</tool_call>",
        "</tool_call> <tool_call>\n {]",
    ] {
        check_content(tools(FORMAT), answer);
    }
}

#[test]
fn unknown_names_are_content_beside_calls() {
    check(
        "<tool_call>{\"name\": \"x\"}</tool_call>\n<tool_call>{\"name\": \"f\"}</tool_call>\n<tool_call>{\"name\": \"y\"}</tool_call>",
        &[
            "say <tool_call>{\"name\": \"x\"}</tool_call>\n",
            "0 f",
            "0: {}",
            "say \n<tool_call>{\"name\": \"y\"}</tool_call>",
        ],
    );
    check_with(
        tools(FORMAT),
        &[],
        "<tool_call>{\"name\": \"any\"}</tool_call>",
        &["0 any", "0: {}"],
    );
}

#[test]
fn an_answer_that_was_cut_off_keeps_what_it_has() {
    check(
        r#"<tool_call>{"name": "f", "arguments": {"a": "lo"#,
        &["0 f", r#"0: {"a": "lo"#],
    );
    check(r#"<tool_call>{"name": "f", "arg"#, &["0 f"]);
    check(r#"<tool_call>{"name": "f""#, &["0 f"]);
    check("", &[]);
    check(
        "<tool_call>{\"name\": \"f\", \"arguments\": {}}\n</tool_",
        &["0 f", "0: {}", "say \n</tool_"],
    );
}

#[test]
fn nothing_waits_that_is_certain() {
    check_stream(
        tools(FORMAT),
        &[
            ("Hi <", &["say Hi "]),
            ("b> <tool_", &["say <b> "]),
            ("call>\n{\"na", &[]),
            ("me\": \"f", &[]),
            ("\"", &["0 f"]),
            (", \"arguments\": ", &[]),
            ("{\"a\": \"", &[r#"0: {"a": ""#]),
            ("x", &["0: x"]),
            ("\"}", &["0: \"}"]),
            ("}\n</tool_call>\n", &[]),
            ("!", &["say \n!"]),
        ],
    );
    check_stream(
        tools(FORMAT),
        &[
            ("{\"name\": \"f\", ", &[]),
            ("\"x", &[]),
            ("\"", &["say {\"name\": \"f\", \"x\""]),
            (": 1", &["say : 1"]),
        ],
    );
}
