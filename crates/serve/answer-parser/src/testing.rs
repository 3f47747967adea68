//! For tests: an answer in, its parts out in short notation, however the text is cut.

use crate::{AnswerFormat, AnswerParser, Part, ReasoningFormat, ToolFormat};

pub(crate) fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

pub(crate) fn tools(format: ToolFormat) -> AnswerFormat {
    AnswerFormat {
        tools: Some(format),
        ..AnswerFormat::default()
    }
}

pub(crate) fn thinking(tools: Option<ToolFormat>) -> AnswerFormat {
    AnswerFormat {
        tools,
        reasoning: Some(ReasoningFormat::Think),
        begins_in_reasoning: false,
    }
}

/// The parts of an answer that comes in `pieces`, adjacent ones of a kind merged.
pub(crate) fn parse<'a>(
    format: AnswerFormat,
    tool_names: &[String],
    pieces: impl IntoIterator<Item = &'a str>,
) -> Vec<Part> {
    let mut parser = AnswerParser::new(format, tool_names);
    let mut parts = Vec::new();
    for piece in pieces {
        parser.push(piece, &mut parts);
    }
    parser.finish(&mut parts);
    let calls = parts
        .iter()
        .filter(|part| matches!(part, Part::Call { .. }));
    assert_eq!(calls.count(), parser.calls() as usize);
    merge(parts)
}

fn merge(parts: Vec<Part>) -> Vec<Part> {
    let mut merged: Vec<Part> = Vec::new();
    for part in parts {
        match (merged.last_mut(), &part) {
            (Some(Part::Reasoning(last)), Part::Reasoning(text))
            | (Some(Part::Content(last)), Part::Content(text)) => last.push_str(text),
            (
                Some(Part::Arguments { index, text: last }),
                Part::Arguments {
                    index: same, text, ..
                },
            ) if index == same => last.push_str(text),
            _ => merged.push(part),
        }
    }
    merged
}

/// The text cut after each character.
pub(crate) fn characters(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(|_| true)
}

/// `think …`, `say …`, `0 f`, `0: {…}`.
pub(crate) fn show(parts: &[Part]) -> Vec<String> {
    let line = |part: &Part| match part {
        Part::Reasoning(text) => format!("think {text}"),
        Part::Content(text) => format!("say {text}"),
        Part::Call { index, name } => format!("{index} {name}"),
        Part::Arguments { index, text } => format!("{index}: {text}"),
    };
    parts.iter().map(line).collect()
}

/// With the tools `f`, `g` and `get_weather`.
#[track_caller]
pub(crate) fn check(format: AnswerFormat, answer: &str, expected: &[&str]) {
    check_with(format, &["f", "g", "get_weather"], answer, expected);
}

#[track_caller]
pub(crate) fn check_with(
    format: AnswerFormat,
    tool_names: &[&str],
    answer: &str,
    expected: &[&str],
) {
    let tool_names = names(tool_names);
    let whole = parse(format, &tool_names, [answer]);
    assert_eq!(show(&whole), expected, "{answer}");
    let cut = parse(format, &tool_names, characters(answer));
    assert_eq!(show(&cut), expected, "{answer}, cut into characters");
}

/// The answer is content, unchanged.
#[track_caller]
pub(crate) fn check_content(format: AnswerFormat, answer: &str) {
    check(format, answer, &[&format!("say {answer}")]);
}

/// The parts after each piece.
#[track_caller]
pub(crate) fn check_stream(format: AnswerFormat, steps: &[(&str, &[&str])]) {
    let mut parser = AnswerParser::new(format, &names(&["f", "g", "get_weather"]));
    for (piece, expected) in steps {
        let mut parts = Vec::new();
        parser.push(piece, &mut parts);
        assert_eq!(show(&parts), *expected, "after {piece:?}");
    }
}
