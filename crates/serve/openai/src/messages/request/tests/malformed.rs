//! Long bodies, and bodies with any byte changed.

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn long_lists_end_where_they_are_read() {
    let call = json!({ "type": "tool_use", "id": "t", "name": "n", "input": {} });
    let result = json!({ "type": "tool_result", "tool_use_id": "t" });
    let text = json!({ "type": "text", "text": "a" });
    for (role, block) in [("assistant", &call), ("user", &result)] {
        let message = |count: usize| {
            let mut blocks = vec![block.clone(); count];
            blocks.push(text.clone());
            let last = json!({ "role": "user", "content": "go on" });
            json!({ "messages": [{ "role": role, "content": blocks }, last] })
        };
        assert!(strict(&message(128)).is_ok());
        let error = strict(&message(129)).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("messages[0].content"));
        assert_eq!(error.code, Some("invalid_value"), "{error}");
    }
    let many = json!({ "messages": vec![json!({}); 65_537] });
    let error = strict(&many).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("messages"), "{error}");
    let parts = vec![json!({ "type": "text", "text": "" }); 100_000];
    assert_eq!(
        accepted(&user(json!(parts))).messages[0].content.len(),
        99_999
    );
}

#[test]
fn long_names_make_no_long_answer() {
    let long = "x".repeat(1 << 20);
    for case in [
        json!({ long.clone(): 1 }),
        user(json!([{ "type": long }])),
        user(json!([{ "type": "text", "text": "a", long.clone(): 1 }])),
        json!({ "messages": [{ "role": long, "content": "a" }] }),
        json!({ "tools": [{ "type": long }] }),
        json!({ "tool_choice": { "type": long } }),
        json!({ "thinking": { "type": long } }),
        json!({ "output_config": { "effort": long } }),
        json!({ "output_format": { "type": long } }),
        json!({ "context_management": { "edits": [{ "type": long }] } }),
    ] {
        let error = strict(&case).unwrap_err();
        assert!(error.message.len() < 300, "{} bytes", error.message.len());
    }
}

proptest! {
    /// Whatever arrives, there is a request with a message or an error with a text.
    #[test]
    fn any_change_of_a_body_is_answered(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut body = body(&json!({
            "system": [{ "type": "text", "text": "x-anthropic-billing-header: a\nYou" }],
            "tools": [{ "name": "a", "input_schema": {} }], "tool_choice": { "type": "any" },
            "thinking": { "type": "enabled", "budget_tokens": 5 },
            "messages": [
                { "role": "assistant", "content": [
                    { "type": "tool_use", "id": "t", "name": "a", "input": { "b": [1] } },
                ] },
                { "role": "user", "content": [
                    { "type": "tool_result", "tool_use_id": "t", "content": [
                        { "type": "text", "text": "a" },
                    ] },
                ] },
            ],
        }));
        for (index, byte) in changes {
            let index = index.index(body.len());
            body[index] = byte;
        }
        if cut {
            body.truncate(length.index(body.len()));
        }
        for unknown in [UnknownFields::Refuse, UnknownFields::Ignore] {
            match parse(&body, unknown, true) {
                Ok(request) => prop_assert!(!request.chat.messages.is_empty()),
                Err(error) => prop_assert!(!error.message.is_empty()),
            }
        }
    }
}
