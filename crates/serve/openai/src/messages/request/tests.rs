//! Bodies as Anthropic's clients send them, and as they should not.

use expect_test::Expect;
use serde_json::{Value, json};

use super::*;

mod conversation;
mod malformed;
mod options;
mod tools;
mod without_effect;

/// The smallest body with `extra`, whose nulls remove fields.
fn body(extra: &Value) -> Vec<u8> {
    let mut body = json!({
        "model": "m", "max_tokens": 9, "messages": [{ "role": "user", "content": "hi" }],
    });
    for (name, value) in extra.as_object().unwrap() {
        body[name] = value.clone();
    }
    serde_json::to_vec(&body).unwrap()
}

fn strict(extra: &Value) -> Result<MessagesRequest, RequestError> {
    parse(&body(extra), UnknownFields::Refuse, false)
}

#[track_caller]
fn accepted(extra: &Value) -> ChatRequest {
    strict(extra)
        .unwrap_or_else(|error| panic!("{extra}: {error}"))
        .chat
}

#[track_caller]
fn refused(cases: &[Value], expected: &Expect) {
    let lines: Vec<String> = cases
        .iter()
        .map(|case| match strict(case) {
            Ok(_) => format!("accepted {case}"),
            Err(error) => {
                let path = error.param.as_deref().unwrap_or("-");
                assert!(
                    error.message.contains(&format!("`{path}`")) || path == "-",
                    "{error}"
                );
                format!("{:?} {}", error.kind, error.message)
            }
        })
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

/// Only the user's message of `content`.
fn user(content: Value) -> Value {
    json!({ "messages": [{ "role": "user", "content": content }] })
}

/// The assistant's message of `content`, and one after it.
fn assistant(content: Value) -> Value {
    json!({ "messages": [
        { "role": "assistant", "content": content },
        { "role": "user", "content": "go on" },
    ] })
}
