//! Whether an engine serves the model that the frontend serves: its name, its tokenizer, its chat
//! template.
//!
//! Prompts are sent as token ids of our tokenizer. An engine with another vocabulary would answer
//! them with nonsense, and nobody would notice why; so it does not join. One that splits rare texts
//! differently, or has another template, answers well, but what is forwarded to it becomes other tokens than the router expects, which
//! costs hits and is worth a warning. What an engine does not tell is not held against it.

use bytes::Bytes;
use contract::TokenId;
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use crate::figures::About;
use crate::http::{HttpError, Limits};
use crate::probe::{MOST_BYTES, Probe};
use crate::settings::EngineSettings;

/// Two vocabularies make different tokens of it, and two programs that read one vocabulary the same.
const PLAIN_TEXT: &str = "The quick brown fox jumps over the lazy dog.";

/// Words, numbers, white space, several scripts and an emoji, on which programs that read one
/// vocabulary may differ.
pub(crate) const SAMPLE_TEXT: &str =
    "Homing 2024: naïve café, 東京 12345.67\n\n    def f(x):\n\treturn x ** 2  # 🚀 don't";

/// A conversation that every chat template takes, as `messages` of a request.
pub const SAMPLE_MESSAGES: &str = r#"[{"role":"user","content":"Which city is this?"},{"role":"assistant","content":"Paris."},{"role":"user","content":"And in 1889?"}]"#;

/// Where engines tokenise a text (POST). Not every engine has it.
const TOKENIZE: &str = "/tokenize";

/// Why an engine does not serve the frontend's model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Disagreement {
    #[error("it does not serve the model {asked:?} but {served}: see model= in --upstream")]
    Model { asked: String, served: String },
    #[error(
        "its tokenizer is another one: it makes {engine} tokens of a text of which --model-path makes {ours}"
    )]
    Tokenizer { engine: usize, ours: usize },
    #[error(
        "its tokenizer is another one: token {at} of a text is {engine} there and {ours} with --model-path"
    )]
    Token {
        at: usize,
        engine: TokenId,
        ours: TokenId,
    },
}

/// What an engine makes of the sample conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Template {
    Same,
    Differs,
    Unknown,
}

#[derive(Deserialize)]
struct Tokenized {
    tokens: Vec<TokenId>,
}

/// The model's name at the engine.
pub(crate) fn model_name(
    named: Option<&str>,
    settings: &EngineSettings,
    about: &About,
) -> Result<String, Disagreement> {
    let served: Vec<&str> = about
        .model
        .iter()
        .chain(&about.adapters)
        .map(String::as_str)
        .collect();
    match named {
        Some(asked) if !served.is_empty() && !served.contains(&asked) => Err(Disagreement::Model {
            asked: asked.to_owned(),
            served: served.join(", "),
        }),
        Some(asked) => Ok(asked.to_owned()),
        None if served.contains(&settings.model.as_str()) => Ok(settings.model.to_string()),
        // The engine's own name for its model; its adapters have names of their own.
        None => Ok(about
            .model
            .clone()
            .unwrap_or_else(|| settings.model.to_string())),
    }
}

impl Probe {
    /// Whether the engine's vocabulary is ours. An engine that does not tokenise for others agrees.
    pub(crate) async fn check_vocabulary(
        &self,
        model: &str,
        settings: &EngineSettings,
    ) -> Result<(), Disagreement> {
        self.compare_tokens(model, PLAIN_TEXT, settings).await
    }

    /// Whether it also makes the same tokens of texts that are less plain.
    pub(crate) async fn check_tokenizer(
        &self,
        model: &str,
        settings: &EngineSettings,
    ) -> Result<(), Disagreement> {
        self.compare_tokens(model, SAMPLE_TEXT, settings).await
    }

    async fn compare_tokens(
        &self,
        model: &str,
        text: &str,
        settings: &EngineSettings,
    ) -> Result<(), Disagreement> {
        // llama.cpp's server calls the text `content`.
        let body = json!({
            "model": model, "prompt": text, "content": text, "add_special_tokens": false,
        });
        match self.tokenized(&body).await {
            Some(engine) => compare(&engine, &settings.tokenize.tokens(text)),
            None => Ok(()),
        }
    }

    /// Whether the engine's own server renders conversations as we do.
    pub(crate) async fn check_template(&self, model: &str, settings: &EngineSettings) -> Template {
        let Some(ours) = &settings.sample_prompt else {
            return Template::Unknown;
        };
        let messages: serde_json::Value =
            serde_json::from_str(SAMPLE_MESSAGES).expect("the sample is JSON");
        let body = json!({ "model": model, "messages": messages, "add_generation_prompt": true });
        match self.tokenized(&body).await {
            Some(engine) if engine == *ours => Template::Same,
            Some(_) => Template::Differs,
            None => Template::Unknown,
        }
    }

    /// Whether the server tokenises a text for others.
    pub(crate) async fn tokenizes(&self, model: &str) -> bool {
        let body = json!({ "model": model, "prompt": "a", "content": "a" });
        self.tokenized(&body).await.is_some()
    }

    async fn tokenized(&self, body: &serde_json::Value) -> Option<Vec<TokenId>> {
        let body = serde_json::to_vec(body).expect("values can be written");
        let (status, answer) = self.post(TOKENIZE, body).await.ok()?;
        if status != StatusCode::OK {
            return None;
        }
        let tokenized: Option<Tokenized> = serde_json::from_slice(&answer).ok();
        tokenized.map(|tokenized| tokenized.tokens)
    }

    async fn post(&self, path: &str, body: Vec<u8>) -> Result<(StatusCode, Bytes), HttpError> {
        let limits = Limits {
            time: self.patience,
            bytes: MOST_BYTES,
        };
        self.server
            .ask(http::Method::POST, path, body, limits)
            .await
    }
}

fn compare(engine: &[TokenId], ours: &[TokenId]) -> Result<(), Disagreement> {
    let differing = engine
        .iter()
        .zip(ours)
        .position(|(left, right)| left != right);
    match differing {
        Some(at) => Err(Disagreement::Token {
            at,
            engine: engine[at],
            ours: ours[at],
        }),
        None if engine.len() != ours.len() => Err(Disagreement::Tokenizer {
            engine: engine.len(),
            ours: ours.len(),
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_compared_one_by_one() {
        assert_eq!(compare(&[1, 2], &[1, 2]), Ok(()));
        let token = compare(&[1, 2, 3], &[1, 5]).unwrap_err();
        assert_eq!(
            token.to_string(),
            "its tokenizer is another one: token 1 of a text is 2 there and 5 with --model-path"
        );
        assert_eq!(
            compare(&[1, 2, 3], &[1, 2]),
            Err(Disagreement::Tokenizer { engine: 3, ours: 2 })
        );
    }

    #[test]
    fn the_sample_is_a_conversation() {
        let messages: serde_json::Value = serde_json::from_str(SAMPLE_MESSAGES).unwrap();
        assert_eq!(messages.as_array().unwrap().len(), 3);
    }
}
