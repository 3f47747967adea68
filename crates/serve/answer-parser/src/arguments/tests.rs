//! Values in, texts out.

use super::*;
use crate::json::{ObjectScanner, Step};

/// What is passed on of a value, whether or not it is complete.
#[track_caller]
fn check(value: &str, expected: &str) {
    let mut scanner = ObjectScanner::new();
    let mut arguments = ArgumentsText::new();
    let mut text = String::new();
    for c in format!("\"k\":{value}").chars() {
        match scanner.step(c) {
            Step::Value => arguments.push(c, &mut text),
            Step::ValueEnd => arguments.close(c, &mut text),
            Step::Comma | Step::End => arguments.end(&mut text),
            Step::Structure | Step::Key | Step::KeyEnd => {}
            Step::Malformed => panic!("{value} is malformed"),
        }
    }
    assert_eq!(text, expected, "{value}");
}

#[test]
fn objects_keep_their_text() {
    check(
        r#"{"a": [1,  2], "b": "\u00e9"}"#,
        r#"{"a": [1,  2], "b": "\u00e9"}"#,
    );
    check(r#"{"a": "cut o"#, r#"{"a": "cut o"#);
    check("[1]", "[1]");
}

#[test]
fn an_object_in_a_string_is_unescaped() {
    check(r#""{\"a\": \"x\\ny\"}""#, r#"{"a": "x\ny"}"#);
    check(r#"" \n{}""#, " \n{}");
    check(r#""{\"a\": \"\u00e9\ud83d\ude00\/\"}""#, r#"{"a": "é😀/"}"#);
    check(r#""{\t\r\b\f}""#, "{\t\r\u{8}\u{c}}");
    check(r#""{\"a"#, r#"{"a"#);
}

#[test]
fn halves_of_surrogate_pairs_are_replaced() {
    check(r#""{\ud83d}""#, "{\u{fffd}}");
    check(r#""{\ud83d\n}""#, "{\u{fffd}\n}");
    check(r#""{\ud83d\u0041}""#, "{\u{fffd}A}");
    check(r#""{\ude00}""#, "{\u{fffd}}");
    check(r#""{\u12}""#, "{\u{fffd}}");
    check(r#""{\ud83d""#, "{\u{fffd}");
}

#[test]
fn no_value_is_no_arguments() {
    check("null}", "{}");
    check(r#""""#, "{}");
    check(r#""  ""#, "{}");
}

#[test]
fn other_values_are_passed_on() {
    check("12}", "12");
    check("true,", "true");
    check(r#""a\"b""#, r#""a\"b""#);
}
