//! What an answer must look like.

use std::sync::Arc;

/// The only answers that a model may give. Engines compile it; here it is what the request said.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Grammar {
    /// JSON that fits this schema, which is JSON too.
    JsonSchema(Arc<str>),
    Regex(Arc<str>),
    /// In llguidance's dialect of Lark.
    Lark(Arc<str>),
}

impl Grammar {
    pub fn source(&self) -> &str {
        match self {
            Self::JsonSchema(source) | Self::Regex(source) | Self::Lark(source) => source,
        }
    }
}
