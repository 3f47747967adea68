//! Messages and their blocks, reduced to our messages as they are read.
//!
//! Anthropic puts thoughts, calls and results beside text into one list of blocks. Chat templates
//! know messages instead: results are messages of their own, and calls and thoughts are parts of
//! the assistant's message. Several texts of one message are joined by line breaks, as the parts
//! of a chat message are.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::problems::Problems;
use super::tables;
use crate::request::MAX_MESSAGES;
use crate::request::list::{Gather, TextOr, bound, read_list};
use crate::request::object::{name, object};
use crate::request::tools::{MAX_CALLS, function_name};
use crate::{JsonText, Message, RequestError, Role, ToolCall};

/// What the model reads before the text of a result that its sender marked as an error: templates
/// have no other place for the mark.
const ERROR_MARK: &str = "Error: ";

/// `messages`, translated.
#[derive(Debug, Default)]
pub(super) struct Messages {
    pub(super) all: Vec<Message>,
    /// How many the body has.
    pub(super) count: usize,
    /// Whether an assistant's message is the last one.
    pub(super) ends_with_assistant: bool,
    pub(super) problems: Problems,
}

object! {
    RawMessage, "a message object" {
        role: String,
        content: TextOr<Blocks>,
    }
}

object! {
    /// A block of any type.
    RawBlock, "a content block object" {
        r#type: String,
        text: String,
        thinking: String,
        id: String,
        name: String,
        input: JsonText,
        tool_use_id: String,
        content: TextOr<Texts>,
        is_error: bool,
    }
}

object! {
    RawText, "a text block object" {
        r#type: String,
        text: String,
    }
}

/// The blocks of one message, sorted.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    count: usize,
    text: Option<String>,
    thinking: Option<String>,
    calls: Vec<ToolCall>,
    results: Vec<ToolResult>,
    /// The first block that only an assistant's message may have.
    assistants: Option<usize>,
    /// The first block that only a user's message may have.
    users: Option<usize>,
    problems: Problems,
}

#[derive(Debug)]
struct ToolResult {
    call: String,
    content: String,
}

/// A list of text blocks, joined by line breaks.
#[derive(Debug, Default)]
pub(super) struct Texts {
    text: Option<String>,
    count: usize,
    problems: Problems,
}

impl Gather for Messages {
    type Element = RawMessage;

    const ELEMENTS: &'static str = "messages";

    fn push<E: Error>(&mut self, message: RawMessage) -> Result<(), E> {
        bound(self.count, MAX_MESSAGES, Self::ELEMENTS)?;
        let index = self.count;
        self.count += 1;
        let mut problems = Problems::default();
        problems.add_others(&message.others, &tables::MESSAGE);
        if let Err(error) = self.add(message.role, message.content, &mut problems) {
            problems.add(error);
        }
        self.problems
            .absorb(problems, format_args!("messages[{index}]"));
        Ok(())
    }
}

impl Messages {
    /// Paths are relative to the message.
    fn add(
        &mut self,
        role: Option<String>,
        content: Option<TextOr<Blocks>>,
        problems: &mut Problems,
    ) -> Result<(), RequestError> {
        let role = match role.as_deref() {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some("system") => Role::System,
            Some(other) => {
                let problem =
                    format_args!("`{}` is not one of user, assistant, system", name(other));
                return Err(RequestError::invalid("role", problem));
            }
            None => return Err(RequestError::missing("role")),
        };
        self.ends_with_assistant = role == Role::Assistant;
        let blocks = match content {
            None => return Err(RequestError::missing("content")),
            Some(TextOr::Text(text)) => {
                self.all.push(Message::new(role, text));
                return Ok(());
            }
            Some(TextOr::List(blocks)) if blocks.count == 0 => {
                return Err(RequestError::empty(
                    "content",
                    "must hold at least one block",
                ));
            }
            Some(TextOr::List(blocks)) => *blocks,
        };
        let foreign = match role {
            Role::Assistant => blocks.users.map(|index| (index, "user")),
            Role::User => blocks.assistants.map(|index| (index, "assistant")),
            Role::System | Role::Developer | Role::Tool | Role::Function => {
                let first = blocks.users.into_iter().chain(blocks.assistants).min();
                first.map(|index| (index, "user or assistant"))
            }
        };
        problems.absorb(blocks.problems, format_args!("content"));
        if let Some((index, owner)) = foreign {
            let path = format!("content[{index}].type");
            let problem = format_args!("only a message of role {owner} has such a block");
            return Err(RequestError::invalid(&path, problem));
        }
        let answered = !blocks.results.is_empty();
        let results = blocks.results.into_iter().map(|result| Message {
            tool_call_id: Some(result.call),
            ..Message::new(Role::Tool, result.content)
        });
        self.all.extend(results);
        let text = blocks.text.unwrap_or_default();
        if !answered || !text.is_empty() {
            self.all.push(Message {
                tool_calls: blocks.calls,
                reasoning: blocks.thinking,
                ..Message::new(role, text)
            });
        }
        Ok(())
    }
}

impl Gather for Blocks {
    type Element = RawBlock;

    const ELEMENTS: &'static str = "content blocks";

    fn push<E: Error>(&mut self, block: RawBlock) -> Result<(), E> {
        let index = self.count;
        self.count += 1;
        let mut problems = Problems::default();
        if let Err(error) = self.add(block, index, &mut problems) {
            problems.add(error);
        }
        self.problems.absorb(problems, format_args!("[{index}]"));
        match self.calls.len().max(self.results.len()) > MAX_CALLS {
            true => Err(E::custom(format_args!(
                "more than {MAX_CALLS} tool calls or results"
            ))),
            false => Ok(()),
        }
    }
}

impl Blocks {
    /// Takes out of `block` what its type has. Paths are relative to the block.
    fn add(
        &mut self,
        mut block: RawBlock,
        index: usize,
        problems: &mut Problems,
    ) -> Result<(), RequestError> {
        let required = |field: &str| RequestError::missing(field);
        let kind = block.r#type.take().ok_or_else(|| required("type"))?;
        let fields: &[_] = match kind.as_str() {
            "text" => {
                let text = block.text.take().ok_or_else(|| required("text"))?;
                join(&mut self.text, text);
                &tables::TEXT
            }
            "thinking" => {
                self.assistants.get_or_insert(index);
                let text = block.thinking.take().ok_or_else(|| required("thinking"))?;
                // A client that was not shown the thought sends it back without a text.
                if !text.is_empty() {
                    join(&mut self.thinking, text);
                }
                &tables::THINKING
            }
            "redacted_thinking" => {
                self.assistants.get_or_insert(index);
                &tables::REDACTED_THINKING
            }
            "tool_use" => {
                self.assistants.get_or_insert(index);
                let id = block.id.take().ok_or_else(|| required("id"))?;
                let name = function_name(block.name.take(), "name")?;
                let arguments = block.input.take().ok_or_else(|| required("input"))?;
                if !arguments.is_object() {
                    let problem = format_args!("must be an object");
                    return Err(RequestError::invalid("input", problem));
                }
                self.calls.push(ToolCall {
                    id: Some(id),
                    name,
                    arguments,
                });
                &tables::TOOL_USE
            }
            "tool_result" => {
                self.users.get_or_insert(index);
                let call = block.tool_use_id.take();
                let call = call.ok_or_else(|| required("tool_use_id"))?;
                let mut content = match block.content.take() {
                    Some(content) => content.into_text(problems, "content"),
                    None => String::new(),
                };
                if block.is_error.take() == Some(true) {
                    content.insert_str(0, ERROR_MARK);
                }
                self.results.push(ToolResult { call, content });
                &tables::TOOL_RESULT
            }
            other => return Err(unsupported_block(other)),
        };
        problems.add_others(&block.others, fields);
        if let Some(field) = block.left_over() {
            problems.add_unknown(field);
        }
        Ok(())
    }
}

impl RawBlock {
    /// A field that the block's type does not have.
    fn left_over(&self) -> Option<&'static str> {
        [
            ("text", self.text.is_some()),
            ("thinking", self.thinking.is_some()),
            ("id", self.id.is_some()),
            ("name", self.name.is_some()),
            ("input", self.input.is_some()),
            ("tool_use_id", self.tool_use_id.is_some()),
            ("content", self.content.is_some()),
            ("is_error", self.is_error.is_some()),
        ]
        .into_iter()
        .find_map(|(field, is_there)| is_there.then_some(field))
    }
}

impl TextOr<Texts> {
    /// The text; problems go to `problems`, under `path`.
    pub(super) fn into_text(self, problems: &mut Problems, path: &str) -> String {
        match self {
            Self::Text(text) => text,
            Self::List(texts) => {
                problems.absorb(texts.problems, format_args!("{path}"));
                texts.text.unwrap_or_default()
            }
        }
    }
}

impl Gather for Texts {
    type Element = RawText;

    const ELEMENTS: &'static str = "text blocks";

    fn push<E: Error>(&mut self, block: RawText) -> Result<(), E> {
        let index = self.count;
        self.count += 1;
        let mut problems = Problems::default();
        problems.add_others(&block.others, &tables::TEXT);
        match (block.r#type.as_deref(), block.text) {
            (Some("text"), Some(text)) => join(&mut self.text, text),
            (Some("text"), None) => problems.add(RequestError::missing("text")),
            (Some(other), _) => problems.add(unsupported_block(other)),
            (None, _) => problems.add(RequestError::missing("type")),
        }
        self.problems.absorb(problems, format_args!("[{index}]"));
        Ok(())
    }
}

fn unsupported_block(kind: &str) -> RequestError {
    RequestError::unsupported("type", format!("a block of type `{}`", name(kind)))
}

fn join(all: &mut Option<String>, text: String) {
    match all {
        None => *all = Some(text),
        Some(all) => {
            all.push('\n');
            all.push_str(&text);
        }
    }
}

impl<'de> Deserialize<'de> for Messages {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        read_list(source)
    }
}
