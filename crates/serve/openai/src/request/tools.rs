//! Tools that the model may call, and the calls of earlier turns.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::RequestError;
use super::json_text::JsonText;
use super::list::list;
use super::object::{Key, Shallow, object};
use super::output_format::OutputConstraint;
use super::support::{self, UnknownFields};
use super::tables;

/// OpenAI's own limit.
pub(crate) const MAX_TOOLS: usize = 128;
/// Calls in one message.
pub(crate) const MAX_CALLS: usize = 128;
const MAX_NAME_BYTES: usize = 128;

/// A function that the model may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Letters, digits, `_` and `-`.
    pub name: String,
    pub description: Option<String>,
    /// The JSON schema of its arguments, an object; none for a function without.
    pub parameters: Option<JsonText>,
}

/// A call that the model made in an earlier turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    pub id: Option<String>,
    pub name: String,
    /// A JSON object.
    pub arguments: JsonText,
}

/// Whether the model calls tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// It does not.
    None,
    /// As it likes.
    #[default]
    Auto,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

object! {
    RawTool, "a tool object" {
        r#type: String,
        function: RawFunction,
    }
}

object! {
    RawFunction, "a function object" {
        name: String,
        description: String,
        parameters: JsonText,
        strict: bool,
    }
}

object! {
    RawCall, "a tool call object" {
        id: String,
        r#type: String,
        function: RawCalled,
    }
}

object! {
    RawCalled, "a called function" {
        name: String,
        arguments: String,
    }
}

list! {
    /// `tools`.
    RawTools(RawTool), MAX_TOOLS, "tools"
}

list! {
    /// A message's `tool_calls`.
    RawCalls(RawCall), MAX_CALLS, "tool calls"
}

/// `tool_choice`: a word, or an object that names a function.
#[derive(Debug)]
pub(crate) enum RawChoice {
    Word(String),
    Named { kind: String, name: Option<String> },
}

impl<'de> Deserialize<'de> for RawChoice {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Choice;

        impl<'de> Visitor<'de> for Choice {
            type Value = RawChoice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"none\", \"auto\", \"required\" or an object that names a function")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<RawChoice, E> {
                Ok(RawChoice::Word(word.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<RawChoice, A::Error> {
                let (mut kind, mut name) = (None, None);
                while let Some(Key(key)) = members.next_key()? {
                    match &*key {
                        "type" => Shallow(kind) = members.next_value()?,
                        "function" => {
                            let function: RawCalled = members.next_value()?;
                            let strange = function.others.iter().map(|(name, _)| name);
                            let called = function.arguments.as_ref().map(|_| "arguments");
                            if let Some(other) = strange.chain(called).next() {
                                let problem = format_args!("unknown field `function.{other}`");
                                return Err(A::Error::custom(problem));
                            }
                            name = function.name;
                        }
                        // As the Responses API has it.
                        "name" => Shallow(name) = members.next_value()?,
                        other => {
                            let problem = format_args!("unknown field `{other}`");
                            return Err(A::Error::custom(problem));
                        }
                    }
                }
                let kind = kind.unwrap_or_else(|| "function".to_owned());
                Ok(RawChoice::Named { kind, name })
            }
        }

        source.deserialize_any(Choice)
    }
}

/// `tools` and `tool_choice`, checked together.
pub(crate) fn check(
    tools: Option<RawTools>,
    choice: Option<RawChoice>,
    unknown: UnknownFields,
) -> Result<(Vec<Tool>, ToolChoice), RequestError> {
    let tools = tools.map_or_else(Vec::new, |tools| tools.0);
    let tools: Vec<Tool> = tools
        .into_iter()
        .enumerate()
        .map(|(index, tool)| tool.check(index, unknown))
        .collect::<Result<_, _>>()?;
    for (index, tool) in tools.iter().enumerate() {
        if tools[..index].iter().any(|other| other.name == tool.name) {
            let param = format!("tools[{index}].function.name");
            let problem = format_args!("`{}` is the name of another tool too", tool.name);
            return Err(RequestError::invalid(&param, problem));
        }
    }
    let choice = match choice {
        None => ToolChoice::default(),
        Some(choice) => choice.check(&tools)?,
    };
    Ok((tools, choice))
}

impl RawTool {
    fn check(self, index: usize, unknown: UnknownFields) -> Result<Tool, RequestError> {
        let path = |field: &str| format!("tools[{index}].{field}");
        support::check(&self.others, &tables::TOOL, path(""), unknown)?;
        match self.r#type.as_deref() {
            Some("function") => {}
            Some(other) => {
                let what = format!("a tool of type `{other}`");
                return Err(RequestError::unsupported(&path("type"), what));
            }
            None => return Err(RequestError::missing(&path("type"))),
        }
        let Some(function) = self.function else {
            return Err(RequestError::missing(&path("function")));
        };
        support::check(&function.others, &tables::TOOL, path("function."), unknown)?;
        let name = function_name(function.name, &path("function.name"))?;
        if let Some(parameters) = &function.parameters
            && !parameters.is_object()
        {
            let problem = format_args!("must be a JSON schema, which is an object");
            return Err(RequestError::invalid(&path("function.parameters"), problem));
        }
        Ok(Tool {
            name,
            description: function.description,
            parameters: function.parameters,
        })
    }
}

impl RawChoice {
    pub(crate) fn check(self, tools: &[Tool]) -> Result<ToolChoice, RequestError> {
        let choice = match self {
            Self::Word(word) => match word.as_str() {
                "none" => ToolChoice::None,
                "auto" => ToolChoice::Auto,
                "required" => ToolChoice::Required,
                _ => {
                    let problem = format_args!("`{word}` is not one of none, auto, required");
                    return Err(RequestError::invalid("tool_choice", problem));
                }
            },
            Self::Named { kind, name } => match (kind.as_str(), name) {
                ("function", Some(name)) => ToolChoice::Named(name),
                ("function", None) => {
                    return Err(RequestError::missing("tool_choice.function.name"));
                }
                (other, _) => {
                    let what = format!("a choice of type `{other}`");
                    return Err(RequestError::unsupported("tool_choice.type", what));
                }
            },
        };
        choice.check(tools)
    }
}

impl ToolChoice {
    /// Whether the answer must be a call.
    pub(crate) fn demands_call(&self) -> bool {
        matches!(self, Self::Required | Self::Named(_))
    }

    /// Refuses a call that none of `tools` can be.
    pub(crate) fn check(self, tools: &[Tool]) -> Result<Self, RequestError> {
        let problem = match &self {
            Self::Required | Self::Named(_) if tools.is_empty() => "needs `tools`".to_owned(),
            Self::Named(name) if !tools.iter().any(|tool| tool.name == *name) => {
                format!("`{name}` is not the name of a tool")
            }
            Self::None | Self::Auto | Self::Required | Self::Named(_) => return Ok(self),
        };
        Err(RequestError::invalid(
            "tool_choice",
            format_args!("{problem}"),
        ))
    }

    /// Refuses a call where the answer must be something else.
    pub(crate) fn check_with(
        &self,
        constraint: Option<&OutputConstraint>,
    ) -> Result<(), RequestError> {
        match constraint {
            Some(constraint) if self.demands_call() => Err(RequestError::invalid(
                "tool_choice",
                format_args!(
                    "cannot be combined with `{}`: the answer is a call or the other",
                    constraint.param
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }
}

impl RawCall {
    /// `prefix` is the path of the call, with its full stop.
    pub(crate) fn check(
        self,
        prefix: fmt::Arguments<'_>,
        unknown: UnknownFields,
    ) -> Result<ToolCall, RequestError> {
        let path = |field: &str| format!("{prefix}{field}");
        support::check(&self.others, &[], prefix, unknown)?;
        if let Some(other) = self.r#type.as_deref().filter(|kind| *kind != "function") {
            let what = format!("a call of type `{other}`");
            return Err(RequestError::unsupported(&path("type"), what));
        }
        let Some(function) = self.function else {
            return Err(RequestError::missing(&path("function")));
        };
        support::check(&function.others, &[], path("function."), unknown)?;
        let arguments = function.arguments.unwrap_or_default();
        Ok(ToolCall {
            id: self.id,
            name: function_name(function.name, &path("function.name"))?,
            arguments: arguments_object(&arguments, &path("function.arguments"))?,
        })
    }
}

/// A call's arguments, which clients send as text. None are an empty object.
pub(crate) fn arguments_object(text: &str, path: &str) -> Result<JsonText, RequestError> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    match JsonText::parse(text) {
        Ok(json) if json.is_object() => Ok(json),
        Ok(_) => Err(RequestError::invalid(
            path,
            format_args!("must be the text of a JSON object"),
        )),
        Err(error) => Err(RequestError::invalid(
            path,
            format_args!("must be the text of a JSON object: {error}"),
        )),
    }
}

/// Names go into prompts and grammars.
pub(crate) fn function_name(name: Option<String>, path: &str) -> Result<String, RequestError> {
    let Some(name) = name else {
        return Err(RequestError::missing(path));
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(fits) {
        let rule = format!("must be 1 to {MAX_NAME_BYTES} letters, digits, underscores or dashes");
        return Err(RequestError::empty(path, &rule));
    }
    Ok(name)
}
