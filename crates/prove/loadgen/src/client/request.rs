//! What is sent: the whole conversation, every time, or a prompt in tokens.

use std::sync::Arc;

use contract::TokenId;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Target;

const SESSION: HeaderName = HeaderName::from_static("x-session-id");

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    System,
    User,
    Assistant,
}

/// One message of a conversation. Its text is shared: a history is sent many times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub content: Arc<str>,
}

impl Message {
    pub fn user(content: impl Into<Arc<str>>) -> Self {
        Self::new(Role::User, content)
    }

    pub fn assistant(content: impl Into<Arc<str>>) -> Self {
        Self::new(Role::Assistant, content)
    }

    pub fn new(role: Role, content: impl Into<Arc<str>>) -> Self {
        Self {
            role,
            content: content.into(),
        }
    }
}

/// The chat request of one turn.
#[derive(Clone, Copy, Debug)]
pub struct Chat<'a> {
    pub messages: &'a [Message],
    pub max_tokens: u32,
    /// Names the conversation, the same in all its turns.
    pub session: &'a str,
    /// Of the answer's sampling; `None` leaves it to the server.
    pub seed: Option<u32>,
}

/// A completion of a prompt whose tokens are known.
#[derive(Clone, Copy, Debug)]
pub struct Completion<'a> {
    pub prompt: &'a [TokenId],
    /// How many tokens the answer is to have. A server without our extensions may send fewer.
    pub tokens: u32,
    /// Names whose request it is.
    pub session: &'a str,
}

impl Completion<'_> {
    pub(super) fn body(&self, target: &Target) -> Vec<u8> {
        let mut body = json!({
            "model": target.model,
            "prompt": self.prompt,
            "max_tokens": self.tokens,
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        if target.extensions {
            body["ignore_eos"] = json!(true);
        }
        body.to_string().into_bytes()
    }
}

impl Chat<'_> {
    pub(super) fn body(&self, target: &Target) -> Vec<u8> {
        let mut body = json!({
            "model": target.model,
            "messages": self.messages,
            "max_tokens": self.max_tokens,
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        if let Some(seed) = self.seed {
            body["seed"] = json!(seed);
        }
        if target.extensions {
            body["stream_options"]["continuous_usage_stats"] = json!(true);
            body["nvext"] = json!({ "extra_fields": ["worker_id", "timing", "routing"] });
        }
        body.to_string().into_bytes()
    }
}

/// Names the session. In a header, because Dynamo refuses a body with fields that it does not know.
/// Our names are made of letters and digits, so every one of them fits.
pub(super) fn name_session(session: &str, headers: &mut HeaderMap) {
    if let Ok(session) = HeaderValue::try_from(session) {
        headers.insert(SESSION, session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_sent_to_those_who_take_them() {
        let messages = [Message::user("hello")];
        let chat = Chat {
            messages: &messages,
            max_tokens: 7,
            session: "s-1",
            seed: None,
        };
        let mut target = Target::new("http://a", "m").unwrap();
        let body: serde_json::Value = serde_json::from_slice(&chat.body(&target)).unwrap();
        assert_eq!(
            body["nvext"]["extra_fields"],
            json!(["worker_id", "timing", "routing"])
        );
        assert_eq!(body["stream_options"]["continuous_usage_stats"], true);
        assert_eq!(
            body["messages"],
            json!([{ "role": "user", "content": "hello" }])
        );
        assert_eq!(body["stream_options"]["include_usage"], true);
        target.extensions = false;
        let plain: serde_json::Value = serde_json::from_slice(&chat.body(&target)).unwrap();
        let mut fields: Vec<_> = plain.as_object().unwrap().keys().collect();
        fields.sort();
        let known = [
            "max_tokens",
            "messages",
            "model",
            "stream",
            "stream_options",
        ];
        assert_eq!(fields, known);
        assert_eq!(plain["stream_options"], json!({ "include_usage": true }));
        let mut headers = HeaderMap::new();
        name_session(chat.session, &mut headers);
        assert_eq!(headers[SESSION], "s-1");
        let seeded = Chat {
            seed: Some(9),
            ..chat
        };
        let body: serde_json::Value = serde_json::from_slice(&seeded.body(&target)).unwrap();
        assert_eq!(body["seed"], 9);
    }

    #[test]
    fn a_prompt_in_tokens_is_answered_to_its_length_where_that_can_be_asked_for() {
        let completion = Completion {
            prompt: &[5, 6],
            tokens: 3,
            session: "s",
        };
        let mut target = Target::new("http://a", "m").unwrap();
        let body = |target: &Target| -> serde_json::Value {
            serde_json::from_slice(&completion.body(target)).unwrap()
        };
        assert_eq!(body(&target)["prompt"], json!([5, 6]));
        assert_eq!(body(&target)["ignore_eos"], true);
        target.extensions = false;
        assert_eq!(body(&target)["ignore_eos"], json!(null));
    }
}
