//! Answers of Llama 4, and of the small models of Llama 3.2.

use crate::ToolFormat;
use crate::testing::{self, check_content, check_stream, tools};

const FORMAT: ToolFormat = ToolFormat::Pythonic;

#[track_caller]
fn check(answer: &str, expected: &[&str]) {
    testing::check(tools(FORMAT), answer, expected);
}

#[test]
fn calls_in_a_list() {
    check(
        r#"[f(a=1, b="x"), g()]"#,
        &["0 f", r#"0: {"a": 1, "b": "x"}"#, "1 g", "1: {}"],
    );
    check(
        " <|python_start|>[ get_weather( city = 'Paris' , ) , ]<|python_end|>\n",
        &["0 get_weather", r#"0: {"city": "Paris"}"#],
    );
    check("[f()]\nDone", &["0 f", "0: {}", "say \nDone"]);
    check("[f()]<|python_end|> Done", &["0 f", "0: {}", "say  Done"]);
}

#[test]
fn what_is_no_call_is_content() {
    for answer in [
        "Hello [f()]",
        " ",
        "[",
        "[]",
        "[1, 2]",
        "[link](https://example.org)",
        "[f",
        "[f]",
        "[f(",
        "[f(a=1",
        "[f(1)]",
        "[f(a)]",
        "[f(a=b)]",
        "[f(a=1 b=2)]",
        "[f(a=[1))]",
        "[unknown(a=1)]",
        "f()",
        "<|python_start|>",
        "<|python_sta[f()]",
    ] {
        check_content(tools(FORMAT), answer);
    }
}

#[test]
fn calls_before_a_mistake_are_kept() {
    check("[f(), see above]", &["0 f", "0: {}", "say , see above]"]);
    check("[f(), unknown()]", &["0 f", "0: {}", "say , unknown()]"]);
    check("[f(), g(a=", &["0 f", "0: {}", "say , g(a="]);
    check("[f(), ", &["0 f", "0: {}"]);
    check("[f()]<|python_x", &["0 f", "0: {}", "say <|python_x"]);
}

#[test]
fn nothing_waits_that_is_certain() {
    check_stream(
        tools(FORMAT),
        &[
            ("[f(a=", &[]),
            ("1)", &["0 f", "0: {\"a\": 1}"]),
            ("]", &[]),
            (" x", &["say  x"]),
            ("y", &["say y"]),
        ],
    );
    check_stream(
        tools(FORMAT),
        &[("[a", &[]), (" ", &["say [a "]), ("[", &["say ["])],
    );
}
