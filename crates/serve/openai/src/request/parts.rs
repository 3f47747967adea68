//! Contents of nothing but text: a string, or parts whose texts are joined.

use std::fmt::Display;

use super::error::RequestError;
use super::list::TextOr;
use super::object::object;
use super::support::{self, Field, UnknownFields};

object! {
    RawPart, "a content part object" {
        r#type: String,
        text: String,
    }
}

/// The text of all parts, joined as they are read: parts that say next to nothing are many. Text may
/// be of several kinds `K`, which no content mixes.
#[derive(Debug, Default)]
pub(crate) struct Parts<K> {
    text: String,
    count: usize,
    first: Option<FirstText<K>>,
    /// A part that will not do, and its index.
    problem: Option<(usize, PartProblem)>,
}

/// The first part with text, which says what the others must be.
#[derive(Clone, Copy, Debug)]
struct FirstText<K> {
    index: usize,
    name: &'static str,
    kind: K,
}

#[derive(Debug)]
enum PartProblem {
    NoType,
    NoText,
    OtherType(String),
    UnknownField(String),
}

impl<K: Copy + PartialEq> Parts<K> {
    /// Adds the text of a part. `types` are the types of parts with text, `fields` a part's fields
    /// without an effect.
    pub(crate) fn add(&mut self, part: RawPart, types: &[(&'static str, K)], fields: &[Field]) {
        let problem = self.join(part, types, fields).err();
        // An unknown field may be let pass, and must not hide what may not.
        if let None | Some((_, PartProblem::UnknownField(_))) = self.problem {
            self.problem = problem.or(self.problem.take());
        }
    }

    fn join(
        &mut self,
        part: RawPart,
        types: &[(&'static str, K)],
        fields: &[Field],
    ) -> Result<(), (usize, PartProblem)> {
        let index = self.count;
        self.count += 1;
        let failed = |problem| Err((index, problem));
        let Some(name) = part.r#type else {
            return failed(PartProblem::NoType);
        };
        let Some(&(known, kind)) = types.iter().find(|(known, _)| *known == name) else {
            return failed(PartProblem::OtherType(name));
        };
        let first = self.first.get_or_insert(FirstText {
            index,
            name: known,
            kind,
        });
        if first.kind != kind {
            return failed(PartProblem::OtherType(name));
        }
        let Some(text) = part.text else {
            return failed(PartProblem::NoText);
        };
        if index > 0 {
            self.text.push('\n');
        }
        self.text.push_str(&text);
        let mut others = part.others.iter().map(|(name, _)| name);
        match others.find(|name| support::find(fields, name).is_none()) {
            Some(name) => failed(PartProblem::UnknownField(name.to_owned())),
            None => Ok(()),
        }
    }
}

impl<K: Copy + PartialEq> TextOr<Parts<K>> {
    pub(crate) fn is_empty_list(&self) -> bool {
        matches!(self, Self::List(parts) if parts.count == 0)
    }

    /// The text, which is of `kind`; parts are joined by line breaks, as the engines in the field do.
    pub(crate) fn check(
        self,
        kind: K,
        path: impl Display,
        unknown: UnknownFields,
    ) -> Result<String, RequestError> {
        let parts = match self {
            Self::Text(text) => return Ok(text),
            Self::List(parts) => parts,
        };
        if parts.count == 0 {
            let rule = "must hold at least one part";
            return Err(RequestError::empty(&path.to_string(), rule));
        }
        let (index, problem) = match (parts.first, parts.problem) {
            (Some(first), _) if first.kind != kind => {
                (first.index, PartProblem::OtherType(first.name.to_owned()))
            }
            (_, Some(problem)) => problem,
            (_, None) => return Ok(parts.text),
        };
        let at = |field: &str| format!("{path}[{index}].{field}");
        Err(match problem {
            PartProblem::OtherType(other) => {
                let what = format!("a part of type `{other}`");
                RequestError::unsupported(&at("type"), what)
            }
            PartProblem::NoType => RequestError::missing(&at("type")),
            PartProblem::NoText => RequestError::missing(&at("text")),
            PartProblem::UnknownField(name) => match unknown {
                UnknownFields::Refuse => RequestError::unknown(&at(&name)),
                UnknownFields::Ignore => return Ok(parts.text),
            },
        })
    }
}
