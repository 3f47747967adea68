//! Grammars hold answers to the formats that the parser reads.

use answer_parser::{AnswerFormat, AnswerParser, Part};
use openai::UnknownFields;
use serde_json::json;

use super::*;

const MARKERS: [&str; 5] = [
    "<tool_call>",
    "</tool_call>",
    "[TOOL_CALLS]",
    "<think>",
    "</think>",
];
const FIRST_MARKER: TokenId = 256;
const END: TokenId = 261;

fn special(name: &str) -> Option<TokenId> {
    let place = MARKERS.iter().position(|marker| *marker == name)?;
    Some(FIRST_MARKER + place as TokenId)
}

fn none(_: &str) -> Option<TokenId> {
    None
}

/// Single bytes and the markers.
fn vocabulary() -> grammar::Vocabulary {
    grammar::Vocabulary::new(|| {
        let bytes = (0..=255).map(|byte| grammar::Token::Text(vec![byte]));
        let markers = MARKERS.map(|name| grammar::Token::Special(name.to_owned()));
        let mut tokens: Vec<grammar::Token> = bytes.chain(markers).collect();
        tokens.push(grammar::Token::Special("<|end|>".to_owned()));
        (tokens, vec![END])
    })
}

/// Markers become tokens where `marked`, everything else bytes.
fn tokens(text: &str, marked: bool) -> Vec<TokenId> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        let marker = MARKERS
            .iter()
            .find(|marker| marked && rest.starts_with(**marker));
        let (token, length) = match marker {
            Some(marker) => (special(marker).unwrap(), marker.len()),
            None => (TokenId::from(first), 1),
        };
        tokens.push(token);
        rest = rest.get(length..).unwrap_or_default();
    }
    tokens
}

fn request(more: &Value) -> ChatRequest {
    let mut body = json!({
        "model": "m",
        "messages": [{ "role": "user", "content": "hi" }],
        "tools": [
            { "type": "function", "function": { "name": "weather", "parameters": {
                "type": "object",
                "properties": { "city": { "type": "string" }, "days": { "type": "integer" } },
                "required": ["city"], "additionalProperties": false } } },
            { "type": "function", "function": { "name": "stop-it" } },
        ],
    });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    ChatRequest::parse(body.to_string().as_bytes(), UnknownFields::Refuse).unwrap()
}

fn grammar_of(
    format: ToolFormat,
    more: &Value,
    special: impl Fn(&str) -> Option<TokenId>,
) -> Option<Grammar> {
    let request = request(more);
    let asked = Asked {
        request: &request,
        manner: Manner {
            tools: Some(format),
            reasoning: None,
        },
        begins_in_reasoning: false,
    };
    Grammars::default().of_chat(&asked, special).unwrap()
}

/// Whether the whole text is an answer.
fn accepts(grammar: &Grammar, text: &str, marked: bool) -> bool {
    let mut matcher = vocabulary().matcher(grammar).unwrap();
    for token in tokens(text, marked) {
        if !matcher.mask().unwrap().allows(token) {
            return false;
        }
        matcher.consume(token).unwrap();
    }
    matcher.mask().unwrap().allows(END)
}

/// Two calls, as each format has them.
fn two_calls(format: ToolFormat) -> &'static str {
    match format {
        ToolFormat::Hermes => {
            "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}}\n</tool_call>\n\
             <tool_call>\n{\"name\": \"stop-it\", \"arguments\": {}}\n</tool_call>"
        }
        ToolFormat::Llama3 => {
            "{\"name\": \"weather\", \"parameters\": {\"city\": \"Bern\"}}; \
             {\"name\": \"stop-it\", \"parameters\": {}}"
        }
        ToolFormat::Mistral => {
            "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}}, \
             {\"name\": \"stop-it\", \"arguments\": {}}]"
        }
        ToolFormat::Pythonic => "[weather(city=\"Bern\"), stop-it()]",
    }
}

#[test]
fn a_required_call_is_a_call_and_nothing_else() {
    for format in ToolFormat::ALL {
        for marked in [true, false] {
            let more = json!({ "tool_choice": "required" });
            let grammar = match marked {
                true => grammar_of(format, &more, special),
                false => grammar_of(format, &more, none),
            };
            let grammar = grammar.unwrap();
            assert!(
                accepts(&grammar, two_calls(format), marked),
                "{format:?} {grammar:?}"
            );
            assert!(!accepts(&grammar, "Hello.", marked), "{format:?}");
            let wrong = two_calls(format).replace("city", "town");
            assert!(!accepts(&grammar, &wrong, marked), "{format:?}");
        }
    }
}

#[test]
fn one_call_where_only_one_is_wanted() {
    for format in ToolFormat::ALL {
        for more in [
            json!({ "tool_choice": "required", "parallel_tool_calls": false }),
            json!({ "tool_choice": { "type": "function", "function": { "name": "weather" } } }),
        ] {
            let grammar = grammar_of(format, &more, special).unwrap();
            assert!(!accepts(&grammar, two_calls(format), true), "{format:?}");
        }
    }
}

#[test]
fn text_or_calls_by_the_models_choice() {
    for format in ToolFormat::ALL {
        let grammar = grammar_of(format, &json!({}), special).unwrap();
        assert!(accepts(&grammar, two_calls(format), true), "{format:?}");
        assert!(accepts(&grammar, "Hello.\nAnd more.", true), "{format:?}");
        let wrong = two_calls(format).replace("city", "town");
        assert!(!accepts(&grammar, &wrong, true), "{format:?}");
    }
    // Nothing tells a call from text before it is over.
    assert!(grammar_of(ToolFormat::Hermes, &json!({}), none).is_none());
    assert!(
        grammar_of(
            ToolFormat::Mistral,
            &json!({ "tool_choice": "none" }),
            special
        )
        .is_none()
    );
}

#[test]
fn calls_or_a_document() {
    let more = json!({ "response_format": { "type": "json_schema", "json_schema": {
        "name": "n", "schema": { "type": "object", "properties": { "a": { "const": 1 } },
        "required": ["a"], "additionalProperties": false } } } });
    for format in ToolFormat::ALL {
        let grammar = grammar_of(format, &more, special).unwrap();
        let call = match format {
            ToolFormat::Llama3 => "{\"name\": \"stop-it\", \"parameters\": {}}",
            ToolFormat::Hermes | ToolFormat::Mistral | ToolFormat::Pythonic => two_calls(format),
        };
        assert!(accepts(&grammar, call, true), "{format:?}");
        assert!(accepts(&grammar, "{\"a\": 1}", true), "{format:?}");
        assert!(!accepts(&grammar, "Hello.", true), "{format:?}");
    }
}

#[test]
fn what_the_grammar_allows_the_parser_reads() {
    for format in ToolFormat::ALL {
        let format = AnswerFormat {
            tools: Some(format),
            ..AnswerFormat::default()
        };
        let mut parser = AnswerParser::new(format, &["weather".to_owned(), "stop-it".to_owned()]);
        let mut parts = Vec::new();
        parser.push(two_calls(format.tools.unwrap()), &mut parts);
        parser.finish(&mut parts);
        let names: Vec<&str> = parts
            .iter()
            .filter_map(|part| match part {
                Part::Call { name, .. } => Some(name.as_str()),
                Part::Content(_) | Part::Reasoning(_) | Part::Arguments { .. } => None,
            })
            .collect();
        assert_eq!(names, ["weather", "stop-it"], "{format:?}");
        let first: String = parts
            .iter()
            .filter_map(|part| match part {
                Part::Arguments { index: 0, text } => Some(text.as_str()),
                Part::Content(_)
                | Part::Reasoning(_)
                | Part::Call { .. }
                | Part::Arguments { .. } => None,
            })
            .collect();
        let first: Value = serde_json::from_str(&first).unwrap();
        assert_eq!(first, json!({ "city": "Bern" }), "{format:?}");
    }
}

#[test]
fn a_model_thinks_before_its_document() {
    let request = request(&json!({ "tools": [], "response_format": { "type": "json_object" } }));
    for (begins_in_reasoning, prefix) in [(true, ""), (false, "<think>")] {
        let asked = Asked {
            request: &request,
            manner: Manner {
                tools: None,
                reasoning: Some(ReasoningFormat::Think),
            },
            begins_in_reasoning,
        };
        let grammar = Grammars::default()
            .of_chat(&asked, special)
            .unwrap()
            .unwrap();
        let answer = format!("{prefix}Hm.\n</think>\n\n{{\"a\": 1}}");
        assert!(accepts(&grammar, &answer, true), "{grammar:?}");
        assert!(!accepts(&grammar, &format!("{prefix}Hm.</think>Hm."), true));
    }
}

#[test]
fn schemas_that_are_none_are_refused_by_their_place() {
    let refused = |more: Value| {
        let request = request(&more);
        let asked = Asked {
            request: &request,
            manner: Manner {
                tools: Some(ToolFormat::Hermes),
                reasoning: None,
            },
            begins_in_reasoning: false,
        };
        let error = Grammars::default().of_chat(&asked, special).unwrap_err();
        error.param().unwrap().to_owned()
    };
    let tools = json!({ "tools": [{ "type": "function", "function":
        { "name": "f", "parameters": { "type": "strange" } } }] });
    assert_eq!(refused(tools), "tools[0].function.parameters");
    let format = json!({ "tools": [], "response_format": { "type": "json_schema",
        "json_schema": { "name": "n", "schema": { "type": 7 } } } });
    assert_eq!(refused(format), "response_format.json_schema.schema");
    assert_eq!(
        refused(json!({ "tools": [], "guided_regex": "(" })),
        "guided_regex"
    );
}

#[test]
fn choices_are_texts() {
    let constraint = OutputConstraint {
        format: OutputFormat::Choice(vec!["yes \"sir\"".to_owned(), "no\n".to_owned()]),
        param: "guided_choice",
    };
    let grammar = Grammars::default().of_completion(&constraint).unwrap();
    assert!(accepts(&grammar, "yes \"sir\"", false));
    assert!(accepts(&grammar, "no\n", false));
    assert!(!accepts(&grammar, "no", false));
}
