//! Any answer, valid or not, however it is cut.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;
use crate::testing::{characters, names, parse, tools};

/// What answers are made of, so that random ones come close to calls.
const FRAGMENTS: [&str; 46] = [
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[CALL_ID]",
    "<|python_tag|>",
    "<|python_start|>",
    "<|python_end|>",
    "```json\n",
    "```",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\"",
    "'",
    "\\",
    "\\u00e9",
    "\\ud83d",
    "\"name\": ",
    "\"arguments\": ",
    "\"parameters\": ",
    "\"f\"",
    "f",
    "g",
    "a=",
    "1",
    "-.5",
    "null",
    "True",
    "{}",
    ", ",
    ";",
    ":",
    " ",
    "\n",
    "<",
    "é😀",
    "{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
    "{\"arguments\": \"{\\\"a\\\": 1}\", \"name\": \"f\"}",
    "f[ARGS]{\"a\": [1, \"]\"]}",
    "[f(a='x', b=[1, {'k': None}]), g()]",
];

fn formats() -> impl Strategy<Value = AnswerFormat> {
    let tools = proptest::option::weighted(0.9, proptest::sample::select(&ToolFormat::ALL[..]));
    (tools, any::<bool>(), any::<bool>()).prop_map(|(tools, thinks, begins_in_reasoning)| {
        AnswerFormat {
            tools,
            reasoning: thinks.then_some(ReasoningFormat::Think),
            begins_in_reasoning,
        }
    })
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z{}\\[\\]\"'\\\\<é\n]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            objects(inner).prop_map(Value::from),
        ]
    })
}

fn objects(values: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let entries = proptest::collection::btree_map("[a-z]{1,4}", values, 0..4);
    entries.prop_map(|entries| entries.into_iter().collect())
}

#[derive(Clone, Debug)]
struct Call {
    name: &'static str,
    arguments: Map<String, Value>,
    arguments_first: bool,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let name = proptest::sample::select(&["f", "get_weather"][..]);
    let call = (name, objects(json()), any::<bool>());
    let call = call.prop_map(|(name, arguments, arguments_first)| Call {
        name,
        arguments,
        arguments_first,
    });
    proptest::collection::vec(call, 1..4)
}

fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        // A string of JSON is one of Python.
        Value::String(_) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(python).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(entries) => {
            let mut text = String::from("{");
            for (key, value) in entries {
                write!(text, "'{key}': {}, ", python(value)).unwrap();
            }
            text + "}"
        }
    }
}

/// An answer with these calls, as a model would write it.
fn write(format: ToolFormat, calls: &[Call]) -> String {
    let object = |call: &Call, key: &str| {
        let name = Value::from(call.name);
        let arguments = Value::from(call.arguments.clone());
        match call.arguments_first {
            true => format!("{{\"{key}\": {arguments}, \"name\": {name}}}"),
            false => format!("{{\"name\": {name}, \"{key}\": {arguments}}}"),
        }
    };
    let each = |write: &dyn Fn(&Call) -> String| calls.iter().map(write).collect::<Vec<_>>();
    match format {
        ToolFormat::Hermes => {
            let write =
                |call: &Call| format!("<tool_call>\n{}\n</tool_call>", object(call, "arguments"));
            each(&write).join("\n")
        }
        ToolFormat::Llama3 => each(&|call| object(call, "parameters")).join("; "),
        ToolFormat::Mistral => {
            let objects = each(&|call| object(call, "arguments"));
            format!("[TOOL_CALLS][{}]", objects.join(", "))
        }
        ToolFormat::Pythonic => {
            let write = |call: &Call| {
                let argument = |(key, value): (&String, &Value)| format!("{key}={}", python(value));
                let arguments: Vec<String> = call.arguments.iter().map(argument).collect();
                format!("{}({})", call.name, arguments.join(", "))
            };
            format!("[{}]", each(&write).join(", "))
        }
    }
}

/// Random text, calls, and calls with a mistake: something else in place of a few characters.
fn answers() -> impl Strategy<Value = String> {
    let fragments = proptest::collection::vec(proptest::sample::select(&FRAGMENTS[..]), 0..24);
    let format = proptest::sample::select(&ToolFormat::ALL[..]);
    let mistake = (
        any::<proptest::sample::Index>(),
        0..3_usize,
        "[<\\[{}\\]\"',: a]{0,2}",
    );
    prop_oneof![
        fragments.prop_map(|fragments| fragments.concat()),
        (format, calls(), proptest::option::of(mistake)).prop_map(|(format, calls, mistake)| {
            let answer = write(format, &calls);
            let Some((at, length, instead)) = mistake else {
                return answer;
            };
            let at = at.index(answer.chars().count() + 1);
            let before = answer.chars().take(at);
            let after = answer.chars().skip(at + length);
            before.chain(instead.chars()).chain(after).collect()
        }),
        any::<String>(),
    ]
}

/// `text` in pieces of these numbers of characters, over and over.
fn cut<'a>(text: &'a str, lengths: &'a [usize]) -> impl Iterator<Item = &'a str> {
    let mut rest = text;
    lengths.iter().cycle().map_while(move |&length| {
        let end = rest
            .char_indices()
            .nth(length)
            .map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

fn known() -> Vec<String> {
    names(&["f", "g", "get_weather"])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn cuts_make_no_difference(
        answer in answers(),
        format in formats(),
        knows in any::<bool>(),
        lengths in proptest::collection::vec(1..9_usize, 1..6),
    ) {
        let names = if knows { known() } else { Vec::new() };
        let whole = parse(format, &names, [answer.as_str()]);
        prop_assert_eq!(&whole, &parse(format, &names, characters(&answer)));
        prop_assert_eq!(&whole, &parse(format, &names, cut(&answer, &lengths)));
    }

    #[test]
    fn an_answer_without_calls_is_its_content(answer in answers(), format in formats()) {
        let format = AnswerFormat { reasoning: None, ..format };
        let parts = parse(format, &known(), [answer.as_str()]);
        if !parts.iter().any(|part| matches!(part, Part::Call { .. })) {
            let content = if answer.is_empty() { vec![] } else { vec![Part::Content(answer)] };
            prop_assert_eq!(parts, content);
        }
    }

    #[test]
    fn text_without_markers_is_content(answer in "[^<\\[{]*", format in formats()) {
        let format = AnswerFormat { begins_in_reasoning: false, ..format };
        let parts = parse(format, &known(), [answer.as_str()]);
        let content = if answer.is_empty() { vec![] } else { vec![Part::Content(answer)] };
        prop_assert_eq!(parts, content);
    }

    #[test]
    fn calls_are_found_as_they_were_written(
        format in proptest::sample::select(&ToolFormat::ALL[..]),
        calls in calls(),
    ) {
        let parts = parse(tools(format), &known(), [write(format, &calls).as_str()]);
        prop_assert_eq!(parts.len(), 2 * calls.len());
        for (index, call) in (0_u32..).zip(&calls) {
            let at = 2 * index as usize;
            let name = call.name.to_owned();
            prop_assert_eq!(&parts[at], &Part::Call { index, name });
            let Part::Arguments { index: same, text } = &parts[at + 1] else {
                panic!("{:?} is no arguments", parts[at + 1]);
            };
            prop_assert_eq!(*same, index);
            let arguments = Value::from(call.arguments.clone());
            if format == ToolFormat::Pythonic {
                prop_assert_eq!(serde_json::from_str::<Value>(text).unwrap(), arguments);
            } else {
                prop_assert_eq!(text, &arguments.to_string());
            }
        }
    }
}

/// Would not end in reasonable time if a character cost more than constant time.
#[test]
fn a_megabyte_of_anything_in_single_bytes_is_no_problem() {
    let cases = [
        (ToolFormat::Hermes, "", "<tool_call"),
        (ToolFormat::Hermes, "", "<tool_call>"),
        (ToolFormat::Hermes, "", "<tool_call>{\""),
        (ToolFormat::Hermes, "{\"name\": ", "\""),
        (ToolFormat::Hermes, "<tool_call>{\"a\": ", "["),
        (ToolFormat::Hermes, "<tool_call>{\"a\": \"", "\\"),
        (ToolFormat::Hermes, "<tool_call>{\"a\": ", "\""),
        (ToolFormat::Hermes, "", "`"),
        (ToolFormat::Hermes, "", " "),
        (ToolFormat::Llama3, "{\"a\": ", "["),
        (ToolFormat::Llama3, "{\"arguments\": \"", " "),
        (ToolFormat::Mistral, "", "["),
        (ToolFormat::Mistral, "", "[TOOL_CALLS]["),
        (ToolFormat::Mistral, "[TOOL_CALLS]", "f"),
        (ToolFormat::Pythonic, "", "["),
        (ToolFormat::Pythonic, "[f(a=", "["),
        (ToolFormat::Pythonic, "[f(a=", "1"),
        (ToolFormat::Pythonic, "[f(a='", "\\"),
    ];
    for (format, start, again) in cases {
        let answer = format!("{start}{}", again.repeat((1 << 20) / again.len()));
        let parts = parse(tools(format), &known(), characters(&answer));
        assert!(
            parts == [Part::Content(answer)],
            "{start}{again}{again}… is content"
        );
    }
}

#[test]
fn deep_arguments_need_no_stack() {
    let depth = 1 << 20;
    let (open, close) = ("[".repeat(depth), "]".repeat(depth));
    let arguments = format!("{{\"a\": {open}{close}}}");
    let expected = [
        Part::Call {
            index: 0,
            name: "f".to_owned(),
        },
        Part::Arguments {
            index: 0,
            text: arguments.clone(),
        },
    ];
    let first = format!("<tool_call>{{\"arguments\": {arguments}, \"name\": \"f\"}}");
    let last = format!("<tool_call>{{\"name\": \"f\", \"arguments\": {arguments}}}");
    for answer in [first, last] {
        assert!(parse(tools(ToolFormat::Hermes), &known(), [answer.as_str()]) == expected);
    }
    let pythonic = format!("[f(a={open}{close})]");
    assert!(parse(tools(ToolFormat::Pythonic), &known(), [pythonic.as_str()]) == expected);
}

#[test]
fn text_after_the_end_is_content() {
    let mut parser = AnswerParser::new(tools(ToolFormat::Hermes), &known());
    let mut parts = Vec::new();
    parser.push("<tool_call>{\"name\"", &mut parts);
    parser.finish(&mut parts);
    parser.push(": 1", &mut parts);
    parser.finish(&mut parts);
    let content = |text: &str| Part::Content(text.to_owned());
    assert_eq!(parts, [content("<tool_call>{\"name\""), content(": 1")]);
}
