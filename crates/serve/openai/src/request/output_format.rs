//! What an answer must look like: OpenAI's `response_format`, and the names that engines have
//! for the same.

use serde::Deserialize;

use super::error::RequestError;
use super::json_text::JsonText;
use super::list::list;
use super::object::object;
use super::support::{self, UnknownFields};
use super::tables;

/// Bytes of a regular expression or a grammar; schemas may be as long as a body.
const MAX_PATTERN_BYTES: usize = 64 << 10;

const MAX_CHOICES: usize = 1024;

/// The only answers that the model may give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// Any JSON object.
    JsonObject,
    /// JSON that fits the schema.
    JsonSchema(JsonText),
    Regex(String),
    /// In llguidance's dialect of Lark.
    Grammar(String),
    /// One of these, at least one.
    Choice(Vec<String>),
}

/// A constraint, and the field that asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputConstraint {
    pub format: OutputFormat,
    /// The path of the field, for errors that only a compiler of grammars can find.
    pub param: &'static str,
}

object! {
    ResponseFormat, "a response format object" {
        r#type: String,
        json_schema: RawSchema,
    }
}

object! {
    RawSchema, "a JSON schema with a name" {
        name: String,
        description: String,
        schema: JsonText,
        strict: bool,
    }
}

object! {
    /// vLLM's `structured_outputs`.
    StructuredOutputs, "an object" {
        json: SchemaText,
        json_object: bool,
        regex: String,
        choice: Choices,
        grammar: String,
    }
}

list! {
    /// The answers to choose from.
    Choices(String), MAX_CHOICES, "choices"
}

/// A schema, or a string that holds one.
#[derive(Debug)]
pub(crate) struct SchemaText(JsonText);

impl<'de> Deserialize<'de> for SchemaText {
    fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        use serde::de::Error;

        let json = JsonText::deserialize(source)?;
        if !json.as_str().starts_with('"') {
            return Ok(Self(json));
        }
        let text: String = serde_json::from_str(json.as_str()).map_err(D::Error::custom)?;
        JsonText::parse(&text).map(Self).map_err(D::Error::custom)
    }
}

/// All the fields that constrain an answer.
#[derive(Debug, Default)]
pub(crate) struct RawConstraints {
    pub(crate) response_format: Option<ResponseFormat>,
    pub(crate) structured_outputs: Option<StructuredOutputs>,
    pub(crate) guided_json: Option<SchemaText>,
    pub(crate) guided_regex: Option<String>,
    pub(crate) guided_choice: Option<Choices>,
    pub(crate) guided_grammar: Option<String>,
}

impl RawConstraints {
    pub(crate) fn check(
        self,
        unknown: UnknownFields,
    ) -> Result<Option<OutputConstraint>, RequestError> {
        let mut found: Vec<OutputConstraint> = Vec::new();
        let mut add = |param, format| found.push(OutputConstraint { format, param });
        if let Some(format) = self.response_format {
            format.check(unknown)?.into_iter().for_each(|format| {
                let param = match format {
                    OutputFormat::JsonSchema(_) => "response_format.json_schema.schema",
                    OutputFormat::JsonObject
                    | OutputFormat::Regex(_)
                    | OutputFormat::Grammar(_)
                    | OutputFormat::Choice(_) => "response_format",
                };
                add(param, format);
            });
        }
        if let Some(outputs) = self.structured_outputs {
            let fields = &tables::STRUCTURED_OUTPUTS;
            support::check(&outputs.others, fields, "structured_outputs.", unknown)?;
            if let Some(SchemaText(schema)) = outputs.json {
                add("structured_outputs.json", OutputFormat::JsonSchema(schema));
            }
            if outputs.json_object == Some(true) {
                add("structured_outputs.json_object", OutputFormat::JsonObject);
            }
            if let Some(regex) = outputs.regex {
                add("structured_outputs.regex", OutputFormat::Regex(regex));
            }
            if let Some(choice) = outputs.choice {
                add("structured_outputs.choice", OutputFormat::Choice(choice.0));
            }
            if let Some(grammar) = outputs.grammar {
                add("structured_outputs.grammar", OutputFormat::Grammar(grammar));
            }
        }
        if let Some(SchemaText(schema)) = self.guided_json {
            add("guided_json", OutputFormat::JsonSchema(schema));
        }
        if let Some(regex) = self.guided_regex {
            add("guided_regex", OutputFormat::Regex(regex));
        }
        if let Some(choice) = self.guided_choice {
            add("guided_choice", OutputFormat::Choice(choice.0));
        }
        if let Some(grammar) = self.guided_grammar {
            add("guided_grammar", OutputFormat::Grammar(grammar));
        }
        if let [_, second, ..] = &found[..] {
            let problem = format_args!("cannot be combined with `{}`", found[0].param);
            return Err(RequestError::invalid(second.param, problem));
        }
        match found.pop() {
            Some(constraint) => constraint.check().map(Some),
            None => Ok(None),
        }
    }
}

impl ResponseFormat {
    fn check(self, unknown: UnknownFields) -> Result<Option<OutputFormat>, RequestError> {
        support::check(&self.others, &[], "response_format.", unknown)?;
        match (self.r#type.as_deref(), self.json_schema) {
            (None, _) => Err(RequestError::missing("response_format.type")),
            (Some("text"), _) => Ok(None),
            (Some("json_object"), _) => Ok(Some(OutputFormat::JsonObject)),
            (Some("json_schema"), None) => {
                Err(RequestError::missing("response_format.json_schema"))
            }
            (Some("json_schema"), Some(schema)) => {
                let path = "response_format.json_schema.";
                support::check(&schema.others, &[], path, unknown)?;
                let Some(schema) = schema.schema else {
                    return Err(RequestError::missing("response_format.json_schema.schema"));
                };
                Ok(Some(OutputFormat::JsonSchema(schema)))
            }
            (Some(other), _) => {
                let what = format!("a format of type `{other}`");
                Err(RequestError::unsupported("response_format.type", what))
            }
        }
    }
}

impl OutputConstraint {
    pub(crate) fn check(self) -> Result<Self, RequestError> {
        let problem = match &self.format {
            OutputFormat::JsonSchema(schema)
                if !schema.is_object() && !matches!(schema.as_str(), "true" | "false") =>
            {
                "must be a JSON schema, which is an object"
            }
            OutputFormat::Regex(text) | OutputFormat::Grammar(text)
                if text.len() > MAX_PATTERN_BYTES =>
            {
                "is longer than 65,536 bytes"
            }
            OutputFormat::Regex(text) | OutputFormat::Grammar(text) if text.is_empty() => {
                "must not be empty"
            }
            OutputFormat::Choice(texts) if texts.is_empty() => "must hold at least one text",
            OutputFormat::Choice(texts) if texts.iter().any(String::is_empty) => {
                "must not hold an empty text"
            }
            OutputFormat::JsonObject
            | OutputFormat::JsonSchema(_)
            | OutputFormat::Regex(_)
            | OutputFormat::Grammar(_)
            | OutputFormat::Choice(_) => return Ok(self),
        };
        Err(RequestError::empty(self.param, problem))
    }
}
