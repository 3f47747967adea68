//! Answers of Llama 3.1, 3.2 and 3.3.

use crate::ToolFormat;
use crate::testing::{self, check_content, check_stream, tools};

const FORMAT: ToolFormat = ToolFormat::Llama3;

#[track_caller]
fn check(answer: &str, expected: &[&str]) {
    testing::check(tools(FORMAT), answer, expected);
}

#[test]
fn calls_at_the_start() {
    let f = r#"{"name": "f", "parameters": {"a": "}"}}"#;
    check(f, &["0 f", r#"0: {"a": "}"}"#]);
    check(&format!("<|python_tag|>{f}"), &["0 f", r#"0: {"a": "}"}"#]);
    check(
        &format!("\n<|python_tag|> {f}\n"),
        &["0 f", r#"0: {"a": "}"}"#],
    );
    check(
        r#"{"type": "function", "name": "f", "parameters": {}}"#,
        &["0 f", "0: {}"],
    );
    check(
        r#"{"name": "f", "parameters": "{\"a\": 1}"}"#,
        &["0 f", r#"0: {"a": 1}"#],
    );
}

#[test]
fn several_calls() {
    let f = r#"{"name": "f", "parameters": {}}"#;
    let both = ["0 f", "0: {}", "1 f", "1: {}"];
    check(&format!("{f}; {f}"), &both);
    check(&format!("{f}\n{f};"), &both);
    check(&format!("<|python_tag|>{f}; <|python_tag|>{f}"), &both);
}

#[test]
fn text_after_calls_is_content() {
    let f = r#"{"name": "f", "parameters": {}}"#;
    check(
        &format!("{f} Done {f}"),
        &["0 f", "0: {}", &format!("say  Done {f}")],
    );
    check(&format!("{f}; x"), &["0 f", "0: {}", "say ; x"]);
    check(
        &format!(r#"{f}; {{"name": "unknown", "parameters": {{}}}}"#),
        &[
            "0 f",
            "0: {}",
            r#"say ; {"name": "unknown", "parameters": {}}"#,
        ],
    );
}

#[test]
fn what_is_no_call_is_content() {
    for answer in [
        "Hello",
        " ",
        ";",
        "{",
        r#"See {"name": "f", "parameters": {}}"#,
        r#"; {"name": "f", "parameters": {}}"#,
        r#"{"name": "unknown", "parameters": {}}"#,
        r#"{"name": "f"}"#,
        r#"{"name": "f", "parameters""#,
        r#"{"name": "f", "parameters": [1]}"#,
        r#"{"a": {"name": "f", "parameters": {}}}"#,
        "<|python_tag|>brave_search.call(query=\"x\")",
        "<|python_tag|>",
        "<|python_ta",
        "<|python_ta {}",
    ] {
        check_content(tools(FORMAT), answer);
    }
}

#[test]
fn an_answer_that_was_cut_off_keeps_what_it_has() {
    check(r#"{"name": "f", "parameters": {"a"#, &["0 f", r#"0: {"a"#]);
    check(r#"<|python_tag|>{"name": "f""#, &["0 f"]);
}

#[test]
fn nothing_waits_that_is_certain() {
    check_stream(
        tools(FORMAT),
        &[
            ("{\"name\": \"f\"", &[]),
            (", \"parameters\": {", &["0 f", "0: {"]),
            ("\"a\"", &["0: \"a\""]),
        ],
    );
    check_stream(
        tools(FORMAT),
        &[("<|python_tag|>{\"name\": \"f\"", &["0 f"])],
    );
    check_stream(tools(FORMAT), &[("He", &["say He"]), ("{", &["say {"])]);
}
