//! What becomes of fields that this server does not act on: none is ignored in silence.
//!
//! A field that changes answers is refused, unless its value asks for what happens anyway
//! (`"tools": []`, `"response_format": {"type": "text"}`). A field that changes no answer is
//! accepted. Each API lists both kinds in its `tables`, from which pages of `docs/` are written; any
//! other name is unknown, and what happens to it is the operator's choice.

#[cfg(test)]
pub(crate) mod page;

use std::fmt::Display;

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

/// Refuses what would be ignored in an object whose fields without an effect are `fields`.
/// `prefix` is the object's path, with its full stop.
pub(crate) fn check(
    others: &Others,
    fields: &[Field],
    prefix: impl Display,
    unknown: UnknownFields,
) -> Result<(), RequestError> {
    for (name, value) in others.iter() {
        let path = || format!("{prefix}{name}");
        match (find(fields, name), unknown) {
            (Some(field), _) if field.neutral.allows(value) => {}
            (Some(field), _) => {
                let instead = field.neutral.instead();
                return Err(RequestError::no_effect(&path(), field.about, &instead));
            }
            (None, UnknownFields::Ignore) => {}
            (None, UnknownFields::Refuse) => return Err(RequestError::unknown(&path())),
        }
    }
    Ok(())
}

/// Keeps the first field that is refused and the first that is unknown, so that many objects take
/// little memory until they are checked.
pub(crate) fn reduce(others: &mut Others, fields: &[Field]) {
    let (mut refused, mut unknown) = (false, false);
    others.retain(|name, value| match find(fields, name) {
        Some(field) if field.neutral.allows(value) => false,
        Some(_) => !std::mem::replace(&mut refused, true),
        None => !std::mem::replace(&mut unknown, true),
    });
}

pub(crate) fn find<'a>(fields: &'a [Field], name: &str) -> Option<&'a Field> {
    fields.iter().find(|field| field.name == name)
}
