//! `POST /v1/responses`, parsed and checked.
//!
//! What leaves this module is a [`ChatRequest`], whose guarantees it has, and what the answer
//! repeats of the request. The conversation that a request continues is added by
//! [`ResponsesRequest::with_history`], because only the caller has it.

use serde_json::Value;

use super::fields::{Include, Metadata, RawFormat, RawText, RawToolChoice, ResponsesFields};
use super::response::{
    ChosenTool, FunctionTool, ReasoningConfig, ResponseEcho, TextConfig, TextFormat,
};
use super::tables;
use crate::request::options::{RawOptions, within};
use crate::request::output_format::RawConstraints;
use crate::request::support;
use crate::request::tools::{RawChoice, function_name};
use crate::request::{
    ChatRequest, GenerationOptions, JsonText, Message, OutputConstraint, OutputFormat,
    ReasoningEffort, RequestError, Role, Tool, ToolChoice, UnknownFields, parse_fields, value,
};

/// OpenAI's own limits, in characters.
const LONGEST_METADATA_NAME: usize = 64;
const LONGEST_METADATA_VALUE: usize = 512;

/// A request as it was sent: without the conversation that it continues.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponsesRequest {
    /// The messages are those of this request alone, without its instructions.
    pub chat: ChatRequest,
    pub echo: ResponseEcho,
}

/// A request with the conversation that it continues.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// The messages are those of the whole prompt.
    pub chat: ChatRequest,
    /// What to store before the answer: the messages of this request. Empty if the request does
    /// not want its answer stored.
    pub added: Vec<Message>,
    pub echo: ResponseEcho,
}

impl ResponsesRequest {
    /// The response whose conversation this request continues.
    pub fn previous_response_id(&self) -> Option<&str> {
        self.echo.previous_response_id.as_deref()
    }

    /// Whether a later request may continue from the answer.
    pub fn store(&self) -> bool {
        self.echo.store
    }

    /// Puts the instructions first, then `earlier`, then the messages of this request. The
    /// instructions of earlier requests are not in `earlier`, as the API has it: whoever changes
    /// them does not send the old ones along.
    pub fn with_history(self, earlier: Vec<Message>) -> Turn {
        let Self { mut chat, echo } = self;
        let new = std::mem::take(&mut chat.messages);
        let added = match echo.store {
            true => new.clone(),
            false => Vec::new(),
        };
        let instructions = echo.instructions.as_ref();
        chat.messages = instructions
            .map(|text| Message::new(Role::System, text.as_str()))
            .into_iter()
            .chain(earlier)
            .chain(new)
            .collect();
        Turn { chat, added, echo }
    }
}

/// Parses and checks a body.
pub fn parse(body: &[u8], unknown: UnknownFields) -> Result<ResponsesRequest, RequestError> {
    let mut fields: ResponsesFields = parse_fields(body)?;
    support::check(&fields.others, &tables::BODY, "", unknown)?;
    let mut options = fields.options(unknown)?;
    let (format, constraint) = match fields.text.take() {
        Some(text) => text.check(unknown)?,
        None => (TextFormat::Text, None),
    };
    let input = fields
        .input
        .take()
        .ok_or_else(|| RequestError::missing("input"))?;
    let messages = input.check(unknown)?;
    let (tools, described) = fields.tools(unknown)?;
    let tool_choice = match fields.tool_choice.take() {
        Some(choice) => choice.check(&tools, unknown)?,
        None => ToolChoice::default(),
    };
    tool_choice.check_with(constraint.as_ref())?;
    options.constraint = constraint;
    let reasoning_effort = fields.reasoning_effort(unknown)?;
    if let Some(include) = &fields.include {
        include.check()?;
    }
    let template_arguments = fields.chat_template_kwargs.take();
    if let Some(arguments) = &template_arguments
        && !arguments.is_object()
    {
        let problem = format_args!("must be an object");
        return Err(RequestError::invalid("chat_template_kwargs", problem));
    }
    let model = value::model(fields.model.take())?;
    let parallel_tool_calls = fields.parallel_tool_calls.unwrap_or(true);
    let echo = ResponseEcho {
        text: TextConfig { format },
        reasoning: ReasoningConfig::new(reasoning_effort),
        tools: described,
        tool_choice: ChosenTool::from(&tool_choice),
        parallel_tool_calls,
        ..fields.echo(&options)?
    };
    Ok(ResponsesRequest {
        chat: ChatRequest {
            model,
            messages,
            tools,
            tool_choice,
            parallel_tool_calls,
            reasoning_effort,
            template_arguments,
            options,
        },
        echo,
    })
}

impl ResponsesFields {
    /// Everything but the format of the answer.
    fn options(&mut self, unknown: UnknownFields) -> Result<GenerationOptions, RequestError> {
        if let Some(options) = self.stream_options.take() {
            support::check(&options.others, &[], "stream_options.", unknown)?;
            if options.include_obfuscation == Some(true) {
                return Err(RequestError::no_effect(
                    "stream_options.include_obfuscation",
                    "padding of events",
                    "leave it out or send `false`",
                ));
            }
        }
        let positive = 1..=i64::from(u32::MAX);
        RawOptions {
            max_tokens: within("max_output_tokens", self.max_output_tokens, &positive)?,
            max_completion_tokens: None,
            min_tokens: None,
            ignore_eos: None,
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            seed: self.seed,
            n: None,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            stop: self.stop.take(),
            stream: self.stream,
            stream_options: None,
            user: self.user.clone(),
            conversation_id: self.conversation_id.take(),
            cache_salt: self.cache_salt.take(),
            logit_bias: self.logit_bias.take(),
            stop_token_ids: self.stop_token_ids.take(),
            constraints: RawConstraints::default(),
            nvext: self.nvext.take(),
        }
        .check(unknown)
    }

    /// The tools, for the prompt and for the answer.
    fn tools(
        &mut self,
        unknown: UnknownFields,
    ) -> Result<(Vec<Tool>, Vec<FunctionTool>), RequestError> {
        let raw = self.tools.take().map_or_else(Vec::new, |tools| tools.0);
        let mut tools: Vec<Tool> = Vec::with_capacity(raw.len());
        let mut described = Vec::with_capacity(raw.len());
        for (index, tool) in raw.into_iter().enumerate() {
            let path = |field: &str| format!("tools[{index}].{field}");
            match tool.r#type.as_deref() {
                Some("function") => {}
                Some(other) => {
                    let what = format!("a tool of type `{other}`");
                    return Err(RequestError::unsupported(&path("type"), what));
                }
                None => return Err(RequestError::missing(&path("type"))),
            }
            support::check(&tool.others, &tables::TOOL, path(""), unknown)?;
            let name = function_name(tool.name, &path("name"))?;
            if tools.iter().any(|other| other.name == name) {
                let problem = format_args!("`{name}` is the name of another tool too");
                return Err(RequestError::invalid(&path("name"), problem));
            }
            let parameters = tool.parameters.as_ref();
            if parameters.is_some_and(|parameters| !parameters.is_object()) {
                let problem = format_args!("must be a JSON schema, which is an object");
                return Err(RequestError::invalid(&path("parameters"), problem));
            }
            described.push(FunctionTool {
                name: name.clone(),
                description: tool.description.clone(),
                parameters: parameters
                    .map(|parameters| as_value(parameters, &path("parameters")))
                    .transpose()?,
                strict: tool.strict,
            });
            tools.push(Tool {
                name,
                description: tool.description,
                parameters: tool.parameters,
            });
        }
        Ok((tools, described))
    }

    fn reasoning_effort(
        &mut self,
        unknown: UnknownFields,
    ) -> Result<Option<ReasoningEffort>, RequestError> {
        let Some(reasoning) = self.reasoning.take() else {
            return Ok(None);
        };
        let others = &reasoning.others;
        support::check(others, &tables::REASONING, "reasoning.", unknown)?;
        let effort = reasoning.effort.as_deref();
        effort
            .map(|effort| ReasoningEffort::check("reasoning.effort", effort))
            .transpose()
    }

    /// What the answer repeats as it was sent; tools and formats are set by the caller.
    fn echo(self, options: &GenerationOptions) -> Result<ResponseEcho, RequestError> {
        if let Some(metadata) = &self.metadata {
            metadata.check()?;
        }
        Ok(ResponseEcho {
            instructions: self.instructions,
            previous_response_id: self.previous_response_id,
            store: self.store.unwrap_or(true),
            max_output_tokens: options.max_tokens,
            max_tool_calls: None,
            temperature: self.temperature,
            top_p: self.top_p,
            top_logprobs: 0,
            text: TextConfig::default(),
            reasoning: ReasoningConfig::default(),
            tools: Vec::new(),
            tool_choice: ChosenTool::from(&ToolChoice::default()),
            parallel_tool_calls: true,
            truncation: "disabled".to_owned(),
            service_tier: "default".to_owned(),
            background: false,
            metadata: self.metadata.map(|pairs| pairs.0).unwrap_or_default(),
            user: self.user,
            safety_identifier: self.safety_identifier,
            prompt_cache_key: self.prompt_cache_key,
        })
    }
}

impl RawToolChoice {
    fn check(self, tools: &[Tool], unknown: UnknownFields) -> Result<ToolChoice, RequestError> {
        let choice = match self {
            Self::Word(word) => RawChoice::Word(word),
            Self::Named(named) => {
                let kind = named.r#type.ok_or_else(|| missing("tool_choice.type"))?;
                if kind == "function" {
                    support::check(&named.others, &[], "tool_choice.", unknown)?;
                    if named.name.is_none() {
                        return Err(missing("tool_choice.name"));
                    }
                }
                RawChoice::Named {
                    kind,
                    name: named.name,
                }
            }
        };
        choice.check(tools)
    }
}

fn missing(param: &str) -> RequestError {
    RequestError::missing(param)
}

impl RawText {
    fn check(
        self,
        unknown: UnknownFields,
    ) -> Result<(TextFormat, Option<OutputConstraint>), RequestError> {
        support::check(&self.others, &tables::TEXT, "text.", unknown)?;
        match self.format {
            Some(format) => format.check(unknown),
            None => Ok((TextFormat::Text, None)),
        }
    }
}

impl RawFormat {
    fn check(
        self,
        unknown: UnknownFields,
    ) -> Result<(TextFormat, Option<OutputConstraint>), RequestError> {
        support::check(&self.others, &[], "text.format.", unknown)?;
        match self.r#type.as_deref() {
            None => Err(missing("text.format.type")),
            Some("text") => Ok((TextFormat::Text, None)),
            Some("json_object") => {
                let constraint = OutputConstraint {
                    format: OutputFormat::JsonObject,
                    param: "text.format",
                };
                Ok((TextFormat::JsonObject, Some(constraint)))
            }
            Some("json_schema") => {
                let schema = self.schema.ok_or_else(|| missing("text.format.schema"))?;
                let format = TextFormat::JsonSchema {
                    name: self.name.ok_or_else(|| missing("text.format.name"))?,
                    description: self.description,
                    schema: as_value(&schema, "text.format.schema")?,
                    strict: self.strict,
                };
                let constraint = OutputConstraint {
                    format: OutputFormat::JsonSchema(schema),
                    param: "text.format.schema",
                };
                Ok((format, Some(constraint.check()?)))
            }
            Some(other) => {
                let what = format!("a format of type `{other}`");
                Err(RequestError::unsupported("text.format.type", what))
            }
        }
    }
}

impl Include {
    /// Clients that keep their conversations themselves always ask for encrypted reasoning. Ours
    /// comes back in the clear, so they get what they need.
    fn check(&self) -> Result<(), RequestError> {
        let other = |entry: &&String| *entry != "reasoning.encrypted_content";
        match self.0.iter().enumerate().find(|(_, entry)| other(entry)) {
            None => Ok(()),
            Some((index, entry)) => Err(RequestError::unsupported(
                &format!("include[{index}]"),
                format!("`{}`", crate::request::object::name(entry)),
            )),
        }
    }
}

impl Metadata {
    fn check(&self) -> Result<(), RequestError> {
        for (name, value) in &self.0 {
            let problem = if name.chars().count() > LONGEST_METADATA_NAME {
                format!("a name is longer than {LONGEST_METADATA_NAME} characters")
            } else if value.chars().count() > LONGEST_METADATA_VALUE {
                format!("the value of `{name}` is longer than {LONGEST_METADATA_VALUE} characters")
            } else {
                continue;
            };
            return Err(RequestError::invalid("metadata", format_args!("{problem}")));
        }
        Ok(())
    }
}

/// A schema as the answer repeats it. A text may be JSON by its grammar and still hold a number or
/// a character that no reader accepts.
fn as_value(json: &JsonText, path: &str) -> Result<Value, RequestError> {
    serde_json::from_str(json.as_str())
        .map_err(|error| RequestError::invalid(path, format_args!("{error}")))
}
