//! Every event parses back to what was written.

use proptest::prelude::*;

use super::*;
use crate::response::*;

/// The JSON of the only event in `bytes`.
fn payload(bytes: &[u8]) -> &str {
    let text = std::str::from_utf8(bytes).unwrap();
    let event = text
        .strip_prefix("data: ")
        .unwrap()
        .strip_suffix("\n\n")
        .unwrap();
    assert!(!event.contains(['\n', '\r']), "an event is one line");
    event
}

fn finishes() -> impl Strategy<Value = Option<FinishReason>> {
    prop_oneof![
        Just(None),
        Just(Some(FinishReason::Stop)),
        Just(Some(FinishReason::Length))
    ]
}

/// Any text, with the characters that matter to JSON and to event streams in excess.
fn texts() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        any::<char>().prop_map(String::from),
        prop::sample::select(vec![
            "\n", "\r", "\"", "\\", "\u{0}", "\u{7f}", "\u{2028}", "é", "🦀"
        ])
        .prop_map(str::to_owned),
        "[a-z ]{0,8}",
    ];
    prop::collection::vec(pieces, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn chat_events_parse_back(
        id in texts(),
        model in texts(),
        text in texts(),
        created in any::<u64>(),
        role in any::<bool>(),
        finish in finishes(),
        usage in prop::option::of(any::<(u16, u16, u16)>()),
        extended in any::<bool>(),
    ) {
        let usage = usage.map(|(prompt, completion, cached)| {
            Usage::new(u32::from(prompt), u32::from(completion), u32::from(cached))
        });
        let delta = Delta {
            role,
            said: Said::Content(&text),
            finish,
            usage: usage.as_ref(),
            nvext: extended.then_some(r#"{"worker_id":7}"#),
            ..Delta::default()
        };
        let mut out = Vec::new();
        EventWriter::chat(&id, created, &model).event(&mut out, &delta);
        let content = role || !text.is_empty() || finish.is_none();
        let expected = ChatCompletionChunk {
            id,
            object: ObjectKind::ChatCompletionChunk,
            created,
            model,
            choices: vec![ChatChunkChoice {
                index: 0,
                delta: ChatDelta {
                    role: role.then(|| "assistant".to_owned()),
                    content: content.then_some(text), ..ChatDelta::default() },
                logprobs: None,
                finish_reason: finish,
            }],
            usage,
            nvext: extended.then(|| serde_json::json!({ "worker_id": 7 })),
        };
        prop_assert_eq!(serde_json::from_str::<ChatCompletionChunk>(payload(&out)).unwrap(), expected);
    }

    #[test]
    fn completion_events_parse_back(
        text in texts(),
        index in any::<u32>(),
        finish in finishes(),
    ) {
        let mut out = Vec::new();
        let delta = Delta { index, said: Said::Content(&text), finish, ..Delta::default() };
        EventWriter::completion("cmpl-1", 5, "m").event(&mut out, &delta);
        let expected = Completion {
            id: "cmpl-1".to_owned(),
            object: ObjectKind::Completion,
            created: 5,
            model: "m".to_owned(),
            choices: vec![CompletionChoice { index, text, logprobs: None, finish_reason: finish }],
            usage: None,
            nvext: None,
        };
        prop_assert_eq!(serde_json::from_str::<Completion>(payload(&out)).unwrap(), expected);
    }
}

proptest! {
    #[test]
    fn reasoning_and_calls_parse_back(text in texts(), id in texts(), index in any::<u32>()) {
        let writer = EventWriter::chat("chatcmpl-1", 5, "m");
        let delta = |said| {
            let mut out = Vec::new();
            writer.event(&mut out, &Delta { said, ..Delta::default() });
            let chunk: ChatCompletionChunk = serde_json::from_str(payload(&out)).unwrap();
            chunk.choices[0].delta.clone()
        };
        let call = |id: Option<&String>, name: Option<&String>, arguments: &str| ChatDelta {
            tool_calls: vec![CallDelta {
                index,
                id: id.cloned(),
                kind: id.map(|_| "function".to_owned()),
                function: FunctionDelta { name: name.cloned(), arguments: Some(arguments.to_owned()) },
            }],
            ..ChatDelta::default()
        };
        let thought = ChatDelta { reasoning_content: Some(text.clone()), ..ChatDelta::default() };
        prop_assert_eq!(delta(Said::Reasoning(&text)), thought);
        let begun = delta(Said::Call { index, id: &id, name: &text });
        prop_assert_eq!(begun, call(Some(&id), Some(&text), ""));
        let more = delta(Said::Arguments { index, text: &text });
        prop_assert_eq!(more, call(None, None, &text));
    }
}

#[test]
fn a_stream_looks_like_this() {
    let writer = EventWriter::chat("chatcmpl-1", 1_700_000_000, "llama");
    let mut out = Vec::new();
    writer.event(
        &mut out,
        &Delta {
            role: true,
            said: Said::Content("Hel"),
            ..Delta::default()
        },
    );
    writer.event(
        &mut out,
        &Delta {
            said: Said::Content("lo\n"),
            ..Delta::default()
        },
    );
    writer.event(
        &mut out,
        &Delta {
            finish: Some(FinishReason::Stop),
            ..Delta::default()
        },
    );
    writer.usage_event(&mut out, &Usage::new(12, 2, 8), None);
    let guessed = Usage::new(12, 2, 8).with_speculation(3, 1);
    writer.usage_event(&mut out, &guessed, None);
    done(&mut out);
    expect_test::expect![[r#"
        data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"llama","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"},"finish_reason":null}]}

        data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"llama","choices":[{"index":0,"delta":{"content":"lo\n"},"finish_reason":null}]}

        data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"llama","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

        data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"llama","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":2,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":8}}}

        data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"llama","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":2,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":8},"completion_tokens_details":{"accepted_prediction_tokens":1,"rejected_prediction_tokens":2}}}

        data: [DONE]

    "#]]
    .assert_eq(std::str::from_utf8(&out).unwrap());
}

#[test]
fn logprobs_travel_in_the_shape_of_their_endpoint() {
    let chat = ChatLogprobs {
        content: vec![ChatTokenLogprob {
            token: "a".to_owned(),
            logprob: -0.5,
            bytes: Some(vec![97]),
            top_logprobs: vec![TopLogprob {
                token: "b".to_owned(),
                logprob: -1.5,
                bytes: None,
            }],
        }],
    };
    let mut out = Vec::new();
    let delta = Delta {
        said: Said::Content("a"),
        logprobs: Some(Logprobs::Chat(&chat)),
        ..Delta::default()
    };
    EventWriter::chat("i", 1, "m").event(&mut out, &delta);
    let chunk: ChatCompletionChunk = serde_json::from_str(payload(&out)).unwrap();
    assert_eq!(chunk.choices[0].logprobs.as_ref(), Some(&chat));

    let completion = CompletionLogprobs {
        tokens: vec!["a".to_owned()],
        token_logprobs: vec![Some(-0.5)],
        top_logprobs: vec![Some([("b".to_owned(), -1.5)].into())],
        text_offset: vec![3],
    };
    let mut out = Vec::new();
    let logprobs = Some(Logprobs::Completion(&completion));
    let delta = Delta {
        index: 2,
        said: Said::Content("a"),
        logprobs,
        ..Delta::default()
    };
    EventWriter::completion("i", 1, "m").event(&mut out, &delta);
    let event: Completion = serde_json::from_str(payload(&out)).unwrap();
    assert_eq!(event.choices[0].logprobs.as_ref(), Some(&completion));
    assert_eq!(event.choices[0].index, 2);
}

#[test]
fn an_error_is_an_event() {
    let body = ErrorBody::new("server_error", "the worker \"1\" went away\nsorry")
        .with_param(Some("p".to_owned()))
        .with_code(Some("worker_lost"));
    let mut out = Vec::new();
    error_event(&mut out, &body);
    assert_eq!(
        serde_json::from_str::<ErrorBody>(payload(&out)).unwrap(),
        body
    );
}
