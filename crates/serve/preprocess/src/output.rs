//! What an answer may look like: the grammar of a chat answer with tools, or of a constrained one.
//!
//! A model calls tools in a format of its own ([`ToolFormat`]). Where a call is required, or begins
//! with a token that only calls begin with, the grammar holds the model to its format and to the
//! tools' own schemas: small models write calls that do not parse otherwise. Text beside calls
//! stays free.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

use answer_parser::{ReasoningFormat, ToolFormat};
use contract::{Grammar, TokenId};
use openai::{ChatRequest, OutputConstraint, OutputFormat, Tool, ToolChoice};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::error::PrepareError;

/// Sets of tools that are remembered: an agent sends the same ones with every turn.
const REMEMBERED: usize = 64;

/// Longer sets of tools are not remembered.
const LONGEST_KEY: usize = 256 << 10;

/// How a model writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    pub(crate) tools: Option<ToolFormat>,
    pub(crate) reasoning: Option<ReasoningFormat>,
}

/// What the grammar of an answer depends on.
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a ChatRequest,
    pub(crate) manner: Manner,
    /// The prompt ends inside the reasoning.
    pub(crate) begins_in_reasoning: bool,
}

/// Grammars of earlier requests by what they were made of.
#[derive(Debug, Default)]
pub(crate) struct Grammars(Mutex<VecDeque<(String, Option<Grammar>)>>);

impl Grammars {
    /// The grammar of a chat answer; `None` where it may be anything. `special` finds the token
    /// of a name that stands for no text.
    pub(crate) fn of_chat(
        &self,
        asked: &Asked<'_>,
        special: impl Fn(&str) -> Option<TokenId>,
    ) -> Result<Option<Grammar>, PrepareError> {
        let request = asked.request;
        let calls = !request.tools.is_empty() && request.tool_choice != ToolChoice::None;
        let constraint = request.options.constraint.as_ref();
        if !calls && constraint.is_none() {
            return Ok(None);
        }
        let key = key(asked, calls);
        self.remember(key, || {
            let think = Thinking::new(asked, &special);
            if !calls {
                return constraint
                    .map(|constraint| after_thinking(constraint, &think))
                    .transpose();
            }
            let tools = check_tools(&request.tools)?;
            let writer = Writer {
                special: &special,
                think,
            };
            let format = asked.manner.tools.unwrap_or(ToolFormat::Hermes);
            writer.grammar(format, &tools, request)
        })
    }

    /// The grammar of a completion.
    pub(crate) fn of_completion(
        &self,
        constraint: &OutputConstraint,
    ) -> Result<Grammar, PrepareError> {
        let key = format!("{:?}", constraint.format);
        let grammar = self.remember(key, || plain(constraint).map(Some))?;
        grammar.ok_or_else(|| PrepareError::Invalid {
            param: constraint.param.to_owned(),
            message: "no grammar".to_owned(),
        })
    }

    fn remember(
        &self,
        key: String,
        make: impl FnOnce() -> Result<Option<Grammar>, PrepareError>,
    ) -> Result<Option<Grammar>, PrepareError> {
        {
            let mut known = self.0.lock();
            if let Some(place) = known.iter().position(|(made_of, _)| *made_of == key)
                && let Some(entry) = known.remove(place)
            {
                let grammar = entry.1.clone();
                known.push_front(entry);
                return Ok(grammar);
            }
        }
        let grammar = make()?;
        if key.len() > LONGEST_KEY {
            return Ok(grammar);
        }
        let mut known = self.0.lock();
        known.truncate(REMEMBERED - 1);
        known.push_front((key, grammar.clone()));
        Ok(grammar)
    }
}

fn key(asked: &Asked<'_>, calls: bool) -> String {
    let request = asked.request;
    let mut key = format!(
        "{:?} {:?} {} {:?}",
        asked.manner,
        asked.begins_in_reasoning,
        request.parallel_tool_calls,
        request.options.constraint.as_ref().map(|one| &one.format),
    );
    if calls {
        let _ = write!(key, "{:?}", request.tool_choice);
        for tool in &request.tools {
            let parameters = tool.parameters.as_ref().map_or("", |json| json.as_str());
            let _ = write!(key, "\0{}\0{parameters}", tool.name);
        }
    }
    key
}

/// A constraint alone. Errors name the field that it came in.
fn plain(constraint: &OutputConstraint) -> Result<Grammar, PrepareError> {
    let grammar = match &constraint.format {
        OutputFormat::JsonObject => Grammar::JsonSchema(r#"{"type":"object"}"#.into()),
        OutputFormat::JsonSchema(schema) => Grammar::JsonSchema(schema.as_str().into()),
        OutputFormat::Regex(regex) => Grammar::Regex(regex.as_str().into()),
        OutputFormat::Grammar(lark) => Grammar::Lark(lark.as_str().into()),
        OutputFormat::Choice(texts) => {
            let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            Grammar::Lark(format!("start: {}", texts.join(" | ")).into())
        }
    };
    checked(&grammar, || constraint.param.to_owned())?;
    Ok(grammar)
}

fn checked(grammar: &Grammar, param: impl FnOnce() -> String) -> Result<(), PrepareError> {
    grammar::check(grammar).map_err(|error| PrepareError::Invalid {
        param: param(),
        message: error.to_string(),
    })
}

/// The constraint holds from where the model has thought.
fn after_thinking(
    constraint: &OutputConstraint,
    think: &Thinking,
) -> Result<Grammar, PrepareError> {
    let plain = plain(constraint)?;
    let document = match (&think.rule, &plain) {
        (None, _) | (Some(_), Grammar::Lark(_)) => return Ok(plain),
        (Some(_), Grammar::JsonSchema(schema)) => format!("document: {}", json_rule(schema)),
        (Some(_), Grammar::Regex(regex)) => {
            let regex = llguidance_regex(regex);
            format!("document: DOCUMENT\nDOCUMENT: {regex}")
        }
    };
    let rules = think.rules();
    let lark = format!("start: think document\n{document}\n{rules}");
    Ok(Grammar::Lark(lark.into()))
}

/// A regular expression between slashes.
fn llguidance_regex(regex: &str) -> String {
    format!("/{}/", regex.replace('/', "\\/"))
}

/// Tools with their schemas parsed and checked.
fn check_tools(tools: &[Tool]) -> Result<Vec<Callable<'_>>, PrepareError> {
    let check = |(index, tool): (usize, &'_ Tool)| -> Result<String, PrepareError> {
        let schema = tool
            .parameters
            .as_ref()
            .map_or(r#"{"type":"object"}"#, |schema| schema.as_str());
        let grammar = Grammar::JsonSchema(schema.into());
        checked(&grammar, || format!("tools[{index}].function.parameters"))?;
        Ok(json_rule(schema))
    };
    tools
        .iter()
        .enumerate()
        .map(|(index, tool)| {
            let arguments = check((index, tool))?;
            Ok(Callable { tool, arguments })
        })
        .collect()
}

struct Callable<'a> {
    tool: &'a Tool,
    /// The rule of its arguments.
    arguments: String,
}

/// JSON of this schema, as a rule's right side.
fn json_rule(schema: &str) -> String {
    let schema: Value = serde_json::from_str(schema).unwrap_or_else(|_| json!({}));
    let mut schema = match schema.is_object() {
        true => schema,
        false => json!({ "allOf": [schema] }),
    };
    grammar::json_options().apply_to(&mut schema);
    format!("%json {schema}")
}

/// A text as Lark has it.
fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// What a model that thinks writes before its answer.
struct Thinking {
    /// The right side of the rule `think`.
    rule: Option<String>,
}

impl Thinking {
    fn new(asked: &Asked<'_>, special: &impl Fn(&str) -> Option<TokenId>) -> Self {
        let rule = asked.manner.reasoning.map(|ReasoningFormat::Think| {
            let marker = |name: &str| marker(name, special);
            let close = marker("</think>");
            match asked.begins_in_reasoning {
                true => format!("THOUGHT? {close} SPACE?"),
                false => format!("({} THOUGHT? {close} SPACE?)?", marker("<think>")),
            }
        });
        Self { rule }
    }

    fn rules(&self) -> String {
        match &self.rule {
            None => String::new(),
            Some(rule) => {
                format!("think: {rule}\nTHOUGHT: /(.|\\n)+/\nSPACE: /\\s+/\n")
            }
        }
    }

    /// What stands before the answer.
    fn prefix(&self) -> &'static str {
        match self.rule {
            Some(_) => "think ",
            None => "",
        }
    }
}

/// A special token by its number, or the text of a name that is none.
fn marker(name: &str, special: &impl Fn(&str) -> Option<TokenId>) -> String {
    match special(name) {
        Some(id) => format!("<[{id}]>"),
        None => quoted(name),
    }
}

struct Writer<'a, F> {
    special: &'a F,
    think: Thinking,
}

impl<F: Fn(&str) -> Option<TokenId>> Writer<'_, F> {
    /// `None` where nothing tells a call from text before it is over.
    fn grammar(
        &self,
        format: ToolFormat,
        tools: &[Callable<'_>],
        request: &ChatRequest,
    ) -> Result<Option<Grammar>, PrepareError> {
        let required = match &request.tool_choice {
            ToolChoice::Required | ToolChoice::Named(_) => true,
            ToolChoice::Auto | ToolChoice::None => false,
        };
        let callable = |tool: &&Callable<'_>| match &request.tool_choice {
            ToolChoice::Named(name) => tool.tool.name == *name,
            ToolChoice::None | ToolChoice::Auto | ToolChoice::Required => true,
        };
        let callable: Vec<&Callable<'_>> = tools.iter().filter(callable).collect();
        let one =
            !request.parallel_tool_calls || matches!(request.tool_choice, ToolChoice::Named(_));
        let Shape { calls, text, rules } = self.shape(format, &callable, one);
        let constraint = request.options.constraint.as_ref();
        let (start, more) = match (required, constraint) {
            (true, _) => (calls, String::new()),
            (false, Some(constraint)) if format == ToolFormat::Llama3 => {
                (call_or_document(&callable, constraint)?, String::new())
            }
            (false, Some(constraint)) => {
                let (rule, rules) = document(constraint)?;
                (format!("{calls} | {rule}"), rules)
            }
            (false, None) => match text {
                Some(text) => (text, String::new()),
                None => return Ok(None),
            },
        };
        let think = self.think.prefix();
        let thought = self.think.rules();
        let lark = format!("start: {think}answer\nanswer: {start}\n{rules}{more}{thought}");
        Ok(Some(Grammar::Lark(lark.into())))
    }

    fn shape(&self, format: ToolFormat, tools: &[&Callable<'_>], one: bool) -> Shape {
        let marker = |name: &str| marker(name, self.special);
        let is_special = |name: &str| (self.special)(name).is_some();
        let mut rules = String::new();
        let names: Vec<String> = (0..tools.len())
            .map(|index| format!("call{index}"))
            .collect();
        let (open, close, key) = match format {
            ToolFormat::Hermes => (
                format!("{} \"\\n\" ", marker("<tool_call>")),
                format!(" \"\\n\" {}", marker("</tool_call>")),
                "arguments",
            ),
            ToolFormat::Llama3 => (String::new(), String::new(), "parameters"),
            ToolFormat::Mistral => (String::new(), String::new(), "arguments"),
            ToolFormat::Pythonic => (String::new(), String::new(), ""),
        };
        for (index, Callable { tool, arguments }) in tools.iter().enumerate() {
            let body = match format {
                ToolFormat::Pythonic => python_call(index, tool, &mut rules),
                ToolFormat::Hermes | ToolFormat::Llama3 | ToolFormat::Mistral => {
                    let head = format!("{{\"name\": \"{}\", \"{key}\": ", tool.name);
                    format!("{} arguments{index} \"}}\"", quoted(&head))
                }
            };
            if format != ToolFormat::Pythonic {
                let _ = writeln!(rules, "arguments{index}: {arguments}");
            }
            let _ = writeln!(rules, "call{index}: {open}{body}{close}");
        }
        let _ = writeln!(rules, "call: {}", names.join(" | "));
        let many = |separator: &str| match one {
            true => "call".to_owned(),
            false => format!("call ({separator} call)*"),
        };
        let (calls, text) = match format {
            ToolFormat::Hermes => {
                let calls = many("\"\\n\"");
                // Only a token of its own tells a call from text that begins like one.
                let text = is_special("<tool_call>").then(|| format!("TEXT? ({calls})?"));
                rules.push_str("TEXT: /(.|\\n)+/\n");
                (calls, text)
            }
            ToolFormat::Llama3 => {
                let calls = many("\"; \"");
                rules.push_str("TEXT: /[^{](.|\\n)*/\n");
                let text = Some(format!("TEXT | {calls}"));
                (calls, text)
            }
            ToolFormat::Mistral => {
                let calls = format!("{} \"[\" {} \"]\"", marker("[TOOL_CALLS]"), many("\", \""));
                let text = is_special("[TOOL_CALLS]").then(|| format!("TEXT? ({calls})?"));
                rules.push_str("TEXT: /(.|\\n)+/\n");
                (calls, text)
            }
            ToolFormat::Pythonic => {
                let calls = format!("\"[\" {} \"]\"", many("\", \""));
                rules.push_str("TEXT: /[^\\[](.|\\n)*/\n");
                let text = Some(format!("TEXT | {calls}"));
                (calls, text)
            }
        };
        Shape { calls, text, rules }
    }
}

/// How calls are written, in rules.
struct Shape {
    /// One or more calls and nothing else.
    calls: String,
    /// Text, calls, or one after the other; `None` where they cannot be told apart.
    text: Option<String>,
    rules: String,
}

/// `name(first=…, second=…)`: the required parameters in the order of the schema, then others.
fn python_call(index: usize, tool: &Tool, rules: &mut String) -> String {
    let schema = tool.parameters.as_ref();
    let schema: Value = schema
        .and_then(|schema| serde_json::from_str(schema.as_str()).ok())
        .unwrap_or_else(|| json!({}));
    let required: Vec<&str> = schema["required"]
        .as_array()
        .map_or_else(Vec::new, |names| {
            names.iter().filter_map(Value::as_str).collect()
        });
    let none = serde_json::Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let (mut call, mut first) = (quoted(&format!("{}(", tool.name)), true);
    for (place, name) in required.iter().enumerate() {
        let schema = properties.get(*name).cloned().unwrap_or_else(|| json!({}));
        let rule = json_rule(&schema.to_string());
        let _ = writeln!(rules, "value{index}x{place}: {rule}");
        let separator = if first { "" } else { ", " };
        let _ = write!(
            call,
            " {} value{index}x{place}",
            quoted(&format!("{separator}{name}="))
        );
        first = false;
    }
    let optional = properties
        .iter()
        .filter(|(name, _)| !required.contains(&name.as_str()));
    for (place, (name, schema)) in optional.enumerate() {
        let rule = json_rule(&schema.to_string());
        let _ = writeln!(rules, "option{index}x{place}: {rule}");
        let separator = if first { "" } else { ", " };
        // Without required ones nobody knows which comes first, so they are left out.
        if !first {
            let name = quoted(&format!("{separator}{name}="));
            let _ = write!(call, " ({name} option{index}x{place})?");
        }
    }
    call.push_str(" \")\"");
    call
}

/// A constrained answer as an alternative to calls: the rule, and what it needs.
fn document(constraint: &OutputConstraint) -> Result<(String, String), PrepareError> {
    Ok(match plain(constraint)? {
        Grammar::JsonSchema(schema) => {
            let rule = json_rule(&schema);
            ("document".to_owned(), format!("document: {rule}\n"))
        }
        Grammar::Regex(regex) => {
            let regex = llguidance_regex(&regex);
            ("DOCUMENT".to_owned(), format!("DOCUMENT: {regex}\n"))
        }
        Grammar::Lark(_) => {
            return Err(PrepareError::Invalid {
                param: constraint.param.to_owned(),
                message: "cannot be combined with `tools`".to_owned(),
            });
        }
    })
}

/// Where a call is JSON like the document, one schema tells them apart: rules cannot, since both
/// begin alike.
fn call_or_document(
    tools: &[&Callable<'_>],
    constraint: &OutputConstraint,
) -> Result<String, PrepareError> {
    let parsed = |schema: &str| serde_json::from_str(schema).unwrap_or_else(|_| json!({}));
    let Grammar::JsonSchema(document) = plain(constraint)? else {
        return Err(PrepareError::Invalid {
            param: constraint.param.to_owned(),
            message: "cannot be combined with `tools` for this model, unless it is JSON".to_owned(),
        });
    };
    let calls = tools.iter().map(|Callable { tool, .. }| {
        let parameters = tool.parameters.as_ref();
        let parameters = parameters.map_or_else(
            || json!({ "type": "object" }),
            |schema| parsed(schema.as_str()),
        );
        json!({
            "type": "object",
            "properties": { "name": { "const": tool.name }, "parameters": parameters },
            "required": ["name", "parameters"],
            "additionalProperties": false,
        })
    });
    let alternatives: Vec<Value> = calls.chain([parsed(&document)]).collect();
    Ok(json_rule(&json!({ "anyOf": alternatives }).to_string()))
}

/// The names of the tools, for the parser of answers.
pub(crate) fn names(tools: &[Tool]) -> Arc<[String]> {
    tools.iter().map(|tool| tool.name.clone()).collect()
}
