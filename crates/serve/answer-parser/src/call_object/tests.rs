//! When objects become calls, and what becomes of the others.

use super::*;
use crate::testing::{names, show};

/// The parts of an object, and whether it was complete (`+`), failed (`-`) or cut off (`.`).
#[track_caller]
fn check(commit: Commit, object: &str, expected: &[&str]) {
    let mut out = Output::new(&names(&["f", "é"]), true);
    let mut call = CallObject::new(commit, String::new());
    let mut progress = Progress::More;
    for c in object[1..].chars() {
        if progress != Progress::More {
            out.content_char(c);
            continue;
        }
        progress = call.step(c, &mut out);
        if progress == Progress::Failed {
            out.content_char(c);
        }
    }
    if progress == Progress::More {
        call.finish(&mut out);
    }
    out.finish();
    let mut parts = Vec::new();
    out.take(&mut parts);
    let end = match progress {
        Progress::More => ".",
        Progress::Done => "+",
        Progress::Failed => "-",
    };
    let mut lines = show(&parts);
    lines.push(end.to_owned());
    assert_eq!(lines, expected, "{object}");
}

#[test]
fn keys_come_in_any_order() {
    for commit in [Commit::Name, Commit::Arguments, Commit::Whole] {
        let call = ["0 f", r#"0: {"a": 1}"#, "+"];
        check(commit, r#"{"name": "f", "arguments": {"a": 1}}"#, &call);
        check(commit, r#"{ "parameters" :{"a": 1} , "name":"f" }"#, &call);
        check(commit, r#"{"arguments": "{\"a\": 1}", "name": "f"}"#, &call);
        check(
            commit,
            r#"{"name": "\u0066", "parameters": {"a": 1}}"#,
            &call,
        );
    }
}

#[test]
fn an_announced_call_needs_a_name_only() {
    check(Commit::Name, r#"{"name": "f"}"#, &["0 f", "0: {}", "+"]);
    check(
        Commit::Name,
        r#"{"name": "f", "arguments": null}"#,
        &["0 f", "0: {}", "+"],
    );
    check(
        Commit::Name,
        r#"{"id": "x", "name": "\u00e9"}"#,
        &["0 é", "0: {}", "+"],
    );
    check(Commit::Name, r#"{"name": "f", "#, &["0 f", "."]);
    check(
        Commit::Name,
        r#"{"name": "f", "arguments": {"a"#,
        &["0 f", r#"0: {"a"#, "."],
    );
}

#[test]
fn an_unannounced_call_needs_arguments() {
    let other = |object: &str| {
        for commit in [Commit::Arguments, Commit::Whole] {
            check(commit, object, &[&format!("say {object}"), "-"]);
        }
    };
    other(r#"{"name": "f"}"#);
    other(r#"{"name": "f", "arguments": 1}"#);
    other(r#"{"name": "f", "arguments": null}"#);
    let cut = r#"{"name": "f", "arguments""#;
    check(Commit::Arguments, cut, &[&format!("say {cut}"), "."]);
}

#[test]
fn a_whole_call_has_nothing_else() {
    let other = |object: &str, end: &str| {
        check(Commit::Whole, object, &[&format!("say {object}"), end]);
    };
    other(r#"{"name": "f", "arguments": {}, "x": 1}"#, "-");
    other(r#"{"name": "f", "arguments": "x"}"#, "-");
    other(r#"{"name": "f", "arguments": {]}"#, "-");
    other(r#"{"name": "f", "arguments": {}"#, ".");
}

#[test]
fn what_is_no_call_stays_text() {
    for commit in [Commit::Name, Commit::Arguments, Commit::Whole] {
        for object in [
            "{}",
            "{oops}",
            r#"{"a": 1}"#,
            r#"{"name": 1}"#,
            r#"{"name": "unknown", "arguments": {}}"#,
            r#"{"name": ["f"], "arguments": {}}"#,
            r#"{"arguments": {}}"#,
            r#"{"arguments": {bad}, "name": "f"}"#,
            r#"{"arguments": {}, "parameters": {}, "name": "f"}"#,
            "{\"name\": \"f\n\"}",
        ] {
            check(commit, object, &[&format!("say {object}"), "-"]);
        }
    }
}

#[test]
fn text_after_a_call_that_went_wrong_is_content() {
    let cases: [(&str, &[&str]); 4] = [
        (
            r#"{"name": "f", oops}"#,
            &["0 f", "0: {}", "say , oops}", "-"],
        ),
        (
            r#"{"name": "f", "arguments": {"a": 1} oops}"#,
            &["0 f", r#"0: {"a": 1}"#, "say  oops}", "-"],
        ),
        (
            r#"{"name": "f", "arguments": {"a": 1</x>"#,
            &["0 f", r#"0: {"a": 1"#, "say </x>", "-"],
        ),
        (
            r#"{"name": "f", "arguments": {}, "name": "g", "arguments": 1}"#,
            &["0 f", "0: {}", "+"],
        ),
    ];
    for (object, expected) in cases {
        check(Commit::Name, object, expected);
    }
}
