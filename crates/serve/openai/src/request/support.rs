//! What becomes of fields that this server does not act on: none is ignored in silence.
//!
//! A field that changes answers is refused, unless its value asks for what happens anyway
//! (`"tools": []`, `"response_format": {"type": "text"}`). A field that changes no answer is
//! accepted. Both kinds are listed here and in `docs/request-fields.md`; any other name is unknown, and what
//! happens to it is the operator's choice.

use super::error::RequestError;
use super::object::{Glimpse, Others};

/// What happens to fields that nobody here knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownFields {
    #[default]
    Refuse,
    Ignore,
}

/// A field that is not acted on.
#[derive(Clone, Copy, Debug)]
struct Field {
    name: &'static str,
    /// What asks for nothing, besides `null`.
    neutral: Neutral,
    /// What it is about and what would help, or why it may be accepted.
    about: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum Neutral {
    /// Every value: the field changes no answer.
    Any,
    /// Only `null`.
    Null,
    Bool(bool),
    Number(f64),
    Texts(&'static [&'static str]),
    /// `[]` or `{}`.
    Empty,
    /// A list of this text alone, or an empty one.
    ListOf(&'static str),
    /// An object with this `type`.
    Kind(&'static str),
}

impl Neutral {
    fn allows(self, value: &Glimpse) -> bool {
        match (self, value) {
            (_, Glimpse::Null) | (Self::Any, _) => true,
            (Self::Bool(neutral), Glimpse::Bool(value)) => neutral == *value,
            (Self::Number(neutral), Glimpse::Number(value)) => neutral == *value,
            (Self::Texts(neutral), Glimpse::Text(value)) => neutral.contains(&&**value),
            (Self::Empty, Glimpse::List { length, .. } | Glimpse::Object { length, .. }) => {
                *length == 0
            }
            (Self::ListOf(neutral), Glimpse::List { length, first }) => {
                *length == 0 || *length == 1 && first.as_deref() == Some(neutral)
            }
            (Self::Kind(neutral), Glimpse::Object { kind, .. }) => kind.as_deref() == Some(neutral),
            _ => false,
        }
    }

    /// What to send.
    fn instead(self) -> String {
        match matches!(self, Self::Any | Self::Null) {
            true => "leave it out".to_owned(),
            false => format!("leave it out or send {}", self.describe()),
        }
    }

    /// As documentation has it.
    fn describe(self) -> String {
        match self {
            Self::Any => "any".to_owned(),
            Self::Null => "`null`".to_owned(),
            Self::Bool(value) => format!("`{value}`"),
            Self::Number(value) => format!("`{value}`"),
            Self::Texts(values) => {
                let quoted: Vec<String> =
                    values.iter().map(|text| format!("`\"{text}\"`")).collect();
                quoted.join(" or ")
            }
            Self::Empty => "an empty one".to_owned(),
            Self::ListOf(value) => format!("`[\"{value}\"]`"),
            Self::Kind(kind) => format!("`{{\"type\": \"{kind}\"}}`"),
        }
    }
}

const fn field(name: &'static str, neutral: Neutral, about: &'static str) -> Field {
    Field {
        name,
        neutral,
        about,
    }
}

const TOOLS: &str = "tool calls";
const STRUCTURED: &str = "constrained output";

/// Of a body.
const BODY: [Field; 53] = [
    field("tools", Neutral::Empty, TOOLS),
    field("tool_choice", Neutral::Texts(&["none", "auto"]), TOOLS),
    field(
        "parallel_tool_calls",
        Neutral::Any,
        "concerns tool calls, of which there are none",
    ),
    field("functions", Neutral::Empty, TOOLS),
    field("function_call", Neutral::Texts(&["none", "auto"]), TOOLS),
    field("response_format", Neutral::Kind("text"), STRUCTURED),
    field("structured_outputs", Neutral::Empty, STRUCTURED),
    field("guided_json", Neutral::Null, STRUCTURED),
    field("guided_regex", Neutral::Null, STRUCTURED),
    field("guided_choice", Neutral::Empty, STRUCTURED),
    field("guided_grammar", Neutral::Null, STRUCTURED),
    field(
        "guided_decoding_backend",
        Neutral::Any,
        "concerns constrained output, of which there is none",
    ),
    field(
        "guided_whitespace_pattern",
        Neutral::Any,
        "concerns constrained output, of which there is none",
    ),
    field("regex", Neutral::Null, STRUCTURED),
    field("ebnf", Neutral::Null, STRUCTURED),
    field("json_schema", Neutral::Null, STRUCTURED),
    field("logit_bias", Neutral::Empty, "a bias of single tokens"),
    field("allowed_token_ids", Neutral::Null, "a choice of tokens"),
    field("bad_words", Neutral::Empty, "a choice of words"),
    field(
        "reasoning_effort",
        Neutral::Texts(&["none"]),
        "control of a model's reasoning",
    ),
    field(
        "reasoning",
        Neutral::Empty,
        "control of a model's reasoning",
    ),
    field(
        "thinking",
        Neutral::Kind("disabled"),
        "control of a model's reasoning",
    ),
    field(
        "verbosity",
        Neutral::Texts(&["medium"]),
        "control of an answer's length other than by `max_tokens`",
    ),
    field(
        "modalities",
        Neutral::ListOf("text"),
        "output other than text",
    ),
    field("audio", Neutral::Null, "output other than text"),
    field("web_search_options", Neutral::Null, "web search"),
    field("store", Neutral::Bool(false), "storing answers"),
    field(
        "service_tier",
        Neutral::Texts(&["auto", "default"]),
        "a choice of service tiers",
    ),
    field("use_beam_search", Neutral::Bool(false), "beam search"),
    field("length_penalty", Neutral::Number(1.0), "beam search"),
    field(
        "stop_token_ids",
        Neutral::Empty,
        "stopping at token ids (use `stop`)",
    ),
    field(
        "include_stop_str_in_output",
        Neutral::Bool(false),
        "a stop string in the answer",
    ),
    field(
        "no_stop_trim",
        Neutral::Bool(false),
        "a stop string in the answer",
    ),
    field(
        "skip_special_tokens",
        Neutral::Bool(true),
        "special tokens in the answer",
    ),
    field(
        "spaces_between_special_tokens",
        Neutral::Any,
        "concerns special tokens, which no answer contains",
    ),
    field("truncate_prompt_tokens", Neutral::Null, "cutting prompts"),
    field(
        "prompt_logprobs",
        Neutral::Null,
        "log-probabilities of the prompt",
    ),
    field(
        "return_token_ids",
        Neutral::Bool(false),
        "token ids in the answer",
    ),
    field(
        "return_tokens_as_token_ids",
        Neutral::Bool(false),
        "token ids in the answer",
    ),
    field(
        "add_generation_prompt",
        Neutral::Bool(true),
        "a prompt that ends in another way than the template's",
    ),
    field(
        "continue_final_message",
        Neutral::Bool(false),
        "continuing the last message",
    ),
    field("documents", Neutral::Empty, "documents beside the messages"),
    field(
        "chat_template",
        Neutral::Null,
        "another chat template than the model's",
    ),
    field(
        "chat_template_kwargs",
        Neutral::Empty,
        "parameters of the chat template",
    ),
    field("mm_processor_kwargs", Neutral::Empty, "images and sound"),
    field(
        "priority",
        Neutral::Number(0.0),
        "a priority in the body (send the header `x-request-priority`)",
    ),
    field(
        "request_id",
        Neutral::Null,
        "an id in the body (send the header `x-request-id`)",
    ),
    field(
        "kv_transfer_params",
        Neutral::Null,
        "a transfer of KV blocks by the client",
    ),
    field("metadata", Neutral::Any, "labels for the client's own use"),
    field(
        "safety_identifier",
        Neutral::Any,
        "labels for the client's own use",
    ),
    field(
        "prompt_cache_key",
        Neutral::Any,
        "prefixes are found by their content",
    ),
    field(
        "prompt_cache_retention",
        Neutral::Any,
        "blocks stay cached while there is room",
    ),
    field("prediction", Neutral::Any, "a hint that changes no answer"),
];

/// Of a message.
const MESSAGE: [Field; 8] = [
    field("tool_calls", Neutral::Empty, TOOLS),
    field("function_call", Neutral::Null, TOOLS),
    field(
        "tool_call_id",
        Neutral::Any,
        "templates render results in the order of the messages",
    ),
    field("refusal", Neutral::Null, "a refusal in the history"),
    field("audio", Neutral::Null, "sound"),
    field("annotations", Neutral::Any, "notes about an earlier answer"),
    field(
        "reasoning_content",
        Neutral::Any,
        "earlier reasoning is not part of the prompt",
    ),
    field(
        "reasoning",
        Neutral::Any,
        "earlier reasoning is not part of the prompt",
    ),
];

/// Of a part of a message's content.
const PART: [Field; 1] = [field(
    "cache_control",
    Neutral::Any,
    "prefixes are found by their content",
)];

const STREAM_OPTIONS: [Field; 1] = [field(
    "include_obfuscation",
    Neutral::Bool(false),
    "padding of events",
)];

/// The object that a field is in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Body,
    /// The message with that index.
    Message(usize),
    StreamOptions,
}

impl Place {
    fn fields(self) -> &'static [Field] {
        match self {
            Self::Body => &BODY,
            Self::Message(_) => &MESSAGE,
            Self::StreamOptions => &STREAM_OPTIONS,
        }
    }

    fn path(self, name: &str) -> String {
        match self {
            Self::Body => name.to_owned(),
            Self::Message(index) => format!("messages[{index}].{name}"),
            Self::StreamOptions => format!("stream_options.{name}"),
        }
    }
}

/// Whether a part of a message's content may have this member.
pub(super) fn is_part_field(name: &str) -> bool {
    PART.iter().any(|field| field.name == name)
}

/// Keeps of a message's other fields the first that is refused and the first that is unknown, so
/// that many messages take little memory until they are checked.
pub(super) fn reduce(others: &mut Others) {
    let (mut refused, mut unknown) = (false, false);
    others.retain(
        |name, value| match MESSAGE.iter().find(|field| field.name == name) {
            Some(field) if field.neutral.allows(value) => false,
            Some(_) => !std::mem::replace(&mut refused, true),
            None => !std::mem::replace(&mut unknown, true),
        },
    );
}

/// Refuses what would be ignored.
pub(super) fn check(
    others: &Others,
    place: Place,
    unknown: UnknownFields,
) -> Result<(), RequestError> {
    for (name, value) in others.iter() {
        let known = place.fields().iter().find(|field| field.name == name);
        match (known, unknown) {
            (Some(field), _) if field.neutral.allows(value) => {}
            (Some(field), _) => {
                let instead = field.neutral.instead();
                let path = place.path(name);
                return Err(RequestError::no_effect(&path, field.about, &instead));
            }
            (None, UnknownFields::Ignore) => {}
            (None, UnknownFields::Refuse) => return Err(RequestError::unknown(&place.path(name))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use expect_test::expect_file;

    use super::super::fields::{ChatFields, CompletionFields};
    use super::super::options::StreamOptions;
    use super::super::value::{RawMessage, RawPart};
    use super::*;

    const ABOUT: &str = "\
# Request fields

Written by `cargo xtask codegen` from the code that reads requests.

No field of a request is ignored in silence. A field has an effect, or it is refused with status 400
and a message that names it, or it is in the last table with the values that are accepted because
they ask for nothing. `null` is accepted everywhere and means that the field is absent.

Fields that are in none of the tables are unknown. They are refused too, unless the server runs with
`--unknown-fields ignore`.

`logprobs` is refused where a worker's engine does not report log-probabilities: the simulator does
not, `--engine llama` does.

## Fields with an effect
";

    /// The table of fields without an effect, for documentation.
    fn table() -> String {
        let mut table = String::from("| field | accepted value | |\n|---|---|---|\n");
        let message = MESSAGE.iter().map(|field| ("messages[].", field));
        let part = PART.iter().map(|field| ("messages[].content[].", field));
        let stream = STREAM_OPTIONS
            .iter()
            .map(|field| ("stream_options.", field));
        let body = BODY.iter().map(|field| ("", field));
        for (path, field) in body.chain(message).chain(part).chain(stream) {
            let about = match matches!(field.neutral, Neutral::Any) {
                true => field.about.to_owned(),
                false => format!("not supported: {}", field.about),
            };
            let accepted = field.neutral.describe();
            let _ = writeln!(table, "| `{path}{}` | {accepted} | {about} |", field.name);
        }
        table
    }

    fn list(title: &str, names: &[&str]) -> String {
        let names: Vec<String> = names
            .iter()
            .map(|name| format!("`{}`", name.trim_start_matches("r#")))
            .collect();
        format!("- {title}: {}.\n", names.join(", "))
    }

    #[test]
    fn the_fields_of_the_docs_are_fresh() {
        let acting = [
            list("`POST /v1/chat/completions`", ChatFields::FIELDS),
            list("`POST /v1/completions`", CompletionFields::FIELDS),
            list("`messages[]`", RawMessage::FIELDS),
            list("`messages[].content[]`", RawPart::FIELDS),
            list("`stream_options`", StreamOptions::FIELDS),
            list("`nvext`", &["extra_fields", "cache_salt"]),
        ];
        let page = format!(
            "{ABOUT}\n{}\n## Fields without an effect\n\n{}",
            acting.concat(),
            table()
        );
        expect_file!["../../../../../docs/request-fields.md"].assert_eq(&page);
    }

    #[test]
    fn no_field_is_listed_twice_or_both_listed_and_acted_on() {
        for (fields, acting) in [
            (
                &BODY[..],
                [ChatFields::FIELDS, CompletionFields::FIELDS].concat(),
            ),
            (&MESSAGE[..], RawMessage::FIELDS.to_vec()),
            (&PART[..], RawPart::FIELDS.to_vec()),
            (&STREAM_OPTIONS[..], StreamOptions::FIELDS.to_vec()),
        ] {
            for (index, field) in fields.iter().enumerate() {
                let before = &fields[..index];
                assert!(before.iter().all(|other| other.name != field.name));
                assert!(!acting.contains(&field.name), "{}", field.name);
            }
        }
    }
}
