//! Streams, read back event by event as a client does.

use expect_test::expect;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::event_reader::Parser;

/// The data of all events; their names are checked against their types.
fn events(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    let mut all = Vec::new();
    let parsed = Parser::default().push(bytes, |data| {
        all.push(serde_json::from_str::<Value>(data).unwrap());
    });
    parsed.unwrap();
    let mut written = text.split_inclusive("\n\n");
    for event in &all {
        let name = event["type"].as_str().unwrap();
        let written = written.next().unwrap();
        let body = written.strip_prefix(&format!("event: {name}\ndata: "));
        let body = body.unwrap().strip_suffix("\n\n").unwrap();
        assert!(!body.contains(['\n', '\r']), "an event is one line");
    }
    assert_eq!(written.next(), None);
    all
}

/// One block as a client puts it together.
#[derive(Clone, Debug, PartialEq)]
enum Block {
    Text(String),
    Thinking(String),
    Call {
        id: String,
        name: String,
        arguments: String,
    },
}

/// Reads the events between the first two and the last two, and checks their order.
fn blocks(events: &[Value]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut open, mut signed) = (false, true);
    for event in events {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let index = usize::try_from(event["index"].as_u64().unwrap()).unwrap();
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert!(!open, "blocks do not overlap");
                assert_eq!(index, blocks.len(), "blocks have no gaps");
                open = true;
                let block = &event["content_block"];
                let block = match block["type"].as_str().unwrap() {
                    "text" => Block::Text(text(&block["text"])),
                    "thinking" => {
                        signed = false;
                        assert_eq!(block["signature"], "");
                        Block::Thinking(text(&block["thinking"]))
                    }
                    "tool_use" => {
                        assert_eq!(block["input"], serde_json::json!({}));
                        Block::Call {
                            id: text(&block["id"]),
                            name: text(&block["name"]),
                            arguments: String::new(),
                        }
                    }
                    other => panic!("{other}"),
                };
                blocks.push(block);
            }
            "content_block_delta" => {
                let last = index + 1 == blocks.len() && open;
                let delta = &event["delta"];
                match (&mut blocks[index], delta["type"].as_str().unwrap()) {
                    (Block::Text(all), "text_delta") => {
                        assert!(last);
                        all.push_str(delta["text"].as_str().unwrap());
                    }
                    (Block::Thinking(all), "thinking_delta") => {
                        assert!(last && !signed);
                        all.push_str(delta["thinking"].as_str().unwrap());
                    }
                    (Block::Thinking(_), "signature_delta") => {
                        assert!(last);
                        assert_eq!(delta["signature"], "");
                        signed = true;
                    }
                    (Block::Call { arguments, .. }, "input_json_delta") => {
                        arguments.push_str(delta["partial_json"].as_str().unwrap());
                    }
                    (block, delta) => panic!("{delta} of {block:?}"),
                }
            }
            "content_block_stop" => {
                assert!(open && signed);
                assert_eq!(index + 1, blocks.len());
                open = false;
            }
            other => panic!("{other}"),
        }
    }
    assert!(!open, "every block ends");
    blocks
}

/// What the blocks of a stream should be.
fn expected(steps: &[Step], omit_thinking: bool) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut calls = Vec::new();
    for step in steps {
        match step {
            Step::Content(text) | Step::Reasoning(text) if text.is_empty() => {}
            Step::Content(text) => match blocks.last_mut() {
                Some(Block::Text(all)) => all.push_str(text),
                _ => blocks.push(Block::Text(text.clone())),
            },
            Step::Reasoning(text) => {
                let text = if omit_thinking { "" } else { text };
                match blocks.last_mut() {
                    Some(Block::Thinking(all)) => all.push_str(text),
                    _ => blocks.push(Block::Thinking(text.to_owned())),
                }
            }
            Step::Call { id, name } => {
                calls.push(blocks.len());
                blocks.push(Block::Call {
                    id: id.clone(),
                    name: name.clone(),
                    arguments: String::new(),
                });
            }
            Step::Arguments { call, text } => {
                if let Some(&block) = calls.get(*call)
                    && let Block::Call { arguments, .. } = &mut blocks[block]
                {
                    arguments.push_str(text);
                }
            }
        }
    }
    blocks
}

/// A [`Said`] that owns its text; calls are numbered in their order.
#[derive(Clone, Debug)]
enum Step {
    Content(String),
    Reasoning(String),
    Call { id: String, name: String },
    Arguments { call: usize, text: String },
}

fn write(writer: &mut MessagesWriter, out: &mut Vec<u8>, steps: &[Step]) {
    let mut calls = 0;
    for step in steps {
        let said = match step {
            Step::Content(text) => Said::Content(text),
            Step::Reasoning(text) => Said::Reasoning(text),
            Step::Call { id, name } => {
                calls += 1;
                let index = calls - 1;
                Said::Call { index, id, name }
            }
            Step::Arguments { call, text } => {
                let index = u32::try_from(*call).unwrap();
                Said::Arguments { index, text }
            }
        };
        writer.said(out, &said);
    }
}

/// Any text, with the characters that matter to JSON and to event streams in excess.
fn texts() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        any::<char>().prop_map(String::from),
        prop::sample::select(vec!["\n", "\r", "\"", "\\", "\u{0}", "\u{2028}", "🦀"])
            .prop_map(str::to_owned),
        "[a-z ]{0,8}",
    ];
    prop::collection::vec(pieces, 0..4).prop_map(|pieces| pieces.concat())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => texts().prop_map(Step::Content),
        3 => texts().prop_map(Step::Reasoning),
        2 => (texts(), texts()).prop_map(|(id, name)| Step::Call { id, name }),
        4 => (0..4_usize, texts()).prop_map(|(call, text)| Step::Arguments { call, text }),
    ];
    prop::collection::vec(step, 0..24)
}

proptest! {
    #[test]
    fn the_deltas_of_a_block_are_what_was_said(
        id in texts(),
        model in texts(),
        steps in steps(),
        omit in any::<bool>(),
        stop in prop::option::of(texts()),
    ) {
        let mut out = Vec::new();
        let mut writer = MessagesWriter::new(&id, &model).omit_thinking(omit);
        writer.begin(&mut out, &Usage::new(10, 0, 6));
        write(&mut writer, &mut out, &steps);
        writer.finish(&mut out, FinishReason::Stop, stop.as_deref(), &Usage::new(10, 3, 6));
        let events = events(&out);
        let [start, ping, middle @ .., end, last] = &events[..] else {
            panic!("{events:?}");
        };
        let message: MessagesResponse = serde_json::from_value(start["message"].clone()).unwrap();
        prop_assert_eq!((&message.id, &message.model), (&id, &model));
        prop_assert_eq!(&message.content, &[]);
        prop_assert_eq!(message.usage.input_tokens, 4);
        prop_assert_eq!(&ping["type"], "ping");
        prop_assert_eq!(blocks(middle), expected(&steps, omit));
        let called = steps.iter().any(|step| matches!(step, Step::Call { .. }));
        let reason = StopReason::new(FinishReason::Stop, stop.as_deref(), called);
        prop_assert_eq!(&end["delta"]["stop_reason"], reason.as_str());
        prop_assert_eq!(end["delta"]["stop_sequence"].as_str(), stop.as_deref());
        let usage: MessagesUsage = serde_json::from_value(end["usage"].clone()).unwrap();
        prop_assert_eq!((usage.input_tokens, usage.output_tokens), (4, 3));
        prop_assert_eq!(&last["type"], "message_stop");
    }
}

#[test]
fn a_stream_looks_like_this() {
    let mut out = Vec::new();
    let mut writer = MessagesWriter::new("msg_1", "llama");
    writer.begin(&mut out, &Usage::new(10, 0, 6));
    for said in [
        Said::Reasoning("hm"),
        Said::Content("I "),
        Said::Content("look."),
        Said::Content(""),
        Said::Call {
            index: 0,
            id: "t1",
            name: "get",
        },
        Said::Arguments {
            index: 0,
            text: "{\"a\":",
        },
        Said::Arguments {
            index: 0,
            text: "1}",
        },
    ] {
        writer.said(&mut out, &said);
    }
    writer.finish(
        &mut out,
        FinishReason::ToolCalls,
        None,
        &Usage::new(10, 9, 6),
    );
    expect![[r#"
        event: message_start
        data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"llama","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":6,"output_tokens":0}}}

        event: ping
        data: {"type":"ping"}

        event: content_block_start
        data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":""}}

        event: content_block_stop
        data: {"type":"content_block_stop","index":0}

        event: content_block_start
        data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I "}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"look."}}

        event: content_block_stop
        data: {"type":"content_block_stop","index":1}

        event: content_block_start
        data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t1","name":"get","input":{}}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"1}"}}

        event: content_block_stop
        data: {"type":"content_block_stop","index":2}

        event: message_delta
        data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":6,"output_tokens":9}}

        event: message_stop
        data: {"type":"message_stop"}

    "#]].assert_eq(std::str::from_utf8(&out).unwrap());
}

#[test]
fn an_error_is_an_event() {
    let mut out = Vec::new();
    let error = ErrorBody::new("server_error", "the worker\nis gone");
    MessagesWriter::new("msg_1", "llama").error(&mut out, 503, &error);
    expect![[r#"
        event: error
        data: {"type":"error","error":{"type":"overloaded_error","message":"the worker\nis gone"}}

    "#]]
    .assert_eq(std::str::from_utf8(&out).unwrap());
    assert_eq!(events(&out)[0]["error"]["type"], "overloaded_error");
}

#[test]
fn a_text_delta_needs_the_room_it_reserves() {
    let mut writer = MessagesWriter::new("msg_1", "llama");
    let mut out = Vec::new();
    writer.said(&mut out, &Said::Content("a"));
    let before = out.len();
    writer.said(&mut out, &Said::Content("a token"));
    assert!(out.len() - before <= "a token".len() + 160);
}
