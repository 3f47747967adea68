//! How to generate: what arrives, and which values are out of range.

use expect_test::expect;
use serde_json::json;

use super::*;

#[test]
fn the_smallest_requests_have_defaults() {
    let request = chat(json!({})).unwrap();
    assert_eq!(request.model, "m");
    assert_eq!(request.messages, [Message::new(Role::User, "hi")]);
    assert_eq!(request.options, GenerationOptions::default());
    let request = completion(json!({})).unwrap();
    assert_eq!(request.prompts, [Prompt::Text("hi".to_owned())]);
    assert_eq!(request.options, GenerationOptions::default());
    assert!(!request.echo);
}

#[test]
fn every_option_arrives() {
    let options = json!({
        "max_tokens": 9, "max_completion_tokens": 7, "min_tokens": 2, "ignore_eos": true,
        "temperature": 0.5, "top_p": 0.25, "top_k": 40, "seed": -3, "n": 3,
        "logit_bias": { "77": 1.5, "5": -100 }, "stop_token_ids": [9, 8],
        "presence_penalty": -1.5, "frequency_penalty": 2, "min_p": 0.125,
        "repetition_penalty": 1.5, "stop": ["a", "b"], "stream": true,
        "stream_options": { "include_usage": true, "continuous_usage_stats": true },
        "user": "u", "conversation_id": "c",
        "nvext": {
            "extra_fields": ["worker_id", "timing", "routing", "other", 5],
            "cache_salt": "s",
        },
    });
    let expected = GenerationOptions {
        max_tokens: Some(7),
        min_tokens: 2,
        ignore_eos: true,
        temperature: Some(0.5),
        top_p: Some(0.25),
        top_k: Some(40),
        seed: Some(-3),
        presence_penalty: -1.5,
        frequency_penalty: 2.0,
        min_p: Some(0.125),
        repetition_penalty: Some(1.5),
        stop: vec!["a".to_owned(), "b".to_owned()],
        stream: true,
        include_usage: true,
        continuous_usage_stats: true,
        logprobs: None,
        user: Some("u".to_owned()),
        conversation_id: Some("c".to_owned()),
        extensions: Extensions {
            worker_id: true,
            timing: true,
            routing: true,
            cache_salt: Some("s".to_owned()),
        },
        n: 3,
        logit_bias: vec![(5, -100.0), (77, 1.5)],
        stop_token_ids: vec![9, 8],
        constraint: None,
    };
    assert_eq!(chat(options.clone()).unwrap().options, expected);
    assert_eq!(completion(options).unwrap().options, expected);
}

#[test]
fn null_is_absent() {
    let nulls: Value = [
        "max_tokens",
        "max_completion_tokens",
        "min_tokens",
        "ignore_eos",
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "n",
        "presence_penalty",
        "frequency_penalty",
        "min_p",
        "repetition_penalty",
        "stop",
        "stream",
        "stream_options",
        "logprobs",
        "top_logprobs",
        "user",
        "conversation_id",
        "cache_salt",
        "nvext",
        "echo",
        "suffix",
        "best_of",
    ]
    .into_iter()
    .map(|name| (name.to_owned(), Value::Null))
    .collect::<serde_json::Map<_, _>>()
    .into();
    assert_eq!(
        chat(nulls.clone()).unwrap().options,
        GenerationOptions::default()
    );
    assert_eq!(
        completion(nulls).unwrap().options,
        GenerationOptions::default()
    );
}

#[test]
fn a_salt_counts_at_either_place_and_the_top_level_first() {
    let salt = |more: Value| {
        let chat = chat(more.clone()).map(|request| request.options.extensions.cache_salt);
        let completion = completion(more).map(|request| request.options.extensions.cache_salt);
        assert_eq!(chat.is_ok(), completion.is_ok());
        assert_eq!(chat.as_ref().ok(), completion.as_ref().ok());
        chat
    };
    let nested = json!({ "cache_salt": "nested" });
    for (more, expected) in [
        (json!({ "cache_salt": "top" }), "top"),
        (json!({ "nvext": nested }), "nested"),
        (json!({ "cache_salt": "top", "nvext": nested }), "top"),
    ] {
        assert_eq!(
            salt(more.clone()).unwrap().as_deref(),
            Some(expected),
            "{more}"
        );
    }
    assert_eq!(salt(json!({ "cache_salt": null })).unwrap(), None);
    // Whoever asks to be kept apart and cannot be must know.
    for wrong in [json!(""), json!(5), json!(["s"])] {
        let error = salt(json!({ "cache_salt": wrong })).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("cache_salt"), "{wrong}");
    }
}

#[test]
fn stream_options_need_a_stream() {
    let request = chat(json!({ "stream_options": { "include_usage": true } })).unwrap();
    assert!(!request.options.include_usage);
}

#[test]
fn top_k_has_two_ways_to_be_off() {
    for off in [-1, 0] {
        assert_eq!(
            chat(json!({ "top_k": off })).unwrap().options.top_k,
            Some(0)
        );
    }
}

#[test]
fn top_p_of_nothing_is_greedy() {
    for (extra, temperature, top_p) in [
        (json!({ "top_p": 0 }), Some(0.0), None),
        (json!({ "top_p": 0.0, "temperature": 1.5 }), Some(0.0), None),
        (json!({ "top_p": 1e-60 }), Some(0.0), None),
        (
            json!({ "top_p": 0.5, "temperature": 1.5 }),
            Some(1.5),
            Some(0.5),
        ),
    ] {
        let options = chat(extra).unwrap().options;
        assert_eq!((options.temperature, options.top_p), (temperature, top_p));
    }
}

#[test]
fn logprobs_differ_by_endpoint() {
    let of_chat = |extra| chat(extra).unwrap().options.logprobs;
    assert_eq!(of_chat(json!({ "logprobs": true })), Some(0));
    assert_eq!(
        of_chat(json!({ "logprobs": true, "top_logprobs": 20 })),
        Some(20)
    );
    assert_eq!(
        of_chat(json!({ "logprobs": false, "top_logprobs": 0 })),
        None
    );
    let of_completion = |extra| completion(extra).unwrap().options.logprobs;
    assert_eq!(of_completion(json!({ "logprobs": 0 })), Some(0));
    assert_eq!(of_completion(json!({ "logprobs": 5 })), Some(5));
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    refused(
        &[
            json!({ "max_tokens": 0 }),
            json!({ "max_tokens": -5 }),
            json!({ "max_completion_tokens": 4_294_967_296_i64 }),
            json!({ "min_tokens": -1 }),
            json!({ "min_tokens": 3, "max_tokens": 2 }),
            json!({ "temperature": -0.1 }),
            json!({ "temperature": 2.5 }),
            json!({ "top_p": -0.01 }),
            json!({ "top_p": 1.01 }),
            json!({ "top_k": -2 }),
            json!({ "n": 0 }),
            json!({ "n": 2 }),
            json!({ "presence_penalty": 3 }),
            json!({ "frequency_penalty": -3 }),
            json!({ "stop": "" }),
            json!({ "stop": ["a", ""] }),
            json!({ "stop": vec!["x"; 17] }),
            json!({ "stop": "x".repeat(1025) }),
            json!({ "stop": ["x", "x".repeat(1025)] }),
            json!({ "messages": vec![json!({}); 65_537] }),
            json!({ "logprobs": true, "top_logprobs": 21 }),
            json!({ "top_logprobs": 2 }),
            json!({ "model": "" }),
            json!({ "model": null }),
            json!({ "messages": [] }),
            json!({ "messages": null }),
        ],
        &expect![[r#"
            Invalid max_tokens invalid_value: invalid value for `max_tokens`: 0 is not between 1 and 4294967295
            Invalid max_tokens invalid_value: invalid value for `max_tokens`: -5 is not between 1 and 4294967295
            Invalid max_completion_tokens invalid_value: invalid value for `max_completion_tokens`: 4294967296 is not between 1 and 4294967295
            Invalid min_tokens invalid_value: invalid value for `min_tokens`: -1 is not between 0 and 4294967295
            Invalid min_tokens invalid_value: invalid value for `min_tokens`: 3 is not between 0 and 2
            Invalid temperature invalid_value: invalid value for `temperature`: -0.1 is not between 0 and 2
            Invalid temperature invalid_value: invalid value for `temperature`: 2.5 is not between 0 and 2
            Invalid top_p invalid_value: invalid value for `top_p`: -0.01 is not between 0 and 1
            Invalid top_p invalid_value: invalid value for `top_p`: 1.01 is not between 0 and 1
            Invalid top_k invalid_value: invalid value for `top_k`: -2 is not between -1 and 4294967295
            Invalid n invalid_value: invalid value for `n`: 0 is not between 1 and 128
            accepted {"n":2}
            Invalid presence_penalty invalid_value: invalid value for `presence_penalty`: 3 is not between -2 and 2
            Invalid frequency_penalty invalid_value: invalid value for `frequency_penalty`: -3 is not between -2 and 2
            Invalid stop invalid_value: `stop` must not be empty
            Invalid stop[1] invalid_value: `stop[1]` must not be empty
            Invalid stop invalid_value: invalid value for `stop`: more than 16 stop strings
            Invalid stop invalid_value: invalid value for `stop`: 1025 bytes are more than 1024
            Invalid stop[1] invalid_value: invalid value for `stop[1]`: 1025 bytes are more than 1024
            Invalid messages invalid_value: invalid value for `messages`: more than 65536 messages
            Invalid top_logprobs invalid_value: invalid value for `top_logprobs`: 21 is not between 0 and 20
            Invalid top_logprobs invalid_value: invalid value for `top_logprobs`: needs `logprobs` to be true
            Invalid model invalid_value: `model` must not be empty
            Invalid model missing_required_parameter: `model` is required
            Invalid messages invalid_value: `messages` must hold at least one message
            Invalid messages missing_required_parameter: `messages` is required"#]],
    );
}
