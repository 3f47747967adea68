//! Answers of Mistral, before and after the eleventh version of its tokenizer.

use crate::ToolFormat;
use crate::testing::{self, check_content, check_stream, tools};

const FORMAT: ToolFormat = ToolFormat::Mistral;

#[track_caller]
fn check(answer: &str, expected: &[&str]) {
    testing::check(tools(FORMAT), answer, expected);
}

#[test]
fn calls_in_an_array() {
    check(
        r#"[TOOL_CALLS][{"name": "f", "arguments": {"a": "]"}, "id": "abc"}]"#,
        &["0 f", r#"0: {"a": "]"}"#],
    );
    check(
        r#"Sure. [TOOL_CALLS] [{"name": "f", "arguments": {}}, {"arguments": {"b": [[]]}, "name": "g"},]"#,
        &["say Sure. ", "0 f", "0: {}", "1 g", r#"1: {"b": [[]]}"#],
    );
    check(r#"[TOOL_CALLS]{"name": "f"}"#, &["0 f", "0: {}"]);
    check(
        r#"[TOOL_CALLS][{"name": "f"}] [TOOL_CALLS][{"name": "g"}] ok"#,
        &["0 f", "0: {}", "1 g", "1: {}", "say  ok"],
    );
}

#[test]
fn calls_by_name() {
    check(
        r#"[TOOL_CALLS]f[ARGS]{"a": "}"}"#,
        &["0 f", r#"0: {"a": "}"}"#],
    );
    check(
        r#"Both.[TOOL_CALLS]f[ARGS]{} [TOOL_CALLS]g{"b": {}}"#,
        &["say Both.", "0 f", "0: {}", "1 g", r#"1: {"b": {}}"#],
    );
    check(r#"[TOOL_CALLS]f[CALL_ID]a1B2[ARGS] {}"#, &["0 f", "0: {}"]);
}

#[test]
fn what_is_no_call_is_content() {
    for answer in [
        "[1, 2] [TOOL",
        "[TOOL_CALLS",
        "[TOOL_CALLS]",
        "[TOOL_CALLS] [",
        "[TOOL_CALLS][]",
        "[TOOL_CALLS][1]",
        "[TOOL_CALLS]!",
        "[TOOL_CALLS]f",
        "[TOOL_CALLS]f x",
        "[TOOL_CALLS]f[ARGS]",
        "[TOOL_CALLS]f[ARGS]x",
        "[TOOL_CALLS]f[ARG",
        "[TOOL_CALLS]f[ARG{}",
        "[TOOL_CALLS]f[CALL_ID]{}",
        "[TOOL_CALLS]unknown[ARGS]{}",
        "[TOOL_CALLS][TOOL_CALLS]",
        r#"[TOOL_CALLS][{"name": "unknown", "arguments": {}}]"#,
        r#"{"name": "f", "arguments": {}}"#,
    ] {
        check_content(tools(FORMAT), answer);
    }
}

#[test]
fn text_after_a_call_that_went_wrong_is_content() {
    check(
        r#"[TOOL_CALLS][{"name": "f"}, oops]"#,
        &["0 f", "0: {}", "say , oops]"],
    );
    check(
        r#"[TOOL_CALLS][{"name": "f"}, {"name": "unknown"}]"#,
        &["0 f", "0: {}", r#"say , {"name": "unknown"}]"#],
    );
    check(
        "[TOOL_CALLS]f[ARGS]{\"a\": <",
        &["0 f", "0: {\"a\": ", "say <"],
    );
}

#[test]
fn an_answer_that_was_cut_off_keeps_what_it_has() {
    check(
        r#"[TOOL_CALLS][{"name": "f", "arguments": {"a": "lo"#,
        &["0 f", r#"0: {"a": "lo"#],
    );
    check(r#"[TOOL_CALLS][{"name": "f"}, "#, &["0 f", "0: {}"]);
    check(r#"[TOOL_CALLS]f[ARGS]{"a"#, &["0 f", r#"0: {"a"#]);
}

#[test]
fn nothing_waits_that_is_certain() {
    check_stream(
        tools(FORMAT),
        &[
            ("a [", &["say a "]),
            ("x] [TOOL_", &["say [x] "]),
            ("CALLS]f[ARGS]", &[]),
            ("{\"a\"", &["0 f", "0: {\"a\""]),
            (": 1}", &["0: : 1}"]),
        ],
    );
}
