//! Requests as clients send them, and as they should not.

use expect_test::Expect;
use serde_json::{Value, json};

use super::*;

mod malformed;
mod options;
mod prompts;
mod tools;
mod without_effect;

fn chat(extra: Value) -> Result<ChatRequest, RequestError> {
    let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
    merge(&mut body, extra);
    ChatRequest::parse(&serde_json::to_vec(&body).unwrap(), UnknownFields::Refuse)
}

fn lenient(extra: Value) -> ChatRequest {
    let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
    merge(&mut body, extra);
    ChatRequest::parse(&serde_json::to_vec(&body).unwrap(), UnknownFields::Ignore).unwrap()
}

fn completion(extra: Value) -> Result<CompletionRequest, RequestError> {
    let mut body = json!({ "model": "m", "prompt": "hi" });
    merge(&mut body, extra);
    CompletionRequest::parse(&serde_json::to_vec(&body).unwrap(), UnknownFields::Refuse)
}

fn merge(body: &mut Value, extra: Value) {
    let Value::Object(extra) = extra else {
        panic!("an object")
    };
    for (name, value) in extra {
        body[name] = value;
    }
}

fn describe(error: &RequestError) -> String {
    format!(
        "{:?} {} {}: {}",
        error.kind,
        error.param.as_deref().unwrap_or("-"),
        error.code.unwrap_or("-"),
        error.message
    )
}

#[track_caller]
fn refused(cases: &[Value], expected: &Expect) {
    let lines: Vec<String> = cases
        .iter()
        .map(|case| match chat(case.clone()) {
            Ok(_) => format!("accepted {case}"),
            Err(error) => describe(&error),
        })
        .collect();
    expected.assert_eq(&lines.join("\n"));
}
