//! Bodies of requests, on all endpoints, and everything up to the tokens and the grammar.
//!
//! Asserts that whatever is parsed keeps the promises of its type, and that what is prepared
//! from it does too: a prompt of known tokens that fits the context together with its answer,
//! the same whether or not its text has been seen before. The tokens of a plain text give the
//! text back.

#![no_main]

use std::sync::LazyLock;
use std::time::SystemTime;

use answer_parser::AnswerFormat;
use libfuzzer_sys::fuzz_target;
use openai::request::MAX_PROMPTS;
use openai::{
    ChatRequest, CompletionRequest, GenerationOptions, Prompt, UnknownFields, messages, responses,
};
use preprocess::{Prepared, PreprocessConfig, Preprocessor};

const CONTEXT: u32 = 512;

/// Keeps little, so that pieces of text leave the cache as well.
static MODEL: LazyLock<Preprocessor> = LazyLock::new(|| {
    Preprocessor::embedded(PreprocessConfig {
        max_context_tokens: CONTEXT,
        cache_bytes: 1 << 16,
        clock: || SystemTime::UNIX_EPOCH,
        ..PreprocessConfig::default()
    })
});

fuzz_target!(|body: &[u8]| {
    // The last byte decides, so that both ways are taken.
    let unknown = match body.last() {
        Some(byte) if byte % 2 == 0 => UnknownFields::Ignore,
        _ => UnknownFields::Refuse,
    };
    match ChatRequest::parse(body, unknown) {
        Ok(request) => chat(&request),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match responses::parse(body, unknown) {
        Ok(request) => chat(&request.with_history(Vec::new()).chat),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match messages::parse(body, unknown, true) {
        Ok(request) => chat(&request.chat),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match CompletionRequest::parse(body, unknown) {
        Ok(request) => completion(&request),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});

fn chat(request: &ChatRequest) {
    assert!(!request.messages.is_empty());
    check_options(&request.options);
    let prepared = MODEL.chat(request);
    assert_eq!(MODEL.chat(request), prepared, "the second time");
    if let Ok(prepared) = prepared {
        check_prepared(&prepared);
    }
    for message in &request.messages {
        let tokens = MODEL
            .encode_plain(&message.content)
            .expect("every text has tokens");
        let mut stream = MODEL.text_stream(&[], AnswerFormat::default());
        let mut text = String::new();
        stream.push(&tokens, &mut text);
        stream.finish(&mut text);
        assert_eq!(text, message.content);
    }
}

fn completion(request: &CompletionRequest) {
    assert!((1..=MAX_PROMPTS).contains(&request.prompts.len()));
    for prompt in &request.prompts {
        match prompt {
            Prompt::Text(_) => {}
            Prompt::Tokens(tokens) => assert!(!tokens.is_empty()),
        }
    }
    check_options(&request.options);
    let prepared = MODEL.completion(request);
    assert_eq!(MODEL.completion(request), prepared, "the second time");
    if let Ok(prepared) = prepared {
        assert_eq!(prepared.len(), request.prompts.len());
        prepared.iter().for_each(check_prepared);
    }
}

fn check_options(options: &GenerationOptions) {
    let within =
        |value: Option<f32>, most: f32| value.is_none_or(|value| (0.0..=most).contains(&value));
    assert!(options.max_tokens != Some(0));
    assert!(
        options
            .max_tokens
            .is_none_or(|most| options.min_tokens <= most)
    );
    assert!(within(options.temperature, 2.0) && within(options.top_p, 1.0));
    assert!(options.stop.iter().all(|stop| !stop.is_empty()));
}

fn check_prepared(prepared: &Prepared) {
    let prompt = prepared.prompt.len() as u32;
    assert!(prompt > 0);
    assert!(prepared.limits.max_tokens > 0);
    assert!(prompt + prepared.limits.max_tokens <= CONTEXT);
    assert!(prepared.limits.min_tokens <= prepared.limits.max_tokens);
    let vocabulary = MODEL.tokenizer().vocab_size();
    assert!(prepared.prompt.iter().all(|&token| token < vocabulary));
}
