//! What answers look like, and what of them is stored.

use expect_test::expect;
use serde_json::json;

use super::*;
use crate::response::{CallMade, ChatMessage, ErrorBody, FinishReason, Usage};

fn answer(message: ChatMessage, finish: FinishReason) -> Response {
    let echo = request(json!({})).unwrap().echo;
    Response::new("resp_1", 1_700_000_000, "m", echo).answered(
        message,
        Some(finish),
        &Usage::new(12, 5, 8),
    )
}

fn calling(arguments: &[&str]) -> ChatMessage {
    let calls = arguments.iter().enumerate().map(|(at, arguments)| {
        let mut call = CallMade::new(format!("call_{at}"), "f".to_owned());
        call.function.arguments = (*arguments).to_owned();
        call
    });
    ChatMessage {
        reasoning_content: Some("why".to_owned()),
        tool_calls: calls.collect(),
        ..ChatMessage::assistant("text".to_owned())
    }
}

#[test]
fn an_answer_looks_like_this() {
    let request = request(json!({
        "instructions": "be brief", "max_output_tokens": 9, "temperature": 0.5,
        "metadata": { "a": "b" }, "reasoning": { "effort": "low" }, "previous_response_id": "resp_0",
        "tools": [{ "type": "function", "name": "f", "parameters": {} }],
        "tool_choice": { "type": "function", "name": "f" },
    }))
    .unwrap();
    let response = Response::new("resp_1", 1_700_000_000, "m", request.echo).answered(
        calling(&["{}"]),
        Some(FinishReason::ToolCalls),
        &Usage::new(12, 5, 8),
    );
    let text = serde_json::to_string(&response).unwrap();
    let members: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
    let lines: Vec<String> = members
        .into_iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    expect![[r#"
        id: "resp_1"
        object: "response"
        created_at: 1700000000
        status: "completed"
        error: null
        incomplete_details: null
        model: "m"
        output: [{"type":"reasoning","id":"rs_1_0","summary":[],"content":[{"type":"reasoning_text","text":"why"}],"encrypted_content":null,"status":"completed"},{"type":"message","id":"msg_1_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"text","annotations":[],"logprobs":[]}]},{"type":"function_call","id":"fc_1_2","call_id":"call_0","name":"f","arguments":"{}","status":"completed"}]
        usage: {"input_tokens":12,"input_tokens_details":{"cached_tokens":8,"cache_write_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":17}
        instructions: "be brief"
        previous_response_id: "resp_0"
        store: true
        max_output_tokens: 9
        max_tool_calls: null
        temperature: 0.5
        top_p: null
        top_logprobs: 0
        text: {"format":{"type":"text"}}
        reasoning: {"effort":"low","summary":null}
        tools: [{"type":"function","name":"f","description":null,"parameters":{},"strict":null}]
        tool_choice: {"type":"function","name":"f"}
        parallel_tool_calls: true
        truncation: "disabled"
        service_tier: "default"
        background: false
        metadata: {"a":"b"}
        user: null
        safety_identifier: null
        prompt_cache_key: null"#]].assert_eq(&lines.join("\n"));
    assert_eq!(
        serde_json::from_str::<Response>(&text).unwrap(),
        response,
        "reads back"
    );
}

#[test]
fn formats_and_choices_read_back() {
    for extra in [
        json!({ "text": { "format": { "type": "json_object" } } }),
        json!({ "text": { "format": {
            "type": "json_schema", "name": "n", "description": "d", "schema": {}, "strict": true,
        } } }),
        json!({ "tool_choice": "none" }),
    ] {
        let echo = request(extra.clone()).unwrap().echo;
        let response = Response::new("resp_1", 5, "m", echo);
        let text = serde_json::to_string(&response).unwrap();
        assert_eq!(serde_json::from_str::<Response>(&text).unwrap(), response);
        for (name, value) in extra.as_object().unwrap() {
            assert_eq!(
                &serde_json::from_str::<Value>(&text).unwrap()[name],
                value,
                "repeated"
            );
        }
    }
}

#[test]
fn an_answer_that_was_cut_is_incomplete() {
    let response = answer(calling(&["{}", "{\"a\": "]), FinishReason::Length);
    assert_eq!(response.status, ResponseStatus::Incomplete);
    assert_eq!(
        response.incomplete_details.as_ref().unwrap().reason,
        "max_output_tokens"
    );
    let statuses: Vec<Value> = response
        .output
        .iter()
        .map(|item| serde_json::to_value(item).unwrap()["status"].clone())
        .collect();
    assert_eq!(
        statuses,
        ["completed", "completed", "completed", "incomplete"]
    );
    let message = message_of(&response.output);
    assert_eq!(message.tool_calls, [call("call_0", "f", "{}")]);
}

#[test]
fn an_answer_sent_back_is_the_message_that_is_stored() {
    let silent = ChatMessage {
        content: None,
        ..ChatMessage::assistant(String::new())
    };
    for message in [
        calling(&["{}", "{\"a\":1}"]),
        calling(&[]),
        ChatMessage::assistant("a".to_owned()),
        ChatMessage {
            reasoning_content: None,
            content: None,
            ..calling(&["{}"])
        },
        ChatMessage {
            reasoning_content: Some("why".to_owned()),
            ..silent.clone()
        },
    ] {
        let output = answer(message, FinishReason::Stop).output;
        let input = serde_json::to_value(&output).unwrap();
        assert_eq!(messages(input), [message_of(&output)]);
    }
    assert_eq!(answer(silent, FinishReason::Stop).output, []);
}

#[test]
fn a_failed_answer_has_a_code_that_clients_know() {
    for (error, code) in [
        (ErrorBody::new("server_error", "gone"), "server_error"),
        (ErrorBody::new("overloaded", "later"), "server_error"),
        (
            ErrorBody::new("invalid_request_error", "no"),
            "invalid_prompt",
        ),
        (
            ErrorBody::new("requests", "no").with_code(Some("rate_limit_exceeded")),
            "rate_limit_exceeded",
        ),
    ] {
        let mut response = answer(calling(&[]), FinishReason::Stop);
        response.fail(&error);
        assert_eq!(response.status, ResponseStatus::Failed);
        let failure = response.error.unwrap();
        assert_eq!(
            (failure.code.as_str(), failure.message),
            (code, error.error.message)
        );
    }
}
