//! Requests as clients send them, and as they should not.

use expect_test::Expect;
use serde_json::{Value, json};

use super::*;
use crate::request::{JsonText, Message, RequestError, ToolCall, UnknownFields};

mod answers;
mod input;
mod options;
mod without_effect;

fn body(extra: Value) -> Vec<u8> {
    let mut body = json!({ "model": "m", "input": "hi" });
    let Value::Object(extra) = extra else {
        panic!("an object")
    };
    for (name, value) in extra {
        body[name] = value;
    }
    serde_json::to_vec(&body).unwrap()
}

fn request(extra: Value) -> Result<ResponsesRequest, RequestError> {
    parse(&body(extra), UnknownFields::Refuse)
}

fn messages(input: Value) -> Vec<Message> {
    request(json!({ "input": input })).unwrap().chat.messages
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
        .map(|case| match request(case.clone()) {
            Ok(_) => format!("accepted {case}"),
            Err(error) => describe(&error),
        })
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: Some(id.to_owned()),
        name: name.to_owned(),
        arguments: JsonText::parse(arguments).unwrap(),
    }
}
