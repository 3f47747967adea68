//! The events of an engine's streamed answer, on their way into tokens.
//!
//! Asserts that chunks hold the tokens that the answer is said to have, that log-probabilities
//! come for every token of a chunk or for none, that the first chunk with tokens begins the
//! answer and the last one ends it, and that nothing comes after the end. And that an answer
//! which is passed on comes out the same however its bytes were cut.

#![no_main]

use std::sync::Arc;
use std::time::Duration;

use adapters::Tokenize;
use adapters::completion::Answer;
use adapters::forward::ForwardedAnswer;
use contract::{ForwardPath, ForwardRequest, OutputLimits, TokenChunk};
use libfuzzer_sys::fuzz_target;

// The first byte says what was asked for, each line after it is an event.
fuzz_target!(|input: &[u8]| {
    let Some((&asked, rest)) = input.split_first() else {
        return;
    };
    let limits = OutputLimits {
        max_tokens: 100,
        min_tokens: 0,
        ignore_eos: asked & 1 != 0,
        eos_tokens: Arc::from([2]),
    };
    let logprobs = (asked & 2 != 0).then_some(asked >> 2);
    // For engines that give only text: a token for each character.
    let tokenize = Tokenize::new(|text| text.chars().map(u32::from).collect());
    let mut answer = Answer::new(&limits, logprobs, 7, tokenize);
    let mut chunks = Vec::new();
    let text = String::from_utf8_lossy(rest);
    let mut broken = false;
    for line in text.lines() {
        broken |= answer.event(line, Duration::from_millis(1)).is_err();
        chunks.extend(std::iter::from_fn(|| answer.pop()));
        if broken {
            break;
        }
    }
    if !broken {
        broken = answer.done(Duration::from_millis(2)).is_err();
        chunks.extend(std::iter::from_fn(|| answer.pop()));
    }
    assert_eq!(
        answer.is_over(),
        chunks.last().is_some_and(|last| last.finish.is_some())
    );
    assert!(answer.is_over() || broken);
    check(&chunks);
    let tokens: Vec<_> = chunks
        .iter()
        .flat_map(|chunk| chunk.tokens.to_vec())
        .collect();
    assert_eq!(answer.ended().tokens, tokens);
    let events: String = text
        .lines()
        .map(|line| format!("data: {line}\n\n"))
        .collect();
    for stream in [false, true] {
        let whole = passed_on(&events, stream, usize::MAX);
        assert_eq!(
            passed_on(&events, stream, usize::from(asked % 16) + 1),
            whole
        );
    }
});

/// What a client gets of an answer that the engine wrote and that came in pieces of this size: its
/// bytes and the number of its tokens; `None` if it broke off.
fn passed_on(events: &str, stream: bool, size: usize) -> Option<(Vec<u8>, u32)> {
    let request = ForwardRequest {
        path: ForwardPath::ChatCompletions,
        model: "ours".to_owned(),
        body: Default::default(),
        stream,
        include_usage: false,
        adapter: None,
    };
    let mut answer = ForwardedAnswer::new(&request, "theirs", 7);
    for piece in events.as_bytes().chunks(size) {
        answer.push(piece, Duration::from_millis(1)).ok()?;
    }
    answer.done(Duration::from_millis(2)).ok()?;
    assert!(answer.is_over());
    let chunks: Vec<TokenChunk> = std::iter::from_fn(|| answer.pop()).collect();
    check(&chunks);
    let tokens = chunks.iter().map(TokenChunk::count).sum();
    let written = chunks.into_iter().filter_map(|chunk| chunk.written);
    let bytes = written.flat_map(|written| written.bytes).collect();
    Some((bytes, tokens))
}

fn check(chunks: &[TokenChunk]) {
    let begins = chunks.iter().position(|chunk| chunk.started.is_some());
    let tokens = chunks.iter().position(|chunk| !chunk.tokens.is_empty());
    assert!(
        tokens.is_none() || begins == tokens,
        "{begins:?}, {tokens:?}"
    );
    for (position, chunk) in chunks.iter().enumerate() {
        let is_last = position + 1 == chunks.len();
        assert!(is_last || chunk.finish.is_none());
        assert!(chunk.logprobs.is_empty() || chunk.logprobs.len() == chunk.tokens.len());
    }
}
