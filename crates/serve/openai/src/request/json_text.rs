//! JSON that is passed on as it was written.
//!
//! Schemas and arguments go into prompts, where the order of their members matters, and into
//! grammars. Kept as text they stay what the client wrote and cost one allocation.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Deeper values than any schema has; those who read the text may recurse.
const DEEPEST: usize = 64;

/// The text of one JSON value, nested no deeper than [`DEEPEST`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonText(Box<str>);

/// Not JSON, or nested too deeply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonTextError(String);

impl JsonText {
    /// Checks a text that came inside a string.
    pub fn parse(text: &str) -> Result<Self, JsonTextError> {
        let failed = |error: serde_json::Error| JsonTextError(error.to_string());
        let raw: &RawValue = serde_json::from_str(text).map_err(failed)?;
        Self::new(raw.get())
    }

    fn new(text: &str) -> Result<Self, JsonTextError> {
        match depth(text) > DEEPEST {
            true => Err(JsonTextError(format!(
                "nested deeper than {DEEPEST} levels"
            ))),
            false => Ok(Self(text.into())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_object(&self) -> bool {
        self.0.starts_with('{')
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(source)?;
        Self::new(raw.get()).map_err(D::Error::custom)
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, target: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue =
            serde_json::from_str(&self.0).map_err(<S::Error as serde::ser::Error>::custom)?;
        raw.serialize(target)
    }
}

/// How many lists and objects of a JSON text are open at once, at most.
fn depth(text: &str) -> usize {
    let (mut open, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'[' | b'{') => {
                open += 1;
                deepest = deepest.max(open);
            }
            (false, b']' | b'}') => open = open.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_as_it_was_written() {
        let text = r#"{"b": [1, {"a": "]}\"["}], "a":null}"#;
        let json: JsonText = serde_json::from_str(text).unwrap();
        assert_eq!(json.as_str(), text);
        assert_eq!(serde_json::to_string(&json).unwrap(), text);
        assert!(json.is_object());
        assert_eq!(depth(text), 3);
        assert_eq!(JsonText::parse(" [1] ").unwrap().as_str(), "[1]");
        assert!(JsonText::parse("{\"a\":").is_err());
        assert!(JsonText::parse("1 2").is_err());
    }

    #[test]
    fn a_deep_text_is_refused_without_recursion() {
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        let error = serde_json::from_str::<JsonText>(&deep).unwrap_err();
        assert!(error.to_string().contains("deeper"), "{error}");
        let fits = "[".repeat(DEEPEST) + &"]".repeat(DEEPEST);
        assert!(serde_json::from_str::<JsonText>(&fits).is_ok());
    }
}
