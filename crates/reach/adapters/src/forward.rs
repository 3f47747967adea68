//! Requests that an engine's own server answers: the client's body, with what only the engine's
//! side knows filled in, and the answer as the engine writes it.
//!
//! The body's members are not looked into, so that tools, images and whatever comes next work as
//! the engine does them. What is ours to say is said by us, however often the client says it: the
//! model's name, the cache salt, whether the answer streams and ends with its usage.

mod answer;

use std::fmt;

use contract::{ForwardPath, ForwardRequest};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serializer as _};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

pub use answer::ForwardedAnswer;

/// Members that the client's body may have and the engine gets from us, or not at all: `nvext` is
/// for us.
const OURS: [&str; 5] = ["model", "cache_salt", "stream", "stream_options", "nvext"];

/// The body is not a JSON object.
#[derive(Debug, thiserror::Error)]
#[error("the body cannot be read")]
pub struct BodyError(#[from] serde_json::Error);

/// The body for an engine that knows the model as `model`.
pub fn body(
    request: &ForwardRequest,
    model: &str,
    cache_salt: Option<&str>,
) -> Result<Vec<u8>, BodyError> {
    let Members(members) = serde_json::from_slice(&request.body)?;
    let options = members.iter().find(|(name, _)| name == "stream_options");
    let options = options.map(|(_, options)| *options);
    let mut out = Vec::with_capacity(request.body.len() + 128);
    let mut writer = serde_json::Serializer::new(&mut out);
    let mut object = writer.serialize_map(None)?;
    let model = request.adapter.as_deref().unwrap_or(model);
    object.serialize_entry("model", model)?;
    for (name, value) in &members {
        if !OURS.contains(&name.as_str()) {
            object.serialize_entry(name, value)?;
        }
    }
    if let Some(salt) = cache_salt {
        object.serialize_entry("cache_salt", salt)?;
    }
    if request.stream {
        object.serialize_entry("stream", &true)?;
        if let Some(options) = stream_options(request.path, options) {
            object.serialize_entry("stream_options", &options)?;
        }
    }
    object.end()?;
    Ok(out)
}

/// With the usage, where an engine has to be asked for it.
fn stream_options(path: ForwardPath, asked: Option<&RawValue>) -> Option<Value> {
    let asked = asked.and_then(|asked| serde_json::from_str(asked.get()).ok());
    let mut options: Map<String, Value> = asked.unwrap_or_default();
    if matches!(
        path,
        ForwardPath::ChatCompletions | ForwardPath::Completions
    ) {
        options.insert("include_usage".to_owned(), json!(true));
    }
    (!options.is_empty()).then_some(Value::Object(options))
}

/// The members of an object in their order, repeated ones too.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        source.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests;
