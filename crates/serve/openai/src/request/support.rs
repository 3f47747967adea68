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
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// What asks for nothing, besides `null`.
    pub(crate) neutral: Neutral,
    /// What it is about and what would help, or why it may be accepted.
    pub(crate) about: &'static str,
}

#[cfg(test)]
impl Field {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Neutral {
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
    pub(crate) fn allows(self, value: &Glimpse) -> bool {
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
    pub(crate) fn instead(self) -> String {
        match matches!(self, Self::Any | Self::Null) {
            true => "leave it out".to_owned(),
            false => format!("leave it out or send {}", self.describe()),
        }
    }

    /// As documentation has it.
    pub(crate) fn describe(self) -> String {
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

pub(crate) const fn field(name: &'static str, neutral: Neutral, about: &'static str) -> Field {
    Field {
        name,
        neutral,
        about,
    }
}

const FUNCTIONS: &str = "the older form of tool calls: use `tools`";
const WHITE_SPACE: &str = "a choice of white space in JSON";

/// Of a body.
const BODY: [Field; 40] = [
    field("functions", Neutral::Empty, FUNCTIONS),
    field(
        "function_call",
        Neutral::Texts(&["none", "auto"]),
        FUNCTIONS,
    ),
    field(
        "guided_decoding_backend",
        Neutral::Any,
        "one compiler of grammars serves all",
    ),
    field("guided_whitespace_pattern", Neutral::Null, WHITE_SPACE),
    field("regex", Neutral::Null, "use `structured_outputs.regex`"),
    field("ebnf", Neutral::Null, "use `structured_outputs.grammar`"),
    field(
        "json_schema",
        Neutral::Null,
        "use `response_format`, or `structured_outputs.json`",
    ),
    field("allowed_token_ids", Neutral::Null, "a choice of tokens"),
    field("bad_words", Neutral::Empty, "a choice of words"),
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
const MESSAGE: [Field; 4] = [
    field("function_call", Neutral::Null, FUNCTIONS),
    field("refusal", Neutral::Null, "a refusal in the history"),
    field("audio", Neutral::Null, "sound"),
    field("annotations", Neutral::Any, "notes about an earlier answer"),
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

/// Of a tool, or of its function.
const TOOL: [Field; 1] = [field(
    "cache_control",
    Neutral::Any,
    "prefixes are found by their content",
)];

/// Of `structured_outputs`.
const STRUCTURED_OUTPUTS: [Field; 5] = [
    field(
        "disable_fallback",
        Neutral::Any,
        "one compiler of grammars serves all",
    ),
    field("disable_any_whitespace", Neutral::Bool(true), WHITE_SPACE),
    field(
        "disable_additional_properties",
        Neutral::Bool(false),
        "schemas other than the one that was sent",
    ),
    field("whitespace_pattern", Neutral::Null, WHITE_SPACE),
    field(
        "structural_tag",
        Neutral::Null,
        "tags: use `structured_outputs.grammar`",
    ),
];

/// The object that a field is in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Body,
    /// The message with that index.
    Message(usize),
    /// The call of the message.
    Call {
        message: usize,
        call: usize,
    },
    /// The tool with that index.
    Tool(usize),
    ToolFunction(usize),
    ResponseFormat,
    JsonSchema,
    StructuredOutputs,
    StreamOptions,
}

impl Place {
    fn fields(self) -> &'static [Field] {
        match self {
            Self::Body => &BODY,
            Self::Message(_) => &MESSAGE,
            Self::StreamOptions => &STREAM_OPTIONS,
            Self::StructuredOutputs => &STRUCTURED_OUTPUTS,
            Self::Tool(_) | Self::ToolFunction(_) => &TOOL,
            Self::Call { .. } | Self::ResponseFormat | Self::JsonSchema => &[],
        }
    }

    pub(crate) fn path(self, name: &str) -> String {
        match self {
            Self::Body => name.to_owned(),
            Self::Message(index) => format!("messages[{index}].{name}"),
            Self::Call { message, call } => {
                format!("messages[{message}].tool_calls[{call}].{name}")
            }
            Self::Tool(index) => format!("tools[{index}].{name}"),
            Self::ToolFunction(index) => format!("tools[{index}].function.{name}"),
            Self::ResponseFormat => format!("response_format.{name}"),
            Self::JsonSchema => format!("response_format.json_schema.{name}"),
            Self::StructuredOutputs => format!("structured_outputs.{name}"),
            Self::StreamOptions => format!("stream_options.{name}"),
        }
    }
}

/// Whether a part of a message's content may have this member.
pub(crate) fn is_part_field(name: &str) -> bool {
    PART.iter().any(|field| field.name == name)
}

/// Keeps of a message's other fields the first that is refused and the first that is unknown, so
/// that many messages take little memory until they are checked.
pub(crate) fn reduce(others: &mut Others) {
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
pub(crate) fn check(
    others: &Others,
    place: Place,
    unknown: UnknownFields,
) -> Result<(), RequestError> {
    check_fields(others, place.fields(), |name| place.path(name), unknown)
}

/// Refuses what would be ignored in an object whose fields without an effect are `fields`; `path`
/// is that of a member.
pub(crate) fn check_fields(
    others: &Others,
    fields: &[Field],
    path: impl Fn(&str) -> String,
    unknown: UnknownFields,
) -> Result<(), RequestError> {
    for (name, value) in others.iter() {
        let known = fields.iter().find(|field| field.name == name);
        match (known, unknown) {
            (Some(field), _) if field.neutral.allows(value) => {}
            (Some(field), _) => {
                let instead = field.neutral.instead();
                return Err(RequestError::no_effect(&path(name), field.about, &instead));
            }
            (None, UnknownFields::Ignore) => {}
            (None, UnknownFields::Refuse) => return Err(RequestError::unknown(&path(name))),
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
    use super::super::output_format::{RawSchema, ResponseFormat, StructuredOutputs};
    use super::super::tools::{RawCall, RawCalled, RawFunction, RawTool};
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

`logprobs`, `logit_bias`, constrained output and required tool calls depend on the engine and are refused
where a worker's engine cannot do them. [agents.md](agents.md) has the table.

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
        let tool = TOOL.iter().map(|field| ("tools[].", field));
        let outputs = STRUCTURED_OUTPUTS
            .iter()
            .map(|field| ("structured_outputs.", field));
        let body = BODY.iter().map(|field| ("", field));
        let others = message.chain(part).chain(tool).chain(outputs).chain(stream);
        for (path, field) in body.chain(others) {
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
            list("`messages[].tool_calls[]`", RawCall::FIELDS),
            list("`messages[].tool_calls[].function`", RawCalled::FIELDS),
            list("`tools[]`", RawTool::FIELDS),
            list("`tools[].function`", RawFunction::FIELDS),
            list("`response_format`", ResponseFormat::FIELDS),
            list("`response_format.json_schema`", RawSchema::FIELDS),
            list("`structured_outputs`", StructuredOutputs::FIELDS),
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
            (&STRUCTURED_OUTPUTS[..], StructuredOutputs::FIELDS.to_vec()),
            (&TOOL[..], [RawTool::FIELDS, RawFunction::FIELDS].concat()),
        ] {
            for (index, field) in fields.iter().enumerate() {
                let before = &fields[..index];
                assert!(before.iter().all(|other| other.name != field.name));
                assert!(!acting.contains(&field.name), "{}", field.name);
            }
        }
    }
}
