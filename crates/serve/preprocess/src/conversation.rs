//! A chat request as templates see it: messages, tools and variables as values.
//!
//! What a client wrote as JSON is parsed here, before anybody looks for the names of special
//! tokens in it: `"\u003c|im_end|>"` is such a name only afterwards.

use std::borrow::Cow;

use minijinja::Value;
use openai::{ChatRequest, JsonText, Message, ReasoningEffort, Role, Tool, ToolCall};
use serde_json::Value as Json;

use crate::error::PrepareError;
use crate::guard::Guard;

/// Variables of templates that a client does not set by name.
const RESERVED: [&str; 6] = [
    "messages",
    "tools",
    "add_generation_prompt",
    "bos_token",
    "eos_token",
    "date_string",
];

/// The parts of a chat request that a template renders.
#[derive(Debug)]
pub(crate) struct Conversation<'a> {
    messages: Vec<Turn<'a>>,
    tools: Vec<Json>,
    /// Variables by name.
    variables: Vec<(String, Json)>,
}

/// How what a client wrote goes into a template: as it is, or under a guard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written<'g>(pub(crate) Option<&'g Guard<'g>>);

impl Written<'_> {
    fn text<'t>(self, text: &'t str) -> Cow<'t, str> {
        match self.0 {
            Some(guard) => guard.protect(text),
            None => Cow::Borrowed(text),
        }
    }
}

#[derive(Debug)]
struct Turn<'a> {
    message: &'a Message,
    calls: Vec<Call<'a>>,
}

#[derive(Debug)]
struct Call<'a> {
    call: &'a ToolCall,
    arguments: Json,
}

impl<'a> Conversation<'a> {
    pub(crate) fn new(request: &'a ChatRequest) -> Result<Self, PrepareError> {
        let mut variables = Vec::new();
        if let Some(effort) = request.reasoning_effort {
            let thinks = effort != ReasoningEffort::None;
            variables.push(("enable_thinking".to_owned(), Json::Bool(thinks)));
            let effort = Json::String(effort.as_str().to_owned());
            variables.push(("reasoning_effort".to_owned(), effort));
        }
        if let Some(arguments) = &request.template_arguments
            && let Json::Object(arguments) = parsed(arguments, "chat_template_kwargs")?
        {
            if let Some(name) = arguments.keys().find(|name| RESERVED.contains(&&***name)) {
                return Err(PrepareError::Invalid {
                    param: format!("chat_template_kwargs.{name}"),
                    message: "the request itself sets it".to_owned(),
                });
            }
            variables.extend(arguments);
        }
        let tools = request.tools.iter().enumerate();
        let tools = tools.map(|(index, tool)| tool_value(index, tool));
        Ok(Self {
            messages: turns(&request.messages)?,
            tools: tools.collect::<Result<_, _>>()?,
            variables,
        })
    }

    /// Messages alone.
    pub(crate) fn of_messages(messages: &'a [Message]) -> Result<Self, PrepareError> {
        Ok(Self {
            messages: turns(messages)?,
            tools: Vec::new(),
            variables: Vec::new(),
        })
    }

    /// With one tool that does nothing, for finding out what a template makes of tools.
    pub(crate) fn probe(messages: &'a [Message], name: &str) -> Result<Self, PrepareError> {
        let tool = Tool {
            name: name.to_owned(),
            description: Some(String::new()),
            parameters: JsonText::parse(r#"{"type":"object","properties":{}}"#).ok(),
        };
        Ok(Self {
            tools: vec![tool_value(0, &tool)?],
            ..Self::of_messages(messages)?
        })
    }

    /// Everything that the client wrote.
    pub(crate) fn texts(&self) -> Vec<&str> {
        let mut texts = Vec::new();
        for Turn { message, calls } in &self.messages {
            texts.push(&*message.content);
            let optional = [&message.name, &message.tool_call_id, &message.reasoning];
            texts.extend(optional.into_iter().flatten().map(String::as_str));
            for Call { call, arguments } in calls {
                texts.extend(call.id.as_deref());
                texts.push(&call.name);
                gather(arguments, &mut texts);
            }
        }
        self.tools.iter().for_each(|tool| gather(tool, &mut texts));
        for (name, value) in &self.variables {
            texts.push(name);
            gather(value, &mut texts);
        }
        texts
    }

    pub(crate) fn messages(&self) -> usize {
        self.messages.len()
    }

    /// The messages as templates have them, each text passed through `written`.
    pub(crate) fn message_values(&self, written: Written<'_>) -> Vec<Value> {
        let value = |turn: &Turn<'_>| turn.value(written);
        self.messages.iter().map(value).collect()
    }

    /// `None` without tools: templates ask whether there are any.
    pub(crate) fn tool_values(&self, written: Written<'_>) -> Value {
        match self.tools.is_empty() {
            true => Value::from(()),
            false => self
                .tools
                .iter()
                .map(|tool| json_value(tool, written))
                .collect(),
        }
    }

    pub(crate) fn variables(
        &self,
        written: Written<'_>,
    ) -> impl Iterator<Item = (Cow<'_, str>, Value)> {
        self.variables
            .iter()
            .map(move |(name, value)| (Cow::Borrowed(&**name), json_value(value, written)))
    }
}

impl Turn<'_> {
    /// The content is copied once, into a shared string.
    fn value(&self, written: Written<'_>) -> Value {
        let Self { message, calls } = self;
        let text = |text: &str| Value::from(&*written.text(text));
        let mut fields = vec![
            ("role", Value::from(message.role.as_str())),
            ("content", text(&message.content)),
        ];
        let optional = [
            ("name", &message.name),
            ("tool_call_id", &message.tool_call_id),
            ("reasoning_content", &message.reasoning),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                fields.push((name, text(value)));
            }
        }
        if !calls.is_empty() {
            let call = |Call { call, arguments }: &Call<'_>| {
                let function = Value::from_iter([
                    ("name", text(&call.name)),
                    ("arguments", json_value(arguments, written)),
                ]);
                let id = call.id.as_deref().map_or_else(|| Value::from(()), text);
                Value::from_iter([
                    ("id", id),
                    ("type", Value::from("function")),
                    ("function", function),
                ])
            };
            fields.push(("tool_calls", calls.iter().map(call).collect()));
        }
        Value::from_iter(fields)
    }
}

fn turns(messages: &[Message]) -> Result<Vec<Turn<'_>>, PrepareError> {
    let mut turns = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        let calls = message.tool_calls.iter().enumerate();
        let calls = calls.map(|(at, call)| call_of(index, at, call));
        let calls = calls.collect::<Result<_, _>>()?;
        turns.push(Turn { message, calls });
    }
    Ok(turns)
}

fn call_of(message: usize, at: usize, call: &ToolCall) -> Result<Call<'_>, PrepareError> {
    let path = || format!("messages[{message}].tool_calls[{at}].function.arguments");
    Ok(Call {
        call,
        arguments: parse(&call.arguments, path)?,
    })
}

fn tool_value(index: usize, tool: &Tool) -> Result<Json, PrepareError> {
    let mut function = serde_json::Map::new();
    function.insert("name".to_owned(), Json::String(tool.name.clone()));
    if let Some(description) = &tool.description {
        let description = Json::String(description.clone());
        function.insert("description".to_owned(), description);
    }
    if let Some(parameters) = &tool.parameters {
        let path = || format!("tools[{index}].function.parameters");
        function.insert("parameters".to_owned(), parse(parameters, path)?);
    }
    let mut value = serde_json::Map::new();
    value.insert("type".to_owned(), Json::String("function".to_owned()));
    value.insert("function".to_owned(), Json::Object(function));
    Ok(Json::Object(value))
}

fn parsed(json: &JsonText, param: &str) -> Result<Json, PrepareError> {
    parse(json, || param.to_owned())
}

/// Only names twice in one object, or a number that nobody can hold, are still wrong.
fn parse(json: &JsonText, param: impl FnOnce() -> String) -> Result<Json, PrepareError> {
    serde_json::from_str(json.as_str()).map_err(|error| PrepareError::Invalid {
        param: param(),
        message: error.to_string(),
    })
}

fn gather<'t>(value: &'t Json, texts: &mut Vec<&'t str>) {
    match value {
        Json::String(text) => texts.push(text),
        Json::Array(values) => values.iter().for_each(|value| gather(value, texts)),
        Json::Object(members) => {
            for (name, value) in members {
                texts.push(name);
                gather(value, texts);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// JSON as templates see it. Its depth is bounded where it was read.
fn json_value(value: &Json, written: Written<'_>) -> Value {
    match value {
        Json::String(text) => Value::from(&*written.text(text)),
        Json::Array(values) => values
            .iter()
            .map(|value| json_value(value, written))
            .collect(),
        Json::Object(members) => members
            .iter()
            .map(|(name, value)| (written.text(name).into_owned(), json_value(value, written)))
            .collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) => Value::from_serialize(value),
    }
}

/// For finding out what a template does.
pub(crate) fn short_turns() -> [Message; 3] {
    [Role::User, Role::Assistant, Role::User].map(|role| Message::new(role, "a"))
}
