//! Python in, JSON out.

use super::*;

fn read(arguments: &str) -> Option<String> {
    let mut reader = KeywordArguments::new();
    for c in arguments.chars() {
        match reader.step(c) {
            Reading::More => {}
            Reading::Done(json) => return Some(json),
            Reading::Malformed => return None,
        }
    }
    None
}

/// `value` as the value of `a`.
#[track_caller]
fn check(value: &str, expected: &str) {
    let json = read(&format!("a={value})")).expect(value);
    assert_eq!(json, format!("{{\"a\": {expected}}}"));
    serde_json::from_str::<IgnoredAny>(&json).expect("valid JSON");
}

#[test]
fn constants_and_numbers() {
    for (python, json) in [
        ("True", "true"),
        ("False", "false"),
        ("None", "null"),
        ("true", "true"),
        ("0", "0"),
        ("-12", "-12"),
        ("+7", "7"),
        ("1_000", "1000"),
        ("3.50", "3.50"),
        (".5", "0.5"),
        ("-5.", "-5.0"),
        ("5.e3", "5.0e3"),
        ("1e-7", "1e-7"),
        (
            "123456789012345678901234567890",
            "123456789012345678901234567890",
        ),
    ] {
        check(python, json);
    }
}

#[test]
fn strings() {
    for (python, json) in [
        (r#""""#, r#""""#),
        (r#""it's""#, r#""it's""#),
        (r#"'say "hi"'"#, r#""say \"hi\"""#),
        (r#"'it\'s'"#, r#""it's""#),
        (r#""a\\b\n\t\r""#, r#""a\\b\n\t\r""#),
        (r#""\x41\u00e9\U0001F600""#, r#""Aé😀""#),
        (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
        (r#""\101\0""#, r#""A\u0000""#),
        (r#""\x4""#, r#""\u0004""#),
        (r#""\x4\n""#, r#""\u0004\n""#),
        (r#""\d+\.""#, r#""\\d+\\.""#),
        (r#""é{[(""#, r#""é{[(""#),
        ("\"a\\\nb\nc\u{1}\"", r#""ab\nc\u0001""#),
        (r#""\Uffffffff""#, "\"\u{fffd}\""),
    ] {
        check(python, json);
    }
}

#[test]
fn collections() {
    for (python, json) in [
        ("[]", "[]"),
        ("[1,2 , 'x',]", r#"[1, 2, "x"]"#),
        ("(1, 'x')", r#"[1, "x"]"#),
        ("()", "[]"),
        ("{}", "{}"),
        (
            "{'k': [{'l': None}], \"m\" : {}}",
            r#"{"k": [{"l": null}], "m": {}}"#,
        ),
        ("['[', '{']", r#"["[", "{"]"#),
        ("[[], [[]]]", "[[], [[]]]"),
    ] {
        check(python, json);
    }
}

#[test]
fn keywords() {
    assert_eq!(read(")").as_deref(), Some("{}"));
    assert_eq!(
        read(" a = 1 ,b_2=[2],)").as_deref(),
        Some(r#"{"a": 1, "b_2": [2]}"#)
    );
}

#[test]
fn anything_else_is_malformed() {
    for arguments in [
        "1)",
        "'a')",
        "a)",
        "a=)",
        "a=b)",
        "a=1 2)",
        "a=1]",
        "a=[1)",
        "a={1: 2})",
        "a={'k'})",
        "a={'k': 1,, })",
        ",)",
        "a==1)",
        "a='x' 'y')",
        "a=0x10)",
        "a=1+2)",
        "a=f())",
        "a=--1)",
        "a=01)",
        "2a=1)",
    ] {
        assert_eq!(read(arguments), None, "{arguments}");
    }
}
