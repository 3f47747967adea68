//! Requests become tokens with limits.

mod folders;
mod guards;

use std::sync::LazyLock;

use expect_test::expect;
use openai::Role;
use openai::UnknownFields;
use serde_json::{Value, json};

use super::*;
use crate::tokenizer::embedded;
use crate::tokenizer::hugging_face::fixture;

static EMBEDDED: LazyLock<Preprocessor> = LazyLock::new(|| {
    Preprocessor::embedded(PreprocessConfig {
        max_context_tokens: 100,
        ..Default::default()
    })
});

fn chat(extra: Value) -> ChatRequest {
    let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hello" }] });
    merge(&mut body, extra);
    ChatRequest::parse(&serde_json::to_vec(&body).unwrap(), UnknownFields::Refuse).unwrap()
}

fn completion(extra: Value) -> CompletionRequest {
    let mut body = json!({ "model": "m", "prompt": "hello world" });
    merge(&mut body, extra);
    CompletionRequest::parse(&serde_json::to_vec(&body).unwrap(), UnknownFields::Refuse).unwrap()
}

fn merge(body: &mut Value, extra: Value) {
    for (name, value) in extra.as_object().unwrap() {
        body[name] = value.clone();
    }
}

fn said(messages: &[(Role, &str)]) -> ChatRequest {
    let messages = messages
        .iter()
        .map(|&(role, content)| Message::new(role, content));
    ChatRequest {
        messages: messages.collect(),
        ..chat(json!({}))
    }
}

#[test]
fn a_conversation_is_rendered_and_encoded() {
    let prepared = EMBEDDED.chat(&chat(json!({}))).unwrap();
    let prompt = &prepared.prompt;
    assert_eq!(
        prompt[..2],
        [embedded::BEGIN_OF_TEXT, embedded::START_OF_HEADER]
    );
    assert_eq!(
        prompt
            .iter()
            .filter(|&&id| id == embedded::END_OF_TURN)
            .count(),
        1
    );
    assert_eq!(
        EMBEDDED.tokenizer().decode(prompt),
        "user\n\nhelloassistant\n\n"
    );
    assert_eq!(prepared.limits.max_tokens, 100 - prompt.len() as u32);
    assert_eq!(prepared.limits.min_tokens, 0);
    assert_eq!(
        *prepared.limits.eos_tokens,
        [embedded::END_OF_TEXT, embedded::END_OF_TURN]
    );
    assert_eq!(prepared.sampling, Sampling::default());
    assert_eq!(prepared.logprobs, None);
    assert_eq!(prepared.hash_seed, HashSeed::BASE);
}

#[test]
fn options_are_passed_on() {
    let prepared = EMBEDDED
        .chat(&chat(json!({
            "max_tokens": 5, "min_tokens": 2, "ignore_eos": true, "temperature": 0, "top_p": 0.5,
            "top_k": 7, "min_p": 0.25, "presence_penalty": 0.5, "frequency_penalty": -0.5,
            "repetition_penalty": 1.5, "seed": -1, "logprobs": true, "top_logprobs": 3,
            "nvext": { "cache_salt": "tenant" },
        })))
        .unwrap();
    assert_eq!(
        (prepared.limits.max_tokens, prepared.limits.min_tokens),
        (5, 2)
    );
    assert!(prepared.limits.ignore_eos);
    assert_eq!(
        prepared.sampling,
        Sampling {
            temperature: 0.0,
            top_p: 0.5,
            top_k: Some(7),
            min_p: 0.25,
            penalties: contract::Penalties {
                presence: 0.5,
                frequency: -0.5,
                repetition: 1.5,
            },
            seed: Some(u64::MAX),
            logit_bias: Arc::default(),
            named: contract::NamedOptions {
                temperature: true,
                top_p: true,
                top_k: true,
                min_p: true,
                repetition: true,
            },
        }
    );
    assert_eq!(prepared.logprobs, Some(3));
    assert_eq!(prepared.hash_seed, HashSeed::new("", "tenant"));
}

#[test]
fn prompts_start_with_bos_exactly_once() {
    let request = completion(json!({ "prompt": ["hello world", "<|begin_of_text|>hello"] }));
    let prepared = EMBEDDED.completion(&request).unwrap();
    assert_eq!(*prepared[0].prompt, [embedded::BEGIN_OF_TEXT, 24912, 2375]);
    assert_eq!(*prepared[1].prompt, [embedded::BEGIN_OF_TEXT, 24912]);
    let tokens = EMBEDDED
        .completion(&completion(json!({ "prompt": [[1], [2, 3]] })))
        .unwrap();
    assert_eq!(
        (&*tokens[0].prompt, &*tokens[1].prompt),
        (&[1][..], &[2, 3][..]),
        "as they are"
    );
}

#[test]
fn the_context_has_an_end() {
    let length = EMBEDDED.chat(&chat(json!({}))).unwrap().prompt.len() as u32;
    let fits = EMBEDDED
        .chat(&chat(json!({ "max_tokens": 100 - length })))
        .unwrap();
    assert_eq!(fits.limits.max_tokens, 100 - length);
    let errors: Vec<String> = [
        EMBEDDED
            .chat(&chat(json!({ "max_tokens": 101 - length })))
            .unwrap_err(),
        EMBEDDED
            .chat(&chat(json!({ "min_tokens": 1000 })))
            .unwrap_err(),
        EMBEDDED
            .chat(&chat(
                json!({ "messages": [{ "role": "user", "content": "a ".repeat(200) }] }),
            ))
            .unwrap_err(),
        EMBEDDED
            .completion(&completion(json!({ "prompt": vec![1; 100] })))
            .unwrap_err(),
    ]
    .into_iter()
    .map(|error| format!("{:?} {:?}: {error}", error.param(), error.code()))
    .collect();
    expect![[r#"
        Some("messages") Some("context_length_exceeded"): This model's maximum context length is 100 tokens. However, you requested 101 tokens (11 in the messages, 90 in the completion). Please reduce the length of the messages or completion.
        Some("messages") Some("context_length_exceeded"): This model's maximum context length is 100 tokens. However, you requested 1011 tokens (11 in the messages, 1000 in the completion). Please reduce the length of the messages or completion.
        Some("messages") Some("context_length_exceeded"): This model's maximum context length is 100 tokens. However, your messages resulted in 210 tokens. Please reduce the length of the messages.
        Some("prompt") Some("context_length_exceeded"): This model's maximum context length is 100 tokens. However, your prompt resulted in 100 tokens. Please reduce the length of the prompt."#]].assert_eq(&errors.join("\n"));
    let last = EMBEDDED
        .completion(&completion(json!({ "prompt": vec![1; 99] })))
        .unwrap();
    assert_eq!(last[0].limits.max_tokens, 1);
}

#[test]
fn token_ids_must_be_in_the_vocabulary() {
    let last = EMBEDDED
        .completion(&completion(json!({ "prompt": [200_023] })))
        .unwrap();
    assert_eq!(*last[0].prompt, [200_023]);
    let errors: Vec<String> = [json!([1, 200_024]), json!([[1], [u32::MAX]])]
        .into_iter()
        .map(|prompt| {
            let request = completion(json!({ "prompt": prompt }));
            EMBEDDED.completion(&request).unwrap_err().to_string()
        })
        .collect();
    expect![[r#"
        invalid value for `prompt`: token id 200024 is not below 200024, the size of the vocabulary
        invalid value for `prompt[1]`: token id 4294967295 is not below 200024, the size of the vocabulary"#]].assert_eq(&errors.join("\n"));
}

#[test]
fn the_next_turn_extends_the_prompt() {
    let preprocessor = Preprocessor::embedded(PreprocessConfig::default());
    let article = crate::articles()[3].text;
    let mut messages = vec![json!({ "role": "user", "content": article })];
    let first = preprocessor
        .chat(&chat(json!({ "messages": messages })))
        .unwrap();
    let cold = preprocessor.cache_stats();
    messages.push(json!({ "role": "assistant", "content": "It depends." }));
    messages.push(json!({ "role": "user", "content": "On what?" }));
    let second = preprocessor
        .chat(&chat(json!({ "messages": messages })))
        .unwrap();
    assert!(second.prompt.starts_with(&first.prompt));
    let warm = preprocessor.cache_stats();
    // The answer behind its header's line breaks, and the question.
    assert_eq!(warm.misses - cold.misses, 2);
}

#[test]
fn the_way_out_undoes_the_way_in() {
    let text = "naïve 世界 🦀 and a STOP here";
    let tokens = EMBEDDED.encode_plain(text).unwrap();
    let mut stream = EMBEDDED.text_stream(&[], AnswerFormat::default());
    let mut out = String::new();
    assert!(!stream.push(&tokens, &mut out));
    stream.finish(&mut out);
    assert_eq!(out, text);
    let mut stream = EMBEDDED.text_stream(&["a STOP".to_owned()], AnswerFormat::default());
    let mut out = String::new();
    let stops: Vec<bool> = tokens
        .iter()
        .map(|&token| stream.push(&[token], &mut out))
        .collect();
    stream.finish(&mut out);
    assert_eq!(out, "naïve 世界 🦀 and ");
    assert_eq!(
        stops.iter().filter(|&&stopped| stopped).count(),
        2,
        "at the stop and after"
    );
}

#[test]
fn what_cannot_fit_is_refused_before_it_is_counted() {
    let model = Preprocessor::embedded(PreprocessConfig {
        max_context_tokens: 1000,
        ..Default::default()
    });
    let long = |content: &str, times: usize| {
        let content = content.repeat(times);
        model
            .chat(&said(&[(Role::User, content.as_str())]))
            .unwrap_err()
    };
    let far = PrepareError::ContextFarTooLong {
        limit: 1000,
        param: "messages",
    };
    assert_eq!(
        long("word ", 100_000),
        far,
        "more bytes than any tokens have"
    );
    assert_eq!(
        long("word ", 20_000),
        far,
        "counted to twice the context only"
    );
    assert_eq!(long("w", 70_000), far, "one word");
    assert!(matches!(
        long("word ", 1500),
        PrepareError::ContextTooLong {
            prompt_tokens: 1501..,
            ..
        }
    ));
    let many = [(Role::User, "a"); 500];
    assert_eq!(
        model.chat(&said(&many)).unwrap_err(),
        far,
        "each takes some tokens besides"
    );
    assert_eq!(far.code(), Some("context_length_exceeded"));
    let prompt = model.completion(&completion(json!({ "prompt": "word ".repeat(20_000) })));
    let far = PrepareError::ContextFarTooLong {
        limit: 1000,
        param: "prompt",
    };
    assert_eq!(prompt.unwrap_err(), far);
}
