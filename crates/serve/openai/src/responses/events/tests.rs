//! Streams parse back, item by item.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::UnknownFields;
use crate::request::Role;
use crate::responses::parse;

/// What a model says, owned.
#[derive(Clone, Debug)]
enum Piece {
    Content(String),
    Reasoning(String),
    Call { index: u32 },
    Arguments { index: u32, text: String },
}

impl Piece {
    fn said(&self) -> Said<'_> {
        match self {
            Self::Content(text) => Said::Content(text),
            Self::Reasoning(text) => Said::Reasoning(text),
            Self::Call { index } => Said::Call {
                index: *index,
                id: "call_1",
                name: "f",
            },
            Self::Arguments { index, text } => Said::Arguments {
                index: *index,
                text,
            },
        }
    }
}

/// Texts with the characters that matter to JSON and to event streams in excess.
fn texts() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        any::<char>().prop_map(String::from),
        prop::sample::select(vec!["\n", "\r", "\"", "\\", "\u{0}", "\u{2028}", "{", "}"])
            .prop_map(str::to_owned),
        "[a-z ]{0,8}",
    ];
    prop::collection::vec(pieces, 0..4).prop_map(|pieces| pieces.concat())
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let piece = prop_oneof![
        3 => texts().prop_map(Piece::Content),
        2 => texts().prop_map(Piece::Reasoning),
        1 => (0..3_u32).prop_map(|index| Piece::Call { index }),
        3 => (0..3_u32, texts()).prop_map(|(index, text)| Piece::Arguments { index, text }),
    ];
    prop::collection::vec(piece, 0..24)
}

fn writer() -> ResponsesWriter {
    let body = json!({ "model": "m", "input": "hi" }).to_string();
    let request = parse(body.as_bytes(), UnknownFields::Refuse).unwrap();
    ResponsesWriter::new("resp_1", 1_700_000_000, "m", request.echo)
}

/// The events in `bytes`, each of which has its name twice.
fn events(bytes: &[u8]) -> Vec<Event<'static>> {
    let text = std::str::from_utf8(bytes).unwrap();
    let blocks = text.strip_suffix("\n\n").unwrap().split("\n\n");
    let parsed = blocks.map(|block| {
        let (name, data) = block.split_once('\n').unwrap();
        let data = data.strip_prefix("data: ").unwrap();
        assert!(!data.contains(['\n', '\r']), "data is one line");
        let event: Event<'static> = serde_json::from_str(data).unwrap();
        assert_eq!(name.strip_prefix("event: "), Some(event.name()));
        let value: Value = serde_json::from_str(data).unwrap();
        assert_eq!(value["type"], event.name());
        event
    });
    parsed.collect()
}

/// The number of every event, whatever it is.
fn number(event: &Event<'_>) -> u64 {
    serde_json::to_value(event).unwrap()["sequence_number"]
        .as_u64()
        .unwrap()
}

/// Reads a stream as strictly as a client could, and keeps the items in their order.
#[derive(Default)]
struct Reader {
    ended: Vec<OutputItem>,
    open: Option<OpenRead>,
}

struct OpenRead {
    announced: Value,
    /// The names of the events after the announcement, without repetitions.
    names: Vec<String>,
    text: String,
}

impl Reader {
    fn read(&mut self, event: &Event<'static>) {
        let value = serde_json::to_value(event).unwrap();
        assert_eq!(value["output_index"], self.ended.len());
        if event.name() == "response.output_item.added" {
            assert!(self.open.is_none(), "one item at a time");
            self.open = Some(OpenRead {
                announced: value["item"].clone(),
                names: Vec::new(),
                text: String::new(),
            });
            return;
        }
        let open = self.open.as_mut().expect("an item is open");
        if event.name() == "response.output_item.done" {
            let item = &value["item"];
            assert_eq!(item["id"], open.announced["id"]);
            assert_eq!(item["type"], open.announced["type"]);
            let item: OutputItem = serde_json::from_value(item.clone()).unwrap();
            assert_eq!(item_text(&item), open.text);
            assert_eq!(
                open.names,
                expected_names(kind(&item), open.text.is_empty())
            );
            self.ended.push(item);
            self.open = None;
            return;
        }
        assert_eq!(value["item_id"], open.announced["id"]);
        if open.names.last().is_none_or(|last| last != event.name()) {
            open.names.push(event.name().to_owned());
        }
        let text = [&value["text"], &value["arguments"], &value["part"]["text"]]
            .into_iter()
            .find_map(Value::as_str);
        match (value["delta"].as_str(), text) {
            (Some(delta), None) => open.text.push_str(delta),
            (None, Some(text)) => assert_eq!(text, open.text, "{}", event.name()),
            _ => panic!("{} has text or a delta", event.name()),
        }
    }
}

/// The events of an item between its first and its last, in their order.
fn expected_names(kind: &str, no_deltas: bool) -> Vec<String> {
    let (texts, has_parts) = match kind {
        "message" => ("output_text", true),
        "reasoning" => ("reasoning_text", true),
        _ => ("function_call_arguments", false),
    };
    let names = [
        (has_parts, "content_part.added".to_owned()),
        (!no_deltas, format!("{texts}.delta")),
        (true, format!("{texts}.done")),
        (has_parts, "content_part.done".to_owned()),
    ];
    let there = names.into_iter().filter(|(there, _)| *there);
    there.map(|(_, name)| format!("response.{name}")).collect()
}

fn item_text(item: &OutputItem) -> String {
    match item {
        OutputItem::Reasoning { content, .. } => content.iter().map(|part| &*part.text).collect(),
        OutputItem::Message { content, .. } => content.iter().map(|part| &*part.text).collect(),
        OutputItem::FunctionCall { arguments, .. } => arguments.clone(),
    }
}

/// The texts of the items that `pieces` make, by the rules alone.
fn expected(pieces: &[Piece]) -> Vec<(&'static str, String)> {
    let mut items: Vec<(&'static str, String)> = Vec::new();
    let mut open_call = None;
    for piece in pieces {
        let (kind, text) = match piece {
            Piece::Content(text) => ("message", text),
            Piece::Reasoning(text) => ("reasoning", text),
            Piece::Call { index } => {
                items.push(("function_call", String::new()));
                open_call = Some(*index);
                continue;
            }
            Piece::Arguments { index, text } => {
                if open_call == Some(*index) {
                    items.last_mut().unwrap().1.push_str(text);
                }
                continue;
            }
        };
        if text.is_empty() {
            continue;
        }
        open_call = None;
        match items.last_mut() {
            Some((last, before)) if *last == kind => before.push_str(text),
            _ => items.push((kind, text.clone())),
        }
    }
    items
}

fn kind(item: &OutputItem) -> &'static str {
    match item {
        OutputItem::Reasoning { .. } => "reasoning",
        OutputItem::Message { .. } => "message",
        OutputItem::FunctionCall { .. } => "function_call",
    }
}

proptest! {
    #[test]
    fn any_stream_is_in_order_and_adds_up(pieces in pieces(), cut in any::<bool>()) {
        let mut writer = writer();
        let mut out = Vec::new();
        writer.begin(&mut out);
        for piece in &pieces {
            writer.said(&mut out, &piece.said());
        }
        let finish = if cut { FinishReason::Length } else { FinishReason::Stop };
        let usage = Usage::new(12, 5, 8);
        let message = writer.finish(&mut out, finish, &usage);

        let mut events = events(&out);
        for (at, event) in events.iter().enumerate() {
            prop_assert_eq!(number(event), at as u64);
        }
        let last = events.pop().unwrap();
        let mut rest = events.into_iter();
        let Some(Event::Created { response, .. }) = rest.next() else {
            panic!("created first")
        };
        prop_assert_eq!(response.status, ResponseStatus::InProgress);
        let second = rest.next().map(|event| event.name());
        prop_assert_eq!(second, Some("response.in_progress"));
        let mut reader = Reader::default();
        rest.for_each(|event| reader.read(&event));
        prop_assert!(reader.open.is_none());

        let found: Vec<_> =
            reader.ended.iter().map(|item| (kind(item), item_text(item))).collect();
        prop_assert_eq!(found, expected(&pieces));
        let response = match (cut, last) {
            (false, Event::Completed { response, .. }) => response,
            (true, Event::Incomplete { response, .. }) => response,
            (_, other) => panic!("{}", other.name()),
        };
        prop_assert_eq!(&response.output, &reader.ended);
        prop_assert_eq!(response.usage, Some((&usage).into()));
        prop_assert_eq!(&message, &message_of(&reader.ended));
        let said: String = pieces.iter().map(|piece| match piece {
            Piece::Content(text) => text.as_str(),
            Piece::Reasoning(_) | Piece::Call { .. } | Piece::Arguments { .. } => "",
        }).collect();
        prop_assert_eq!(message.role, Role::Assistant);
        prop_assert_eq!(message.content, said);
    }
}

#[test]
fn a_stream_looks_like_this() {
    let mut writer = writer();
    let mut out = Vec::new();
    writer.begin(&mut out);
    let said = [
        Said::Reasoning("why"),
        Said::Content("Hel"),
        Said::Content("lo\n"),
        Said::Call {
            index: 0,
            id: "call_9",
            name: "f",
        },
        Said::Arguments {
            index: 0,
            text: "{\"a\":1}",
        },
    ];
    said.iter().for_each(|said| writer.said(&mut out, said));
    writer.finish(&mut out, FinishReason::ToolCalls, &Usage::new(12, 5, 8));
    // The whole response is shown by another test.
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| line.split(",\"response\":{").next().unwrap())
        .collect();
    expect_test::expect![[r#"
        event: response.created
        data: {"type":"response.created","sequence_number":0
        event: response.in_progress
        data: {"type":"response.in_progress","sequence_number":1
        event: response.output_item.added
        data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"type":"reasoning","id":"rs_1_0","summary":[],"content":[],"encrypted_content":null,"status":"in_progress"}}
        event: response.content_part.added
        data: {"type":"response.content_part.added","sequence_number":3,"item_id":"rs_1_0","output_index":0,"content_index":0,"part":{"type":"reasoning_text","text":""}}
        event: response.reasoning_text.delta
        data: {"type":"response.reasoning_text.delta","item_id":"rs_1_0","output_index":0,"content_index":0,"sequence_number":4,"delta":"why"}
        event: response.reasoning_text.done
        data: {"type":"response.reasoning_text.done","sequence_number":5,"item_id":"rs_1_0","output_index":0,"content_index":0,"text":"why"}
        event: response.content_part.done
        data: {"type":"response.content_part.done","sequence_number":6,"item_id":"rs_1_0","output_index":0,"content_index":0,"part":{"type":"reasoning_text","text":"why"}}
        event: response.output_item.done
        data: {"type":"response.output_item.done","sequence_number":7,"output_index":0,"item":{"type":"reasoning","id":"rs_1_0","summary":[],"content":[{"type":"reasoning_text","text":"why"}],"encrypted_content":null,"status":"completed"}}
        event: response.output_item.added
        data: {"type":"response.output_item.added","sequence_number":8,"output_index":1,"item":{"type":"message","id":"msg_1_1","role":"assistant","status":"in_progress","content":[]}}
        event: response.content_part.added
        data: {"type":"response.content_part.added","sequence_number":9,"item_id":"msg_1_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
        event: response.output_text.delta
        data: {"type":"response.output_text.delta","item_id":"msg_1_1","output_index":1,"content_index":0,"sequence_number":10,"delta":"Hel","logprobs":[]}
        event: response.output_text.delta
        data: {"type":"response.output_text.delta","item_id":"msg_1_1","output_index":1,"content_index":0,"sequence_number":11,"delta":"lo\n","logprobs":[]}
        event: response.output_text.done
        data: {"type":"response.output_text.done","sequence_number":12,"item_id":"msg_1_1","output_index":1,"content_index":0,"text":"Hello\n","logprobs":[]}
        event: response.content_part.done
        data: {"type":"response.content_part.done","sequence_number":13,"item_id":"msg_1_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"Hello\n","annotations":[],"logprobs":[]}}
        event: response.output_item.done
        data: {"type":"response.output_item.done","sequence_number":14,"output_index":1,"item":{"type":"message","id":"msg_1_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Hello\n","annotations":[],"logprobs":[]}]}}
        event: response.output_item.added
        data: {"type":"response.output_item.added","sequence_number":15,"output_index":2,"item":{"type":"function_call","id":"fc_1_2","call_id":"call_9","name":"f","arguments":"","status":"in_progress"}}
        event: response.function_call_arguments.delta
        data: {"type":"response.function_call_arguments.delta","item_id":"fc_1_2","output_index":2,"sequence_number":16,"delta":"{\"a\":1}"}
        event: response.function_call_arguments.done
        data: {"type":"response.function_call_arguments.done","sequence_number":17,"item_id":"fc_1_2","output_index":2,"name":"f","arguments":"{\"a\":1}"}
        event: response.output_item.done
        data: {"type":"response.output_item.done","sequence_number":18,"output_index":2,"item":{"type":"function_call","id":"fc_1_2","call_id":"call_9","name":"f","arguments":"{\"a\":1}","status":"completed"}}
        event: response.completed
        data: {"type":"response.completed","sequence_number":19"#]].assert_eq(&lines.join("\n"));
}

#[test]
fn an_error_ends_the_stream_with_what_was_said() {
    let mut writer = writer();
    let mut out = Vec::new();
    writer.begin(&mut out);
    writer.said(&mut out, &Said::Content("Hel"));
    let error =
        ErrorBody::new("server_error", "the worker went away").with_code(Some("worker_lost"));
    writer.error(&mut out, &error);
    let mut events = events(&out);
    let Some(Event::Failed { response, .. }) = events.pop() else {
        panic!("failed last")
    };
    assert_eq!(response.status, ResponseStatus::Failed);
    assert_eq!(
        response.error.as_ref().unwrap().message,
        "the worker went away"
    );
    assert_eq!(item_text(&response.output[0]), "Hel");
    let Some(Event::Error { code, message, .. }) = events.pop() else {
        panic!("the error before")
    };
    assert_eq!(code.as_deref(), Some("worker_lost"));
    assert_eq!(message, "the worker went away");
}

#[test]
fn what_the_request_asked_for_besides_is_in_the_last_event() {
    let mut writer = writer();
    writer.set_nvext(json!({ "worker_id": 7 }));
    let mut out = Vec::new();
    writer.finish(&mut out, FinishReason::Stop, &Usage::new(1, 0, 0));
    let Some(Event::Completed { response, .. }) = events(&out).pop() else {
        panic!("completed")
    };
    assert_eq!(response.nvext, Some(json!({ "worker_id": 7 })));
}
