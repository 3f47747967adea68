//! What an engine reports about itself: how busy it is, and how it is configured.
//!
//! The values that every engine has in common, and how to read them from Prometheus' text
//! format and from JSON. Which names an engine uses is in the engine's own file. A value that
//! is missing stays unknown.

use contract::ForwardPath;
use serde_json::Value;

use crate::drafts::DraftReport;

/// How busy an engine is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    pub running: u32,
    pub waiting: u32,
    /// Share of the KV memory in use, 0 to 1.
    pub usage: f64,
    /// Of an engine that drafts, and reports it.
    pub drafts: Option<DraftReport>,
}

/// How an engine is configured, as far as it reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The first model that it serves.
    pub model: Option<String>,
    /// The others: its adapters.
    pub adapters: Vec<String>,
    pub max_context_tokens: Option<u32>,
    pub block_size: Option<u32>,
    pub blocks: Option<u32>,
    pub slots: Option<u32>,
}

impl About {
    /// Fills what is unknown in `self` from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            model: self.model.or(other.model),
            adapters: [self.adapters, other.adapters].concat(),
            max_context_tokens: self.max_context_tokens.or(other.max_context_tokens),
            block_size: self.block_size.or(other.block_size),
            blocks: self.blocks.or(other.blocks),
            slots: self.slots.or(other.slots),
        }
    }
}

/// Reads `/v1/models`, which every engine has.
pub fn about_from_models(body: &str) -> About {
    let list: Option<Value> = serde_json::from_str(body).ok();
    let models = list.as_ref().and_then(|list| list.get("data")?.as_array());
    let models = models.map_or(&[][..], Vec::as_slice);
    let id = |model: &Value| Some(model.get("id")?.as_str()?.to_owned());
    let first = models.first();
    About {
        model: first.and_then(id),
        adapters: models.iter().skip(1).filter_map(id).collect(),
        max_context_tokens: number(first, "max_model_len"),
        ..About::default()
    }
}

/// Reads the endpoints from an OpenAPI description; `None` if it is none.
pub fn described_paths(body: &str) -> Option<Vec<ForwardPath>> {
    let description: Value = serde_json::from_str(body).ok()?;
    let paths = description.get("paths")?.as_object()?;
    let served = |path: &ForwardPath| {
        let operations = paths.get(path.as_str());
        operations.is_some_and(|operations| operations.get("post").is_some())
    };
    Some(ForwardPath::ALL.into_iter().filter(served).collect())
}

/// A field of a JSON object that is a number above 0.
pub(crate) fn number(object: Option<&Value>, name: &str) -> Option<u32> {
    let number = object?.get(name)?.as_u64()?;
    u32::try_from(number).ok().filter(|number| *number > 0)
}

/// The sum over all series of a Prometheus metric; `None` if there is none.
pub fn sum(body: &str, metric: &str) -> Option<f64> {
    let values = series(body, metric).filter_map(value);
    values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
}

/// The lines of a Prometheus metric, without its name.
pub(crate) fn series<'a>(body: &'a str, metric: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = body
        .lines()
        .filter_map(move |line| line.strip_prefix(metric));
    lines.filter(|rest| rest.starts_with(['{', ' ']))
}

/// The value of a line of [`series`].
pub(crate) fn value(line: &str) -> Option<f64> {
    let value = line.rsplit_once('}').map_or(line, |(_, value)| value);
    value.split_whitespace().next()?.parse().ok()
}

/// The value of a label in a line of [`series`].
pub(crate) fn label<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("{name}=\""))?;
    rest.split('"').next()
}

/// A gauge as a count; 0 if it is negative or not a number.
pub(crate) fn count(value: f64) -> u32 {
    if value.is_finite() {
        value.max(0.0) as u32
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_described() {
        let body = r#"{"paths":{"/v1/chat/completions":{"post":{}},"/v1/responses":{"get":{}},"/tokenize":{"post":{}}}}"#;
        let expected = [ForwardPath::ChatCompletions, ForwardPath::Tokenize];
        assert_eq!(described_paths(body).unwrap(), expected);
        assert_eq!(described_paths("<html>"), None);
        assert_eq!(described_paths("{}"), None);
    }

    #[test]
    fn models_are_listed_everywhere() {
        let body = r#"{"object":"list","data":[{"id":"org/m","max_model_len":8192}]}"#;
        let about = about_from_models(body);
        assert_eq!(about.model.as_deref(), Some("org/m"));
        assert_eq!(about.max_context_tokens, Some(8192));
        let body = r#"{"data":[{"id":"m"},{"id":"sql","parent":"m"},{"no":"id"}]}"#;
        assert_eq!(about_from_models(body).adapters, ["sql"]);
    }
}
