//! Answers of Qwen 3 and DeepSeek R1.

use crate::testing::{self, check_stream, thinking};
use crate::{AnswerFormat, ToolFormat};

#[track_caller]
fn check(answer: &str, expected: &[&str]) {
    testing::check(thinking(None), answer, expected);
}

#[track_caller]
fn check_begun(answer: &str, expected: &[&str]) {
    let format = AnswerFormat {
        begins_in_reasoning: true,
        ..thinking(None)
    };
    testing::check(format, answer, expected);
}

#[test]
fn reasoning_comes_before_the_answer() {
    check(
        "<think>\nHm.\n</think>\n\nYes.\n",
        &["think \nHm.\n", "say Yes.\n"],
    );
    check(" \n<think>a < b</think>c", &["think a < b", "say c"]);
    check("<think>a", &["think a"]);
    check("<think>a</thi", &["think a</thi"]);
    check("<think>a</</think>", &["think a</"]);
    check("<think>a</think> \n", &["think a"]);
}

#[test]
fn an_empty_block_is_dropped() {
    check("<think>\n\n</think>\n\nYes.", &["say Yes."]);
    check("<think></think>", &[]);
}

#[test]
fn the_tag_counts_only_at_the_start() {
    check("Well, <think>a</think>", &["say Well, <think>a</think>"]);
    check("  <thin k", &["say   <thin k"]);
    check(
        "<think>a</think>b<think>c</think>",
        &["think a", "say b<think>c</think>"],
    );
    check("a</think>b", &["say a</think>b"]);
    check(" ", &["say  "]);
    check(" <thi", &["say  <thi"]);
}

#[test]
fn the_prompt_may_have_opened_the_block() {
    check_begun("Hm.</think>\nYes.", &["think Hm.", "say Yes."]);
    check_begun("<think>Hm.</think>Yes.", &["think Hm.", "say Yes."]);
    check_begun("\n</think>Yes.", &["say Yes."]);
    check_begun("\nHm", &["think \nHm"]);
    check_begun("<thinking", &["think <thinking"]);
}

#[test]
fn calls_come_after_reasoning() {
    let call = r#"<tool_call>{"name": "f", "arguments": {}}</tool_call>"#;
    let hermes = thinking(Some(ToolFormat::Hermes));
    testing::check(
        hermes,
        &format!("<think>{call}</think>\n\n{call}"),
        &[&format!("think {call}"), "0 f", "0: {}"],
    );
    testing::check(hermes, call, &["0 f", "0: {}"]);
    testing::check(
        hermes,
        "<think>\n</think>\n\n<tool_call>no",
        &["say <tool_call>no"],
    );
    testing::check(
        thinking(Some(ToolFormat::Llama3)),
        "<think>a</think>\n{\"name\": \"f\", \"parameters\": {}}",
        &["think a", "0 f", "0: {}"],
    );
    testing::check(
        thinking(Some(ToolFormat::Pythonic)),
        "<think>a</think>\n[f()]",
        &["think a", "0 f", "0: {}"],
    );
}

#[test]
fn nothing_waits_that_is_certain() {
    check_stream(
        thinking(None),
        &[
            ("<th", &[]),
            ("ink>a", &["think a"]),
            (" <b </", &["think  <b "]),
            ("think>\n", &[]),
            ("c\n", &["say c\n"]),
            ("<think>", &["say <think>"]),
        ],
    );
}
