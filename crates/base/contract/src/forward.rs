//! Requests that an engine's own server answers, in the client's words and in its own.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// An endpoint (POST) that an engine's own server may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ForwardPath {
    #[serde(rename = "/v1/chat/completions")]
    ChatCompletions,
    #[serde(rename = "/v1/completions")]
    Completions,
    #[serde(rename = "/v1/responses")]
    Responses,
    #[serde(rename = "/v1/messages")]
    Messages,
    #[serde(rename = "/v1/embeddings")]
    Embeddings,
    #[serde(rename = "/v1/rerank")]
    Rerank,
    #[serde(rename = "/tokenize")]
    Tokenize,
    #[serde(rename = "/detokenize")]
    Detokenize,
}

impl ForwardPath {
    pub const ALL: [Self; 8] = [
        Self::ChatCompletions,
        Self::Completions,
        Self::Responses,
        Self::Messages,
        Self::Embeddings,
        Self::Rerank,
        Self::Tokenize,
        Self::Detokenize,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
            Self::Embeddings => "/v1/embeddings",
            Self::Rerank => "/v1/rerank",
            Self::Tokenize => "/tokenize",
            Self::Detokenize => "/detokenize",
        }
    }

    /// Whether a model generates what is answered, so that its prompt is worth routing by.
    pub const fn generates(self) -> bool {
        matches!(
            self,
            Self::ChatCompletions | Self::Completions | Self::Responses | Self::Messages
        )
    }
}

/// A request in the client's own words, for an engine that has a server of the same API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardRequest {
    pub path: ForwardPath,
    /// The name by which the client calls the model; answers use it too.
    pub model: String,
    /// The client's body: a JSON object. Whoever sends it fills in what only it knows: the model's
    /// name at the engine, the cache salt.
    pub body: Bytes,
    /// The answer is a stream of events.
    pub stream: bool,
    /// The client asked for the usage at the end of its stream. Engines are always asked.
    pub include_usage: bool,
    /// An adapter (LoRA) that the engine knows under this name, in place of the model itself.
    pub adapter: Option<String>,
}

/// A part of an answer as an engine's server wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub bytes: Vec<u8>,
    /// Tokens that it stands for; the last part makes the sum right.
    pub tokens: u32,
}
