//! `nvext`: the fields that are supported, and the names of the others.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::RequestError;
use super::object::{Glimpse, Shallow, name};
use super::support::UnknownFields;

/// What we read of `nvext`, and the salt that others write at the top level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// `extra_fields` asks for the worker that served the request.
    pub worker_id: bool,
    /// `extra_fields` asks for the request's timing.
    pub timing: bool,
    /// `extra_fields` asks why the request went to that worker.
    pub routing: bool,
    /// Keeps this request's cache apart from that of other salts.
    pub cache_salt: Option<String>,
}

/// `nvext`, from which we take what we know. A part of another shape than the one we expect is a
/// part we do not know.
#[derive(Debug)]
pub(crate) struct RawExtensions {
    pub(crate) extensions: Extensions,
    /// The first part that we do not know.
    unknown: Option<String>,
}

impl RawExtensions {
    pub(crate) fn check(&self, unknown: UnknownFields) -> Result<(), RequestError> {
        match (&self.unknown, unknown) {
            (Some(name), UnknownFields::Refuse) => {
                Err(RequestError::unknown(&format!("nvext.{name}")))
            }
            (Some(_), UnknownFields::Ignore) | (None, _) => Ok(()),
        }
    }
}

impl<'de> Deserialize<'de> for RawExtensions {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let mut extensions = Extensions::default();
        let mut unknown = None;
        source.deserialize_any(MemberReader(|key: &str, value: Plain| match (key, value) {
            ("extra_fields", Plain::Texts(asked)) => {
                let asks = |name: &str| asked.iter().any(|field| field == name);
                extensions.worker_id = asks("worker_id");
                extensions.timing = asks("timing");
                extensions.routing = asks("routing");
            }
            ("cache_salt", Plain::Text(salt)) => {
                extensions.cache_salt = Some(salt).filter(|salt| !salt.is_empty());
            }
            _ => {
                unknown.get_or_insert_with(|| name(key));
            }
        }))?;
        Ok(Self {
            extensions,
            unknown,
        })
    }
}

/// Names that `extra_fields` may hold; a list of more is longer than any that makes sense.
const MAX_EXTRA_FIELDS: usize = 64;

/// A value that is text, a list of texts, or nothing of interest.
#[derive(Debug)]
enum Plain {
    Text(String),
    Texts(Vec<String>),
    Other,
}

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(MemberReader(|_: &str, _: Plain| {}))
    }
}

/// Reads any value, hands the members of an object to `F`, and keeps texts.
struct MemberReader<F>(F);

impl<'de, F: FnMut(&str, Plain)> Visitor<'de> for MemberReader<F> {
    type Value = Plain;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Plain, E> {
        Ok(Plain::Text(text.to_owned()))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Plain, E> {
        Ok(Plain::Other)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Plain, E> {
        Ok(Plain::Other)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Plain, E> {
        Ok(Plain::Other)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Plain, E> {
        Ok(Plain::Other)
    }

    fn visit_unit<E: Error>(self) -> Result<Plain, E> {
        Ok(Plain::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Plain, A::Error> {
        let mut texts = Vec::new();
        while let Some(Shallow(text)) = list.next_element()? {
            texts.extend(text.filter(|_| texts.len() < MAX_EXTRA_FIELDS));
        }
        Ok(Plain::Texts(texts))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Plain, A::Error> {
        while let Some(key) = members.next_key::<String>()? {
            match key.as_str() {
                "extra_fields" | "cache_salt" => self.0(&key, members.next_value()?),
                _ if members.next_value::<Glimpse>()? == Glimpse::Null => {}
                _ => self.0(&key, Plain::Other),
            }
        }
        Ok(Plain::Other)
    }
}
