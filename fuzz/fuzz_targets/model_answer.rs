//! Text that a model writes, in every format of tool calls.
//!
//! Asserts that the parts do not depend on how the text was cut, that arguments belong to calls
//! that have begun, and that no part is empty.

#![no_main]

use answer_parser::{AnswerFormat, AnswerParser, Part, ReasoningFormat, ToolFormat};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((choice, text)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let formats = ToolFormat::ALL;
    let format = AnswerFormat {
        tools: formats.get(usize::from(choice % 5)).copied(),
        reasoning: (choice & 64 != 0).then_some(ReasoningFormat::Think),
        begins_in_reasoning: choice & 128 != 0,
    };
    let names = ["f".to_owned(), "get_weather".to_owned()];
    let names = if choice & 32 != 0 { &names[..] } else { &[] };
    let whole = parse(format, names, [text]);
    let letters = text
        .char_indices()
        .map(|(at, letter)| &text[at..at + letter.len_utf8()]);
    assert_eq!(parse(format, names, letters), whole);
});

fn parse<'a>(
    format: AnswerFormat,
    names: &[String],
    pieces: impl IntoIterator<Item = &'a str>,
) -> Vec<Part> {
    let mut parser = AnswerParser::new(format, names);
    let mut parts = Vec::new();
    for piece in pieces {
        parser.push(piece, &mut parts);
    }
    parser.finish(&mut parts);
    let mut merged: Vec<Part> = Vec::new();
    let mut calls = 0;
    for part in parts {
        match &part {
            Part::Content(text) | Part::Reasoning(text) => assert!(!text.is_empty()),
            Part::Call { index, .. } => {
                assert_eq!(*index, calls);
                calls += 1;
            }
            Part::Arguments { index, .. } => assert!(*index < calls),
        }
        match (merged.last_mut(), part) {
            (Some(Part::Content(before)), Part::Content(text))
            | (Some(Part::Reasoning(before)), Part::Reasoning(text)) => before.push_str(&text),
            (
                Some(Part::Arguments {
                    index,
                    text: before,
                }),
                Part::Arguments { index: same, text },
            ) if *index == same => {
                before.push_str(&text);
            }
            (_, part) => merged.push(part),
        }
    }
    assert_eq!(parser.calls(), calls);
    merged
}
