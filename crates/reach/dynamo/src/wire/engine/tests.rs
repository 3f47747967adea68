//! Requests as a worker reads them, and output as workers of several versions write it.

use std::sync::Arc;

use contract::{HashSeed, NamedOptions, OutputLimits, Penalties, RequestId, Sampling};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn generate_request() -> GenerateRequest {
    GenerateRequest {
        id: RequestId::new("r"),
        nonce: 0,
        trace: None,
        prompt: Arc::from([1, 2, 3]),
        answered: Arc::from([]),
        hash_seed: HashSeed::BASE,
        limits: OutputLimits {
            max_tokens: 10,
            min_tokens: 2,
            ignore_eos: false,
            eos_tokens: Arc::from([7]),
        },
        sampling: Sampling {
            temperature: 0.5,
            top_k: Some(40),
            penalties: Penalties {
                repetition: 1.25,
                ..Penalties::default()
            },
            seed: Some(u64::MAX),
            named: NamedOptions {
                temperature: true,
                top_k: true,
                repetition: true,
                ..NamedOptions::default()
            },
            ..Sampling::default()
        },
        logprobs: Some(3),
        grammar: None,
    }
}

#[track_caller]
fn check_request(generate: &GenerateRequest, expected: Expect) {
    let written = request(generate, "m", Codec::Json);
    expected.assert_eq(std::str::from_utf8(&written).unwrap());
    let from_msgpack: serde_json::Value =
        rmp_serde::from_slice(&request(generate, "m", Codec::Msgpack)).unwrap();
    let from_json: serde_json::Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(from_msgpack, from_json);
}

#[test]
fn a_request_names_tokens_limits_and_sampling() {
    check_request(
        &generate_request(),
        expect![[
            r#"{"model":"m","token_ids":[1,2,3],"stop_conditions":{"max_tokens":10,"min_tokens":2,"ignore_eos":false,"stop_token_ids_hidden":[7]},"sampling_options":{"temperature":0.5,"top_p":null,"top_k":40,"min_p":null,"presence_penalty":null,"frequency_penalty":null,"repetition_penalty":1.25,"seed":-1},"output_options":{"logprobs":3,"skip_special_tokens":false},"eos_token_ids":[7],"annotations":[]}"#
        ]],
    );
}

#[test]
fn an_answer_begun_elsewhere_is_prompt_and_counts_against_the_limits() {
    let mut request = generate_request();
    request.answered = Arc::from([4, 5, 6]);
    request.limits.ignore_eos = true;
    check_request(
        &request,
        expect![[
            r#"{"model":"m","token_ids":[1,2,3,4,5,6],"stop_conditions":{"max_tokens":7,"min_tokens":0,"ignore_eos":true,"stop_token_ids_hidden":null},"sampling_options":{"temperature":0.5,"top_p":null,"top_k":40,"min_p":null,"presence_penalty":null,"frequency_penalty":null,"repetition_penalty":1.25,"seed":-1},"output_options":{"logprobs":3,"skip_special_tokens":false},"eos_token_ids":[7],"annotations":[]}"#
        ]],
    );
}

/// Decodes in both codecs and compares.
#[track_caller]
fn check(frame: serde_json::Value, expected: Answer<Output>) {
    let written = serde_json::to_vec(&frame).unwrap();
    assert_eq!(output(&written, Codec::Json), Ok(expected.clone()));
    let written = rmp_serde::to_vec_named(&frame).unwrap();
    assert_eq!(output(&written, Codec::Msgpack), Ok(expected));
}

fn tokens(tokens: &[u32]) -> Output {
    Output {
        token_ids: tokens.to_vec(),
        ..Output::default()
    }
}

#[test]
fn output_of_known_versions_is_read() {
    // 1.4: no usage, empty names of tokens.
    let frame = json!({"data": {"data": {"token_ids": [1661], "tokens": [null], "text": null,
        "cum_log_probs": null, "log_probs": null, "top_logprobs": null, "finish_reason": null,
        "index": null}}, "complete_final": false});
    check(frame, Answer::Data(tokens(&[1661])));
    // 1.6: usage in the first and in the last frame.
    let frame = json!({"data": {"data": {"token_ids": [], "tokens": null, "text": null,
        "output_type": "text", "cum_log_probs": null, "log_probs": null, "top_logprobs": null,
        "finish_reason": "length", "index": null, "completion_usage": {"prompt_tokens": 50,
        "completion_tokens": 5, "total_tokens": 55,
        "prompt_tokens_details": {"audio_tokens": null, "cached_tokens": 48}}}},
        "complete_final": false});
    let details = PromptDetails {
        cached_tokens: Some(48),
    };
    let expected = Output {
        finish_reason: Some(Finish::Length),
        completion_usage: Some(Usage {
            prompt_tokens_details: Some(details),
        }),
        ..Output::default()
    };
    assert_eq!(expected.cached_tokens(), Some(48));
    check(frame, Answer::Data(expected));
    check(json!({"complete_final": true}), Answer::End);
    check(json!({"data": null, "complete_final": true}), Answer::End);
    check(
        json!({"data": {"event": "formatted_prompt", "comment": ["\"x\""]},
        "complete_final": false}),
        Answer::Nothing,
    );
}

#[test]
fn finish_reasons_are_read() {
    let finish = |reason: serde_json::Value| {
        let frame = json!({"data": {"data": {"token_ids": [], "finish_reason": reason}}});
        match output(&serde_json::to_vec(&frame).unwrap(), Codec::Json).unwrap() {
            Answer::Data(output) => output.finish_reason.unwrap(),
            Answer::Nothing | Answer::End | Answer::Error { .. } => panic!("no data"),
        }
    };
    assert_eq!(finish(json!("eos")), Finish::Eos);
    assert_eq!(finish(json!("stop")), Finish::Stop);
    assert_eq!(finish(json!("content_filter")), Finish::ContentFilter);
    assert_eq!(finish(json!("cancelled")), Finish::Cancelled);
    assert_eq!(finish(json!("abort")), Finish::Cancelled);
    assert_eq!(
        finish(json!({"error": "full"})),
        Finish::Error("full".to_owned())
    );
}

#[test]
fn errors_come_in_several_forms() {
    let error = |kind: &str, message: &str| Answer::Error {
        kind: kind.to_owned(),
        message: message.to_owned(),
    };
    check(
        json!({"data": {"event": "error", "comment": ["a", "b"]}}),
        error("", "a, b"),
    );
    check(
        json!({"data": {"event": "error", "error": {"error_type": "WorkerOverloaded",
            "message": "full", "caused_by": {"error_type": "Unknown", "message": "x"}}}}),
        error("WorkerOverloaded", "full"),
    );
    check(
        json!({"data": {"event": "error", "error":
            {"error_type": {"Backend": "InvalidArgument"}, "message": "long"}}}),
        error("BackendInvalidArgument", "long"),
    );
}

#[test]
fn malformed_output_is_refused() {
    for bad in [
        &b""[..],
        b"{",
        b"[]",
        br#"{"data":{"data":{"token_ids":"x"}}}"#,
        br#"{"data":{"data":{"token_ids":[-1]}}}"#,
        br#"{"data":{"data":{"token_ids":[4294967296]}}}"#,
        br#"{"data":{"data":{"token_ids":[],"finish_reason":"later"}}}"#,
    ] {
        assert!(output(bad, Codec::Json).is_err(), "{}", bad.escape_ascii());
    }
    // An array that claims four billion entries and has none.
    let bad = [
        &b"\x81\xa4data\x81\xa4data\x81\xa9token_ids"[..],
        &[0xdd, 255, 255, 255, 255],
    ];
    assert!(output(&bad.concat(), Codec::Msgpack).is_err());
    let deep = [0x91_u8; 100_000];
    assert!(output(&deep, Codec::Msgpack).is_err());
    assert!(output(&[b'['; 100_000], Codec::Json).is_err());
}

proptest! {
    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = output(&bytes, Codec::Json);
        let _ = output(&bytes, Codec::Msgpack);
    }
}
