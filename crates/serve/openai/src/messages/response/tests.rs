//! Answers as Anthropic's clients read them, and as they send them back.

use expect_test::expect;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::messages::parse;
use crate::{CallMade, ToolCall, UnknownFields};

fn called(id: &str, name: &str, arguments: &str) -> CallMade {
    let mut call = CallMade::new(id.to_owned(), name.to_owned());
    call.function.arguments = arguments.to_owned();
    call
}

fn answer(message: ChatMessage, finish: FinishReason) -> MessagesResponse {
    let end = Ending {
        finish: Some(finish),
        stop_sequence: None,
    };
    MessagesResponse::new("msg_1".into(), "m", message, end, &Usage::new(10, 4, 6))
}

#[test]
fn an_answer_looks_like_this() {
    let message = ChatMessage {
        reasoning_content: Some("hm".to_owned()),
        tool_calls: vec![called("t1", "get", r#"{"b": 1, "a": [2]}"#)],
        ..ChatMessage::assistant("I look.".to_owned())
    };
    let response = answer(message, FinishReason::ToolCalls);
    let text = serde_json::to_string_pretty(&response).unwrap();
    expect![[r#"
        {
          "id": "msg_1",
          "type": "message",
          "role": "assistant",
          "model": "m",
          "content": [
            {
              "type": "thinking",
              "thinking": "hm",
              "signature": ""
            },
            {
              "type": "text",
              "text": "I look."
            },
            {
              "type": "tool_use",
              "id": "t1",
              "name": "get",
              "input": {"b": 1, "a": [2]}
            }
          ],
          "stop_reason": "tool_use",
          "stop_sequence": null,
          "usage": {
            "input_tokens": 4,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 6,
            "output_tokens": 4
          }
        }"#]]
    .assert_eq(&text);
    assert_eq!(
        serde_json::from_str::<MessagesResponse>(&text).unwrap(),
        response
    );
    let omitted = response.omit_thinking();
    let first = ContentBlock::Thinking {
        thinking: String::new(),
        signature: String::new(),
    };
    assert_eq!(omitted.content[0], first);
    assert_eq!(omitted.content.len(), 3);
}

#[test]
fn every_end_has_a_reason() {
    use FinishReason::{Length, Other, Stop, ToolCalls};

    for (finish, stop, called, expected) in [
        (Stop, None, false, "end_turn"),
        (Stop, Some("x"), false, "stop_sequence"),
        (Stop, Some("x"), true, "stop_sequence"),
        (Stop, None, true, "tool_use"),
        (Length, None, false, "max_tokens"),
        (Length, None, true, "max_tokens"),
        (ToolCalls, None, true, "tool_use"),
        (Other, None, false, "end_turn"),
    ] {
        let mut message = ChatMessage::assistant("a".to_owned());
        if called {
            message.tool_calls = vec![CallMade::new("t".to_owned(), "n".to_owned())];
        }
        let end = Ending {
            finish: Some(finish),
            stop_sequence: stop,
        };
        let response = MessagesResponse::new("i".into(), "m", message, end, &Usage::new(1, 1, 0));
        let reason = response.stop_reason.unwrap();
        assert_eq!(reason.as_str(), expected);
        assert_eq!(serde_json::to_value(reason).unwrap(), json!(expected));
        let found = stop.filter(|_| expected == "stop_sequence");
        assert_eq!(response.stop_sequence.as_deref(), found);
    }
}

#[test]
fn an_empty_answer_has_no_block() {
    let response = answer(ChatMessage::assistant(String::new()), FinishReason::Stop);
    assert_eq!(response.content, []);
}

#[test]
fn arguments_are_always_an_object() {
    for (arguments, expected) in [
        ("{\"b\": 1, \"a\": 2}", "{\"b\": 1, \"a\": 2}"),
        ("", "{}"),
        (" ", "{}"),
        ("[1]", r#"{"INVALID_JSON":"[1]"}"#),
        ("{\"a\": \"b", r#"{"INVALID_JSON":"{\"a\": \"b"}"#),
    ] {
        assert_eq!(input(arguments).as_str(), expected);
    }
}

#[test]
fn the_counts_of_the_prompt_add_up() {
    for (prompt, cached, expected) in [(10, 6, (4, 6)), (10, 10, (0, 10)), (5, 7, (0, 5))] {
        let usage = MessagesUsage::from(&Usage::new(prompt, 3, cached));
        let found = (usage.input_tokens, usage.cache_read_input_tokens);
        assert_eq!(found, expected);
        assert_eq!(usage.output_tokens, 3);
        assert_eq!(usage.cache_creation_input_tokens, 0);
    }
    let unknown = Usage {
        prompt_tokens_details: None,
        ..Usage::new(10, 3, 0)
    };
    assert_eq!(MessagesUsage::from(&unknown).input_tokens, 10);
}

#[test]
fn errors_have_the_type_of_their_status() {
    let error = ErrorBody::new("server_error", "no \"worker\"").with_code(Some("c"));
    let kind = |status| MessagesError::new(status, &error, None).error.kind;
    for (status, expected) in [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (409, "invalid_request_error"),
        (413, "request_too_large"),
        (415, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ] {
        assert_eq!(kind(status), expected, "{status}");
    }
    let body = MessagesError::new(503, &error, Some("req_1"));
    let text = serde_json::to_string(&body).unwrap();
    expect![[r#"{"type":"error","error":{"type":"overloaded_error","message":"no \"worker\""},"request_id":"req_1"}"#]].assert_eq(&text);
    assert_eq!(serde_json::from_str::<MessagesError>(&text).unwrap(), body);
    let without = serde_json::to_value(MessagesError::new(500, &error, None)).unwrap();
    assert_eq!(without.get("request_id"), None);
}

#[test]
fn strange_blocks_are_not_read() {
    for block in [
        json!({ "type": "image" }),
        json!({ "type": "text" }),
        json!({ "type": "tool_use", "id": "t", "name": "n" }),
    ] {
        assert!(serde_json::from_str::<ContentBlock>(&block.to_string()).is_err());
    }
}

proptest! {
    /// A client sends an answer back as the assistant's turn: it must become what the model said,
    /// or the prefix of the next prompt is another one.
    #[test]
    fn an_answer_comes_back_as_it_went(
        text in "(?s).{0,20}",
        thinking in "(?s).{0,20}",
        calls in prop::collection::vec(("[a-z_]{1,8}", "[a-zA-Z0-9_-]{1,8}", "[a-z \"\\\\]{0,8}"), 0..3),
    ) {
        let calls: Vec<CallMade> = calls
            .iter()
            .map(|(id, name, value)| called(id, name, &format!(r#"{{"z": {}, "a": 1}}"#, json!(value))))
            .collect();
        prop_assume!(!(text.is_empty() && thinking.is_empty() && calls.is_empty()));
        let message = ChatMessage {
            reasoning_content: Some(thinking.clone()),
            tool_calls: calls.clone(),
            ..ChatMessage::assistant(text.clone())
        };
        let response = answer(message, FinishReason::Stop);
        // As text: a tree would sort the members of arguments.
        let content = serde_json::to_string(&response.content).unwrap();
        let turn = format!(r#"{{"role": "assistant", "content": {content}}}"#);
        let body = format!(
            r#"{{"model": "m", "max_tokens": 1, "messages": [{turn}, {{"role": "user", "content": "go on"}}]}}"#
        );
        let request = parse(body.as_bytes(), UnknownFields::Refuse, false).unwrap();
        let turn = &request.chat.messages[0];
        prop_assert_eq!(&turn.content, &text);
        prop_assert_eq!(turn.reasoning.clone().unwrap_or_default(), thinking);
        let expected: Vec<ToolCall> = calls
            .into_iter()
            .map(|call| ToolCall {
                id: Some(call.id),
                name: call.function.name,
                arguments: JsonText::parse(&call.function.arguments).unwrap(),
            })
            .collect();
        prop_assert_eq!(&turn.tool_calls, &expected);
    }
}
