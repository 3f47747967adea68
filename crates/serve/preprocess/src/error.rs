//! Why a model could not be loaded, and why a request could not be prepared.

use std::path::PathBuf;
use std::string::FromUtf8Error;

use minijinja::ErrorKind;

/// Why a model's folder is of no use. Names the file.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} is not valid JSON: {reason}", path.display())]
    Json { path: PathBuf, reason: String },
    #[error("{} has no usable tokenizer: {reason}", path.display())]
    Tokenizer {
        path: PathBuf,
        reason: TokenizerFault,
    },
    #[error("the chat template in {} does not compile: {reason}", path.display())]
    Template {
        path: PathBuf,
        reason: TemplateFault,
    },
    #[error("no chat template in {}: neither tokenizer_config.json nor chat_template.jinja has one", folder.display())]
    NoTemplate { folder: PathBuf },
}

/// What is wrong with a tokenizer.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerFault {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("{0}")]
    Library(tokenizers::Error),
    #[error("its special token `{0}` is not in its vocabulary")]
    NoToken(String),
}

/// What is wrong with a chat template.
#[derive(Debug, thiserror::Error)]
pub enum TemplateFault {
    #[error("it has no chat template")]
    Missing,
    #[error(transparent)]
    NotUtf8(#[from] FromUtf8Error),
    #[error("{}", describe(.0))]
    Syntax(minijinja::Error),
}

/// What went wrong, without the file name that means nothing to a client.
pub(crate) fn describe(error: &minijinja::Error) -> String {
    match (error.detail(), error.kind()) {
        // The message of `raise_exception` speaks for itself.
        (Some(detail), ErrorKind::InvalidOperation) => detail.to_owned(),
        (Some(detail), kind) => format!("{kind}: {detail}"),
        (None, kind) => kind.to_string(),
    }
}

/// Why a well-formed request cannot be served by this model. All of them are the client's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    #[error("{}", context_message(*.prompt_tokens, *.completion_tokens, *.limit, .param))]
    ContextTooLong {
        prompt_tokens: u32,
        /// What the request asked for on top; 0 if it left that open.
        completion_tokens: u32,
        limit: u32,
        /// `messages` or `prompt`.
        param: &'static str,
    },
    /// So far beyond the limit that the tokens were not counted.
    #[error(
        "This model's maximum context length is {limit} tokens. However, your {param} resulted in \
         far more tokens than that. Please reduce the length of the {param}."
    )]
    ContextFarTooLong { limit: u32, param: &'static str },
    #[error(
        "invalid value for `{param}`: token id {id} is not below {vocabulary}, the size of the vocabulary"
    )]
    UnknownToken {
        param: String,
        id: u32,
        vocabulary: u32,
    },
    /// The template refused the conversation, usually by its own `raise_exception`.
    #[error("the chat template refused the messages: {message}")]
    Template { message: String },
    #[error("the text cannot be tokenised: {message}")]
    Encode { message: String },
    #[error("invalid value for `{param}`: {message}")]
    Invalid { param: String, message: String },
    /// This model cannot do it.
    #[error("`{param}`: {message}")]
    Unsupported {
        param: &'static str,
        message: String,
    },
}

impl PrepareError {
    /// The request's field that is at fault.
    pub fn param(&self) -> Option<&str> {
        match self {
            Self::ContextTooLong { param, .. } | Self::ContextFarTooLong { param, .. } => {
                Some(param)
            }
            Self::UnknownToken { param, .. } | Self::Invalid { param, .. } => Some(param),
            Self::Unsupported { param, .. } => Some(param),
            Self::Template { .. } => Some("messages"),
            Self::Encode { .. } => None,
        }
    }

    /// OpenAI's code, where it has one.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            Self::ContextTooLong { .. } | Self::ContextFarTooLong { .. } => {
                Some("context_length_exceeded")
            }
            Self::UnknownToken { .. } | Self::Invalid { .. } => Some("invalid_value"),
            Self::Unsupported { .. } => Some("unsupported_parameter"),
            Self::Template { .. } | Self::Encode { .. } => None,
        }
    }
}

/// In OpenAI's words: clients look for them.
fn context_message(prompt: u32, completion: u32, limit: u32, param: &str) -> String {
    if completion == 0 {
        return format!(
            "This model's maximum context length is {limit} tokens. However, your {param} \
             resulted in {prompt} tokens. Please reduce the length of the {param}."
        );
    }
    let total = u64::from(prompt) + u64::from(completion);
    format!(
        "This model's maximum context length is {limit} tokens. However, you requested {total} \
         tokens ({prompt} in the {param}, {completion} in the completion). Please reduce the \
         length of the {param} or completion."
    )
}
