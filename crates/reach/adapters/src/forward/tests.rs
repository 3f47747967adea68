//! Bodies that are passed on, and answers that come back.

use std::time::Duration;

use bytes::Bytes;
use contract::{FinishReason, TokenChunk};
use proptest::prelude::*;

use super::*;
use crate::completion::StreamError;

const SOON: Duration = Duration::from_millis(5);

fn request(path: ForwardPath, body: &str, stream: bool) -> ForwardRequest {
    ForwardRequest {
        path,
        model: "ours".to_owned(),
        body: Bytes::copy_from_slice(body.as_bytes()),
        stream,
        include_usage: false,
        adapter: None,
    }
}

#[track_caller]
fn check_body(request: &ForwardRequest, salt: Option<&str>, expected: &str) {
    let body = body(request, "theirs", salt).unwrap();
    assert_eq!(String::from_utf8(body).unwrap(), expected);
}

#[test]
fn a_body_is_passed_on_with_what_only_we_know() {
    let chat = ForwardPath::ChatCompletions;
    let plain = r#"{"messages":[{"role":"user","content":"\u0041"}],"model":"ours","seed":12345678901234567890}"#;
    check_body(
        &request(chat, plain, false),
        None,
        r#"{"model":"theirs","messages":[{"role":"user","content":"\u0041"}],"seed":12345678901234567890}"#,
    );
    let streamed = r#"{"model":"ours","stream":true,"stream_options":{"continuous_usage_stats":true},"nvext":{"cache_salt":"a"},"cache_salt":"a","x":{"y":[ 1 ]}}"#;
    check_body(
        &request(chat, streamed, true),
        Some("s"),
        r#"{"model":"theirs","x":{"y":[ 1 ]},"cache_salt":"s","stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true}}"#,
    );
    // The Responses API reports its usage without being asked.
    check_body(
        &request(
            ForwardPath::Responses,
            r#"{"input":"a","stream":true}"#,
            true,
        ),
        None,
        r#"{"model":"theirs","input":"a","stream":true}"#,
    );
    let adapter = ForwardRequest {
        adapter: Some("sql".to_owned()),
        ..request(chat, r#"{"model":"sql"}"#, false)
    };
    check_body(&adapter, None, r#"{"model":"sql"}"#);
}

#[test]
fn a_member_that_is_said_twice_is_said_by_us() {
    check_body(
        &request(
            ForwardPath::Completions,
            r#"{"model":"a","cache_salt":"x","model":"b","cache_salt":"y","stream":true,"prompt":"p"}"#,
            false,
        ),
        Some("s"),
        r#"{"model":"theirs","prompt":"p","cache_salt":"s"}"#,
    );
    assert!(body(&request(ForwardPath::Completions, "[1]", false), "m", None).is_err());
}

/// Everything that comes of an answer that arrives in pieces of `size` bytes.
fn read(
    request: &ForwardRequest,
    answer: &str,
    size: usize,
) -> (Vec<TokenChunk>, Result<(), StreamError>) {
    let mut reader = ForwardedAnswer::new(request, "theirs", 32);
    let mut chunks = Vec::new();
    let mut outcome = Ok(());
    for piece in answer.as_bytes().chunks(size) {
        outcome = outcome.and_then(|()| reader.push(piece, SOON));
        chunks.extend(std::iter::from_fn(|| reader.pop()));
    }
    let outcome = outcome.and_then(|()| reader.done(SOON));
    chunks.extend(std::iter::from_fn(|| reader.pop()));
    (chunks, outcome)
}

fn written(chunks: &[TokenChunk]) -> String {
    let bytes = chunks.iter().flat_map(|chunk| chunk.written.as_ref());
    let bytes: Vec<u8> = bytes.flat_map(|written| written.bytes.clone()).collect();
    String::from_utf8(bytes).unwrap()
}

const CHAT: &str = "data: {\"model\":\"theirs\",\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n\
    data: {\"model\":\"theirs\",\"choices\":[{\"delta\":{\"content\":\"\\\"model\\\":\\\"theirs\\\"\"}}]}\n\n\
    data: {\"model\":\"theirs\",\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0}]},\"finish_reason\":\"tool_calls\"}]}\n\n";
const USAGE: &str = "data: {\"model\":\"theirs\",\"choices\":[],\"usage\":{\"prompt_tokens\":70,\"completion_tokens\":5,\"prompt_tokens_details\":{\"cached_tokens\":64}}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

#[test]
fn a_stream_is_passed_on_and_its_books_are_kept() {
    for include_usage in [false, true] {
        let request = ForwardRequest {
            include_usage,
            ..request(ForwardPath::ChatCompletions, "{}", true)
        };
        let usage = if include_usage { USAGE } else { "" };
        let expected = [CHAT, usage, DONE].concat();
        let expected = expected.replace("\"model\":\"theirs\"", "\"model\":\"ours\"");
        for size in [1, 7, 50, 10_000] {
            let (chunks, outcome) = read(&request, &[CHAT, USAGE, DONE].concat(), size);
            outcome.unwrap();
            assert_eq!(written(&chunks), expected);
            assert_eq!(chunks.iter().map(TokenChunk::count).sum::<u32>(), 5);
            let mut reported = chunks.iter().filter_map(|chunk| chunk.started.as_ref());
            assert_eq!(reported.next_back().unwrap().cached_tokens, 64);
            let (last, others) = chunks.split_last().unwrap();
            assert_eq!(last.finish, Some(FinishReason::Stop));
            assert!(others.iter().all(|chunk| chunk.finish.is_none()));
        }
    }
}

#[test]
fn nothing_is_passed_on_before_something_is_said() {
    let request = request(ForwardPath::Responses, "{}", true);
    let created = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"usage\":null}}\n\n";
    let delta = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n";
    let end = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":40,\"output_tokens\":3,\"input_tokens_details\":{\"cached_tokens\":32}}}}\n\n";
    let mut reader = ForwardedAnswer::new(&request, "ours", 0);
    reader.push(created.as_bytes(), SOON).unwrap();
    assert!(reader.waits());
    reader.push(delta.as_bytes(), SOON).unwrap();
    let first = reader.pop().unwrap();
    assert_eq!(
        written(std::slice::from_ref(&first)),
        [created, delta].concat()
    );
    assert_eq!(first.count(), 1);
    reader.push(end.as_bytes(), SOON).unwrap();
    let last = reader.pop().unwrap();
    assert_eq!(written(std::slice::from_ref(&last)), end);
    assert_eq!((last.count(), last.finish), (2, Some(FinishReason::Stop)));
    assert_eq!(last.started.as_ref().unwrap().cached_tokens, 32);
    let summary = reader.summary();
    assert_eq!(
        (summary.prompt_tokens, summary.output_tokens),
        (Some(40), 3)
    );
}

#[test]
fn messages_report_their_usage_in_two_places() {
    let request = request(ForwardPath::Messages, "{}", true);
    let answer = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":40,\"output_tokens\":0,\"cache_read_input_tokens\":32}}}\n\n\
        event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"a\"}}\n\n\
        event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":9}}\n\n\
        event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let (chunks, outcome) = read(&request, answer, 11);
    outcome.unwrap();
    let mut reader = ForwardedAnswer::new(&request, "ours", 0);
    reader.push(answer.as_bytes(), SOON).unwrap();
    assert_eq!(reader.summary().prompt_tokens, Some(72));
    assert_eq!(written(&chunks), answer);
    assert_eq!(chunks.iter().map(TokenChunk::count).sum::<u32>(), 9);
    assert_eq!(chunks[0].started.as_ref().unwrap().cached_tokens, 32);
}

#[test]
fn absurd_figures_of_an_engine_break_nothing() {
    let request = request(ForwardPath::Messages, "{}", false);
    let most = u32::MAX;
    let usage = format!(
        r#"{{"usage":{{"input_tokens":{most},"output_tokens":{most},"cache_read_input_tokens":{most}}}}}"#
    );
    let mut reader = ForwardedAnswer::new(&request, "ours", 0);
    reader.push(usage.as_bytes(), SOON).unwrap();
    reader.done(SOON).unwrap();
    let summary = reader.summary();
    assert_eq!(
        (summary.prompt_tokens, summary.output_tokens),
        (Some(most), most)
    );
    assert_eq!(reader.pop().unwrap().count(), most);
}

#[test]
fn an_answer_in_one_piece_is_one_chunk() {
    let request = request(ForwardPath::ChatCompletions, "{}", false);
    let answer = r#"{"model":"theirs","choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":70,"completion_tokens":5,"prompt_tokens_details":null}}"#;
    let (chunks, outcome) = read(&request, answer, 9);
    outcome.unwrap();
    let [whole] = &chunks[..] else {
        panic!("{chunks:?}");
    };
    assert!(whole.is_whole_answer());
    assert_eq!(whole.count(), 5);
    // What was expected, where the engine says nothing.
    assert_eq!(whole.started.as_ref().unwrap().cached_tokens, 32);
    assert!(written(&chunks).starts_with(r#"{"model":"ours""#));
}

#[test]
fn a_request_that_the_engine_calls_invalid_late_is_refused() {
    let request = request(ForwardPath::ChatCompletions, "{}", true);
    let late = "data: {\"error\":{\"message\":\"no\",\"code\":400}}\n\n";
    let (chunks, outcome) = read(&request, late, 100);
    assert_eq!(chunks, []);
    assert!(matches!(outcome, Err(StreamError::Refused(_))));
    let broken = "data: {\"error\":{\"message\":\"no\",\"code\":500}}\n\n";
    let (_, outcome) = read(&request, broken, 100);
    assert!(matches!(outcome, Err(StreamError::Engine(_))));
    let whole = ForwardRequest {
        stream: false,
        ..request
    };
    let (_, outcome) = read(&whole, r#"{"object":"error","message":"no"}"#, 100);
    assert!(matches!(outcome, Err(StreamError::Engine(_))));
}

#[test]
fn a_stream_that_ends_before_its_answer_is_broken() {
    let request = request(ForwardPath::ChatCompletions, "{}", true);
    let half = &CHAT[..CHAT.len() - 40];
    let (_, outcome) = read(&request, half, 100);
    assert!(matches!(outcome, Err(StreamError::Incomplete)));
    // Some servers leave `[DONE]` out.
    let (chunks, outcome) = read(&request, CHAT, 100);
    outcome.unwrap();
    assert_eq!(chunks.last().unwrap().finish, Some(FinishReason::Stop));
}

proptest! {
    /// However the bytes are cut and whatever they are, what is passed on is what came.
    #[test]
    fn pieces_do_not_matter(
        events in prop::collection::vec("(data: [a-z{}\":\\[\\]]{0,20}\r?\n|event: [a-z]{1,5}\n|: ping\n|id\n){0,3}\r?\n", 0..8),
        size in 1_usize..20,
    ) {
        let mut request = request(ForwardPath::ChatCompletions, "{}", true);
        request.include_usage = true;
        let answer = events.concat() + CHAT + DONE;
        let (chunks, outcome) = read(&request, &answer, size);
        if outcome.is_ok() {
            prop_assert_eq!(
                written(&chunks).replace("\"ours\"", "\"theirs\""),
                answer
            );
        }
    }
}
