//! `input`: a text, or items that become the messages of a conversation.
//!
//! The API splits what a model did in one turn into items: its reasoning, its text, each of its
//! calls. A prompt wants them as one message again, so items of the assistant that follow each
//! other are joined, as far as one message can hold them.

use serde::de::Error;

use super::tables;
use crate::request::list::{Gather, TextOr, bound};
use crate::request::object::object;
use crate::request::parts::{Parts, RawPart};
use crate::request::support::{self, Field};
use crate::request::tools::{arguments_object, function_name};
use crate::request::{MAX_MESSAGES, Message, RequestError, Role, ToolCall, UnknownFields};

/// `input`, where it is a list.
#[derive(Debug, Default)]
pub(super) struct Items(Vec<RawItem>);

impl Gather for Items {
    type Element = RawItem;

    const ELEMENTS: &'static str = "items";

    fn push<E: Error>(&mut self, mut item: RawItem) -> Result<(), E> {
        bound(self.0.len(), MAX_MESSAGES, Self::ELEMENTS)?;
        let kind = Kind::named(item.r#type.as_deref());
        support::reduce(&mut item.others, kind.map_or(&[], Kind::fields));
        self.0.push(item);
        Ok(())
    }
}

object! {
    /// An item of any kind that is understood.
    RawItem, "an item object" {
        r#type: String,
        role: String,
        content: TextOr<Parts<Texts>>,
        call_id: String,
        name: String,
        arguments: String,
        output: TextOr<Parts<Texts>>,
    }
}

/// The kinds of items that are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Message,
    Call,
    Output,
    Reasoning,
}

impl Kind {
    fn named(name: Option<&str>) -> Option<Self> {
        match name {
            None | Some("message") => Some(Self::Message),
            Some("function_call") => Some(Self::Call),
            Some("function_call_output") => Some(Self::Output),
            Some("reasoning") => Some(Self::Reasoning),
            Some(_) => None,
        }
    }

    fn fields(self) -> &'static [Field] {
        match self {
            Self::Message => &tables::MESSAGE,
            Self::Call | Self::Output => &tables::CALL,
            Self::Reasoning => &tables::REASONING_ITEM,
        }
    }

    /// The members of [`RawItem`] that such an item has.
    fn members(self) -> &'static [&'static str] {
        match self {
            Self::Message => &["role", "content"],
            Self::Call => &["call_id", "name", "arguments"],
            Self::Output => &["call_id", "name", "output"],
            Self::Reasoning => &["content"],
        }
    }
}

impl TextOr<Items> {
    /// The messages, at least one.
    pub(super) fn check(self, unknown: UnknownFields) -> Result<Vec<Message>, RequestError> {
        let items = match self {
            Self::Text(text) => return Ok(vec![Message::new(Role::User, text)]),
            Self::List(items) => items.0,
        };
        if items.is_empty() {
            return Err(RequestError::empty("input", "must hold at least one item"));
        }
        let mut messages = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            item.check(&format!("input[{index}]."), unknown)?
                .append_to(&mut messages);
        }
        match messages.is_empty() {
            true => Err(RequestError::empty(
                "input",
                "must hold more than reasoning without text",
            )),
            false => Ok(messages),
        }
    }
}

/// A checked item.
#[derive(Debug)]
enum Item {
    /// A message that no other item adds to: the assistant's are `Text`.
    Whole(Message),
    Text(String),
    Call(ToolCall),
    /// Empty where only another server could read it.
    Reasoning(String),
}

impl Item {
    /// Adds the item to the assistant's turn that `messages` ends with, if it is one that lacks
    /// what the item holds; otherwise begins another.
    fn append_to(self, messages: &mut Vec<Message>) {
        let turn = match messages.last_mut() {
            Some(last) if last.role == Role::Assistant => Some(last),
            _ => None,
        };
        match (self, turn) {
            (Self::Whole(message), _) => messages.push(message),
            (Self::Text(text), Some(turn)) if turn.content.is_empty() => turn.content = text,
            (Self::Text(text), _) => messages.push(Message::new(Role::Assistant, text)),
            (Self::Call(call), Some(turn)) => turn.tool_calls.push(call),
            (Self::Call(call), None) => messages.push(Message {
                tool_calls: vec![call],
                ..Message::new(Role::Assistant, "")
            }),
            (Self::Reasoning(text), _) if text.is_empty() => {}
            (Self::Reasoning(text), Some(turn))
                if turn.content.is_empty() && turn.tool_calls.is_empty() =>
            {
                let before = turn.reasoning.get_or_insert_default();
                if !before.is_empty() {
                    before.push('\n');
                }
                before.push_str(&text);
            }
            (Self::Reasoning(text), _) => messages.push(Message {
                reasoning: Some(text),
                ..Message::new(Role::Assistant, "")
            }),
        }
    }
}

impl RawItem {
    fn check(self, path: &str, unknown: UnknownFields) -> Result<Item, RequestError> {
        let at = |member: &str| format!("{path}{member}");
        let Some(kind) = Kind::named(self.r#type.as_deref()) else {
            let what = format!("an item of type `{}`", self.r#type.unwrap_or_default());
            return Err(RequestError::unsupported(&at("type"), what));
        };
        support::check(&self.others, kind.fields(), path, unknown)?;
        if let (Some(name), UnknownFields::Refuse) = (self.misplaced(kind), unknown) {
            return Err(RequestError::unknown(&at(name)));
        }
        match kind {
            Kind::Message => self.check_message(path, unknown),
            Kind::Call => {
                let arguments = self.arguments.unwrap_or_default();
                Ok(Item::Call(ToolCall {
                    id: Some(call_id(self.call_id, path)?),
                    name: function_name(self.name, &at("name"))?,
                    arguments: arguments_object(&arguments, &at("arguments"))?,
                }))
            }
            Kind::Output => {
                let Some(output) = self.output else {
                    return Err(RequestError::missing(&at("output")));
                };
                let content = output.check(Texts::Said, at("output"), unknown)?;
                Ok(Item::Whole(Message {
                    name: self.name,
                    tool_call_id: Some(call_id(self.call_id, path)?),
                    ..Message::new(Role::Tool, content)
                }))
            }
            Kind::Reasoning => match self.content {
                Some(content) if !content.is_empty_list() => content
                    .check(Texts::Thought, at("content"), unknown)
                    .map(Item::Reasoning),
                Some(_) | None => Ok(Item::Reasoning(String::new())),
            },
        }
    }

    fn check_message(self, path: &str, unknown: UnknownFields) -> Result<Item, RequestError> {
        let at = |member: &str| format!("{path}{member}");
        let role = match self.role.as_deref() {
            Some("user") => Role::User,
            Some("system") => Role::System,
            Some("developer") => Role::Developer,
            Some("assistant") => Role::Assistant,
            Some(other) => {
                let problem =
                    format_args!("`{other}` is not one of user, system, developer, assistant");
                return Err(RequestError::invalid(&at("role"), problem));
            }
            None => return Err(RequestError::missing(&at("role"))),
        };
        let Some(content) = self.content else {
            return Err(RequestError::missing(&at("content")));
        };
        let content = content.check(Texts::Said, at("content"), unknown)?;
        Ok(match role == Role::Assistant {
            true => Item::Text(content),
            false => Item::Whole(Message::new(role, content)),
        })
    }

    /// The first member that belongs to items of another kind.
    fn misplaced(&self, kind: Kind) -> Option<&'static str> {
        let present = [
            ("role", self.role.is_some()),
            ("content", self.content.is_some()),
            ("call_id", self.call_id.is_some()),
            ("name", self.name.is_some()),
            ("arguments", self.arguments.is_some()),
            ("output", self.output.is_some()),
        ];
        let other = |(name, present): &(&str, bool)| *present && !kind.members().contains(name);
        present.into_iter().find(other).map(|(name, _)| name)
    }
}

fn call_id(id: Option<String>, path: &str) -> Result<String, RequestError> {
    id.ok_or_else(|| RequestError::missing(&format!("{path}call_id")))
}

/// What kind of text a content holds. No content mixes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Texts {
    #[default]
    Said,
    Thought,
}

/// The types of parts that have text. `text` is how some clients send the reasoning of open models
/// back.
const KINDS: [(&str, Texts); 4] = [
    ("input_text", Texts::Said),
    ("output_text", Texts::Said),
    ("reasoning_text", Texts::Thought),
    ("text", Texts::Thought),
];

impl Gather for Parts<Texts> {
    type Element = RawPart;

    const ELEMENTS: &'static str = "text parts";

    fn push<E: Error>(&mut self, part: RawPart) -> Result<(), E> {
        self.add(part, &KINDS, &tables::PART);
        Ok(())
    }
}
