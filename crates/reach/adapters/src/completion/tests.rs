//! Bodies, refusals and answers, one engine's way after the other.

use std::sync::Arc;
use std::time::Duration;

use contract::{
    FinishReason, HashSeed, NamedOptions, OutputLimits, Penalties, RequestId, Sampling, Started,
    TokenChunk, TokenLogprob,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::kind::EngineKind;
use crate::retokenize::Tokenize;

fn request() -> GenerateRequest {
    GenerateRequest {
        id: RequestId::new("r"),
        nonce: 0,
        trace: None,
        prompt: Arc::new([1, 2, 3]),
        answered: Arc::new([]),
        hash_seed: HashSeed::BASE,
        limits: limits(),
        sampling: Sampling {
            temperature: 0.5,
            top_p: 1.0,
            top_k: Some(40),
            seed: Some(u64::MAX),
            named: NamedOptions {
                temperature: true,
                top_p: true,
                top_k: true,
                ..NamedOptions::default()
            },
            ..Sampling::default()
        },
        logprobs: None,
        grammar: None,
    }
}

fn limits() -> OutputLimits {
    OutputLimits {
        max_tokens: 10,
        min_tokens: 4,
        ignore_eos: false,
        eos_tokens: Arc::new([99]),
    }
}

fn asked(kind: EngineKind, request: &GenerateRequest) -> Value {
    let request = CompletionRequest::new(kind.dialect(), "m", request).unwrap();
    serde_json::from_slice(&request.body).unwrap()
}

#[test]
fn each_kind_gets_the_fields_that_it_knows() {
    let plain = json!({
        "model": "m", "prompt": [1, 2, 3], "max_tokens": 10, "stream": true,
        "stream_options": {"include_usage": true}, "temperature": 0.5, "top_p": 1.0,
        "seed": i64::MAX,
    });
    assert_eq!(asked(EngineKind::Openai, &request()), plain);
    let mut more = plain;
    more["top_k"] = json!(40);
    more["min_tokens"] = json!(4);
    more["stop_token_ids"] = json!([99]);
    let mut trtllm = more.clone();
    trtllm["detokenize"] = json!(false);
    assert_eq!(asked(EngineKind::Trtllm, &request()), trtllm);
    more["return_token_ids"] = json!(true);
    assert_eq!(asked(EngineKind::Vllm, &request()), more);
    assert_eq!(asked(EngineKind::Sglang, &request()), more);
}

#[test]
fn penalties_are_named_where_they_change_something() {
    let mut request = request();
    request.sampling.min_p = 0.25;
    request.sampling.named.min_p = true;
    request.sampling.named.repetition = true;
    request.sampling.penalties = Penalties {
        presence: 0.5,
        frequency: -0.5,
        repetition: 1.5,
    };
    let body = asked(EngineKind::Openai, &request);
    assert_eq!(
        (&body["presence_penalty"], &body["frequency_penalty"]),
        (&json!(0.5), &json!(-0.5))
    );
    assert!(body.get("min_p").is_none() && body.get("repetition_penalty").is_none());
    let body = asked(EngineKind::Vllm, &request);
    assert_eq!(
        (&body["min_p"], &body["repetition_penalty"]),
        (&json!(0.25), &json!(1.5))
    );
}

#[test]
fn what_the_client_leaves_open_is_left_to_the_engine() {
    let mut request = request();
    request.sampling = Sampling {
        temperature: 0.6,
        top_k: Some(20),
        min_p: 0.1,
        ..Sampling::default()
    };
    let body = asked(EngineKind::Vllm, &request);
    for option in [
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "repetition_penalty",
    ] {
        assert_eq!(body.get(option), None, "{option}");
    }
    // A client that switches a recommendation off says so.
    request.sampling.top_k = None;
    request.sampling.named.top_k = true;
    assert_eq!(asked(EngineKind::Vllm, &request)["top_k"], json!(-1));
}

#[test]
fn what_was_answered_belongs_to_the_prompt_and_counts() {
    let mut request = request();
    request.answered = Arc::new([7, 8]);
    let body = asked(EngineKind::Vllm, &request);
    assert_eq!(body["prompt"], json!([1, 2, 3, 7, 8]));
    assert_eq!(
        (&body["max_tokens"], &body["min_tokens"]),
        (&json!(8), &json!(2))
    );
}

#[test]
fn wishes_are_passed_on_where_they_are_understood() {
    let mut request = request();
    request.logprobs = Some(2);
    request.limits.ignore_eos = true;
    request.hash_seed = HashSeed::from_bits(0x1234);
    let body = asked(EngineKind::Vllm, &request);
    assert_eq!(body["logprobs"], json!(2));
    assert_eq!(body["return_tokens_as_token_ids"], json!(true));
    assert_eq!(body["ignore_eos"], json!(true));
    assert_eq!(body.get("stop_token_ids"), None);
    assert_eq!(body["cache_salt"], json!("homing-0000000000001234"));
    assert_eq!(asked(EngineKind::Sglang, &request).get("logprobs"), None);
    for cannot in [EngineKind::Trtllm, EngineKind::Openai] {
        let refused = CompletionRequest::new(cannot.dialect(), "m", &request);
        let engine = cannot.as_str();
        let error = UnsupportedRequest::CacheSalt { engine };
        assert_eq!(refused.unwrap_err(), error);
    }
}

#[test]
fn refusals_say_whose_fault_it_is() {
    let worker = WorkerId(1);
    let answer = |status: u16, body: &str| {
        refusal(
            worker,
            StatusCode::from_u16(status).unwrap(),
            body.as_bytes(),
        )
    };
    for status in [429, 503, 529] {
        assert!(matches!(answer(status, ""), LinkError::Overloaded { .. }));
    }
    assert!(matches!(answer(413, ""), LinkError::TooLarge { .. }));
    for status in [400, 422] {
        for words in [
            "This model's maximum context length is 8192 tokens. However, you requested 9000",
            "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
            "The sum of prompt length and max_tokens should not exceed max_seq_len (8192)",
            r#"{"error":{"message":"Too many.","code":"context_length_exceeded"}}"#,
        ] {
            assert!(
                matches!(answer(status, words), LinkError::TooLarge { .. }),
                "{words}"
            );
        }
        for words in [
            "",
            "top_k must be -1 (disable), or at least 1, got 0",
            "guided decoding: the grammar exceeds the limit of rules",
            r#"{"error":{"message":"logit_bias is not supported"}}"#,
        ] {
            let refused = answer(status, words);
            assert!(matches!(refused, LinkError::Refused { .. }), "{words}");
            assert!(!refused.blames_worker());
        }
    }
    for status in [401, 404, 500, 502] {
        assert!(answer(status, "").blames_worker(), "{status}");
    }
    let detail = "it answered 400: maximum context length is 8".to_owned();
    let expected = LinkError::TooLarge { worker, detail };
    for body in [
        r#"{"error":{"message":"maximum context length is 8","code":400}}"#,
        r#"{"object":"error","message":"maximum context length is 8"}"#,
        r#"{"detail":"maximum context length is 8"}"#,
        "maximum context length is 8\n",
    ] {
        assert_eq!(answer(400, body), expected, "{body}");
    }
    assert!(answer(500, &"x".repeat(10_000)).to_string().len() < 1000);
}

/// Each byte is a token.
fn bytewise() -> Tokenize {
    Tokenize::new(|text| text.bytes().map(u32::from).collect())
}

const AFTER: Duration = Duration::from_millis(30);

fn play(mut answer: Answer, events: &[Value]) -> Result<Vec<TokenChunk>, StreamError> {
    for event in events {
        answer.event(&event.to_string(), AFTER)?;
    }
    answer.event("[DONE]", AFTER)?;
    assert!(answer.is_over());
    Ok(std::iter::from_fn(|| answer.pop()).collect())
}

fn answer() -> Answer {
    Answer::new(&limits(), None, 64, bytewise())
}

fn ids(tokens: &[u32]) -> Value {
    json!({"choices": [{"index": 0, "text": "..", "token_ids": tokens, "finish_reason": null}]})
}

fn end(tokens: &[u32], reason: &str) -> Value {
    json!({"choices": [{"index": 0, "text": "", "token_ids": tokens, "finish_reason": reason}]})
}

fn usage(cached: u32) -> Value {
    json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": cached}}})
}

fn started(cached_tokens: u32) -> Option<Box<Started>> {
    Some(Box::new(Started {
        cached_tokens,
        intake: Duration::ZERO,
        queue_wait: Duration::ZERO,
        prefill: AFTER,
    }))
}

#[test]
fn tokens_come_as_the_engine_gives_them() {
    let chunks = play(
        answer(),
        &[ids(&[5]), ids(&[6, 7]), end(&[], "length"), usage(64)],
    )
    .unwrap();
    assert_eq!(chunks[0].tokens[..], [5]);
    assert_eq!(chunks[0].started, started(64));
    assert_eq!(chunks[1].tokens[..], [6, 7]);
    assert_eq!(chunks[1].started, None);
    assert_eq!(chunks[2].finish, Some(FinishReason::Length));
    assert_eq!(chunks[2].started, None, "the engine said what was expected");
    assert_eq!(chunks.len(), 3);
}

#[test]
fn the_engines_own_figure_comes_last_if_it_comes_late() {
    let chunks = play(answer(), &[ids(&[5]), end(&[6], "stop"), usage(32)]).unwrap();
    assert_eq!(chunks[0].started, started(64));
    assert_eq!(chunks.last().unwrap().started, started(32));
}

#[test]
fn the_engines_own_figure_comes_first_if_it_comes_early() {
    let mut first = ids(&[5]);
    first["usage"] = usage(16)["usage"].clone();
    let chunks = play(answer(), &[first, end(&[], "length"), usage(16)]).unwrap();
    assert_eq!(chunks[0].started, started(16));
    assert_eq!(chunks[1].started, None);
}

#[test]
fn the_token_that_ends_an_answer_is_not_part_of_it() {
    let tokens = |events: &[Value]| -> Vec<u32> {
        let chunks = play(answer(), events).unwrap();
        chunks
            .iter()
            .flat_map(|chunk| chunk.tokens.clone())
            .collect()
    };
    assert_eq!(tokens(&[ids(&[5]), end(&[6, 99], "stop")]), [5, 6]);
    assert_eq!(tokens(&[ids(&[5]), end(&[6, 99], "length")]), [5, 6, 99]);
    let mut vllm = end(&[6, 7], "stop");
    vllm["choices"][0]["stop_reason"] = json!(7);
    assert_eq!(tokens(&[vllm]), [6]);
    let mut sglang = end(&[6, 7], "stop");
    sglang["choices"][0]["matched_stop"] = json!(7);
    assert_eq!(tokens(&[sglang]), [6]);
}

#[test]
fn an_answer_without_a_token_has_begun_all_the_same() {
    let chunks = play(answer(), &[end(&[99], "stop"), usage(0)]).unwrap();
    assert_eq!(chunks.len(), 1);
    assert_eq!(chunks[0].started, started(0));
    assert_eq!(chunks[0].finish, Some(FinishReason::Stop));
}

#[test]
fn text_becomes_tokens_where_there_are_none() {
    let text = |text: &str, reason: Option<&str>| json!({"choices": [{"text": text, "finish_reason": reason}]});
    let chunks = play(
        answer(),
        &[
            text("Hel", None),
            text("lo wor", None),
            text("ld", Some("stop")),
        ],
    );
    let chunks = chunks.unwrap();
    let bytes: Vec<u8> = chunks
        .iter()
        .flat_map(|chunk| &chunk.tokens)
        .map(|t| *t as u8)
        .collect();
    assert_eq!(bytes, b"Hello world");
    assert!(chunks.len() > 1, "words come as they are certain");
}

#[test]
fn log_probabilities_are_by_token() {
    let answer = Answer::new(&limits(), Some(1), 0, bytewise());
    let mut event = ids(&[5, 6]);
    event["choices"][0]["logprobs"] = json!({
        "tokens": ["token_id:5", "token_id:6"], "token_logprobs": [-0.1, -0.2], "text_offset": [0, 1],
        "top_logprobs": [{"token_id:5": -0.1, "token_id:9": -3.0}, {"token_id:6": -0.2, "token_id:4": -0.01}],
    });
    let chunks = play(answer, &[event, end(&[], "length")]).unwrap();
    let expected = |logprob, top| TokenLogprob {
        logprob,
        top: vec![top],
    };
    let logprobs = [expected(-0.1, (5, -0.1)), expected(-0.2, (4, -0.01))];
    assert_eq!(chunks[0].logprobs, logprobs);
}

#[test]
fn what_breaks_an_answer_is_said() {
    let broken = |event: Value| play(answer(), &[ids(&[5]), event]).unwrap_err().to_string();
    assert_eq!(
        broken(json!({"error": {"message": "engine died", "code": 500}})),
        "engine died"
    );
    assert_eq!(broken(json!({"error": "engine died"})), "engine died");
    assert_eq!(
        broken(json!({"object": "error", "message": "engine died"})),
        "engine died"
    );
    assert!(broken(end(&[], "abort")).contains("abort"));
    assert!(broken(json!([1])).contains("cannot be read"));
    let ended = play(answer(), &[ids(&[5])]).unwrap_err().to_string();
    assert!(ended.contains("before the answer"), "{ended}");
}

proptest! {
    #[test]
    fn no_event_makes_it_panic(event in ".{0,80}", cut in 0_usize..200) {
        let mut answer = answer();
        let _ = answer.event(&event, AFTER);
        let whole = usage(1).to_string();
        let _ = answer.event(whole.get(..cut).unwrap_or(&whole), AFTER);
        let _ = answer.done(AFTER);
    }
}
