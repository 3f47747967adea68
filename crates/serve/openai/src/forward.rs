//! What is read of a request that an engine's own server answers.
//!
//! Such a request need not be understood: it goes on as it came. What it is about is read as far as
//! that is possible, because routing wants to know the prompt.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::messages::{self, stable_system};
use crate::request::{RequestError, parse_fields};
use crate::response::ErrorBody;
use crate::responses::event::Event;
use crate::sse;

/// What has to be known of a request to pass it on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwardable {
    pub model: Option<String>,
    pub stream: bool,
    /// Asked for at the end of a stream.
    pub include_usage: bool,
    /// Keeps this request's cache apart from that of other salts.
    pub cache_salt: Option<String>,
    /// `nvext.extra_fields` asks for what only we can say.
    pub extra_fields: bool,
}

#[derive(Deserialize)]
struct Fields {
    model: Option<String>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    cache_salt: Option<String>,
    nvext: Option<Nvext>,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Deserialize)]
struct Nvext {
    cache_salt: Option<String>,
    extra_fields: Option<Vec<Value>>,
}

/// Reads a body of any endpoint. Fields that nobody has to know here may be anything.
pub fn read(body: &[u8]) -> Result<Forwardable, RequestError> {
    let fields: Fields = parse_fields(body)?;
    let nvext = fields.nvext;
    let asked = nvext.as_ref().and_then(|nvext| nvext.extra_fields.as_ref());
    let extra_fields = asked.is_some_and(|asked| !asked.is_empty());
    let salt = fields
        .cache_salt
        .or_else(|| nvext.and_then(|nvext| nvext.cache_salt));
    let options = fields.stream_options;
    Ok(Forwardable {
        model: fields.model,
        stream: fields.stream.unwrap_or(false),
        include_usage: options.is_some_and(|options| options.include_usage == Some(true)),
        cache_salt: salt.filter(|salt| !salt.is_empty()),
        extra_fields,
    })
}

/// The fields of all APIs that make up a prompt.
const PROMPT: [&str; 10] = [
    "model",
    "messages",
    "prompt",
    "input",
    "instructions",
    "system",
    "max_tokens",
    "chat_template_kwargs",
    "reasoning_effort",
    "tools",
];

/// Kinds of content parts that are no text.
const MEDIA: [&str; 12] = [
    "image_url",
    "image",
    "image_pil",
    "image_embeds",
    "input_image",
    "input_audio",
    "audio_url",
    "video_url",
    "file",
    "input_file",
    "document",
    "search_result",
];

/// Bodies that ask for the beginning of the same prompt, the best first: without what does not
/// belong to a prompt, without anything from the first picture on, and then without tools.
pub fn gists(body: &[u8]) -> Vec<Vec<u8>> {
    let Ok(mut body) = serde_json::from_slice::<Map<String, Value>>(body) else {
        return Vec::new();
    };
    body.retain(|name, _| PROMPT.contains(&name.as_str()));
    for turns in ["messages", "input"] {
        if let Some(Value::Array(turns)) = body.get_mut(turns) {
            cut_at_media(turns);
        }
    }
    let mut gists = vec![body.clone()];
    if body.shift_remove("tools").is_some() {
        gists.push(body);
    }
    let bytes = |body: &Map<String, Value>| serde_json::to_vec(body).unwrap_or_default();
    gists.iter().map(bytes).collect()
}

fn cut_at_media(turns: &mut Vec<Value>) {
    let is_media = |part: &Value| {
        let kind = part.get("type").and_then(Value::as_str);
        kind.is_some_and(|kind| MEDIA.contains(&kind))
    };
    for index in 0..turns.len() {
        let Some(Value::Array(parts)) = turns[index].get_mut("content") else {
            continue;
        };
        if let Some(first) = parts.iter().position(is_media) {
            parts.truncate(first);
            turns.truncate(index + 1);
            return;
        }
    }
}

/// A body of the Messages API without the lines at the head of its system prompt that change with
/// every request; `None` if it has none.
pub fn with_stable_system(body: &[u8]) -> Option<Vec<u8>> {
    if !messages::may_have_changing_lines(body) {
        return None;
    }
    let mut body: Map<String, Value> = serde_json::from_slice(body).ok()?;
    let mut system = body.get_mut("system")?;
    if let Value::Array(blocks) = system {
        system = blocks.first_mut()?.get_mut("text")?;
    }
    let text = system.as_str()?;
    let stable = stable_system(text);
    if stable.len() == text.len() {
        return None;
    }
    *system = Value::String(stable.into_owned());
    serde_json::to_vec(&body).ok()
}

/// Ends a stream of chat or completions that broke off.
pub fn chat_error(out: &mut Vec<u8>, error: &ErrorBody) {
    sse::error_event(out, error);
    sse::done(out);
}

/// Ends a stream of the Responses API that broke off. The number of the events before is not known.
pub fn responses_error(out: &mut Vec<u8>, error: &ErrorBody) {
    Event::error(0, error).write(out);
}

/// Ends a stream of the Messages API that broke off.
pub fn messages_error(out: &mut Vec<u8>, status: u16, error: &ErrorBody) {
    messages::error_event(out, status, error);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bytes(value: &Value) -> Vec<u8> {
        serde_json::to_vec(value).unwrap()
    }

    #[test]
    fn only_what_passing_on_needs_is_read() {
        let body = json!({
            "model": "m", "messages": [{"content": [{"type": "hologram"}]}], "stream": true,
            "stream_options": {"include_usage": true, "more": 1}, "cache_salt": "a",
            "nvext": {"extra_fields": ["worker_id"], "more": {}}, "temperature": "hot",
        });
        let expected = Forwardable {
            model: Some("m".to_owned()),
            stream: true,
            include_usage: true,
            cache_salt: Some("a".to_owned()),
            extra_fields: true,
        };
        assert_eq!(read(&bytes(&body)).unwrap(), expected);
        let plain = read(br#"{"model": "m", "cache_salt": ""}"#).unwrap();
        assert_eq!(plain.cache_salt, None);
        assert!(!plain.stream && !plain.include_usage && !plain.extra_fields);
        assert_eq!(read(b"{}").unwrap(), Forwardable::default());
        assert!(read(br#"{"model": "a", "model": "b"}"#).is_err());
        assert!(read(b"[1]").is_err());
    }

    #[test]
    fn a_prompt_is_known_up_to_its_first_picture() {
        let body = json!({
            "model": "m", "audio": {}, "tools": [{"type": "web_search"}],
            "messages": [
                {"role": "system", "content": "s"},
                {"role": "user", "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": "data:"}},
                    {"type": "text", "text": "at it"},
                ]},
                {"role": "assistant", "content": "yes"},
            ],
        });
        let gists: Vec<Value> = gists(&bytes(&body))
            .iter()
            .map(|gist| serde_json::from_slice(gist).unwrap())
            .collect();
        let messages = json!([
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "look"}]},
        ]);
        let with_tools =
            json!({"model": "m", "tools": [{"type": "web_search"}], "messages": messages});
        assert_eq!(
            gists,
            [with_tools, json!({"model": "m", "messages": messages})]
        );
    }

    #[test]
    fn changing_lines_leave_the_body_and_nothing_else_does() {
        let header = "x-anthropic-billing-header: a\n";
        let body = |system: Value| json!({"model": "m", "system": system, "x": [1]});
        let text = bytes(&body(json!(format!("{header}You are"))));
        let stable = with_stable_system(&text).unwrap();
        assert_eq!(stable, bytes(&body(json!("You are"))));
        let block = |text: &str| json!([{"type": "text", "text": text, "cache_control": {}}]);
        let blocks = bytes(&body(block(&format!("{header}You are"))));
        let stable = with_stable_system(&blocks).unwrap();
        assert_eq!(stable, bytes(&body(block("You are"))));
        assert_eq!(with_stable_system(&bytes(&body(json!("You are")))), None);
        assert_eq!(with_stable_system(b"{}"), None);
    }
}
