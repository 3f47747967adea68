//! The names under which requests are counted and traced.

use contract::ForwardPath;

/// Which endpoint a request came through; a label of `dynamo_frontend_requests_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Chat,
    Completions,
    Responses,
    Messages,
    Embeddings,
    Rerank,
    Tokenize,
    Detokenize,
}

impl Endpoint {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Chat => "chat_completions",
            Self::Completions => "completions",
            Self::Responses => "responses",
            Self::Messages => "anthropic_messages",
            Self::Embeddings => "embeddings",
            Self::Rerank => "rerank",
            Self::Tokenize => "tokenize",
            Self::Detokenize => "detokenize",
        }
    }

    /// The endpoint of this path, perhaps behind a prefix by which a gateway knows the pool.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        const ALL: [Endpoint; 8] = [
            Endpoint::Chat,
            Endpoint::Completions,
            Endpoint::Responses,
            Endpoint::Messages,
            Endpoint::Embeddings,
            Endpoint::Rerank,
            Endpoint::Tokenize,
            Endpoint::Detokenize,
        ];
        ALL.into_iter()
            .find(|endpoint| path.ends_with(endpoint.engine_path().as_str()))
    }

    /// The endpoint of an engine's own server that answers the same.
    pub(crate) fn engine_path(self) -> ForwardPath {
        match self {
            Self::Chat => ForwardPath::ChatCompletions,
            Self::Completions => ForwardPath::Completions,
            Self::Responses => ForwardPath::Responses,
            Self::Messages => ForwardPath::Messages,
            Self::Embeddings => ForwardPath::Embeddings,
            Self::Rerank => ForwardPath::Rerank,
            Self::Tokenize => ForwardPath::Tokenize,
            Self::Detokenize => ForwardPath::Detokenize,
        }
    }
}

/// The closed set of labels under which failures are counted: Dynamo's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorType {
    Validation,
    NotFound,
    Overload,
    Unavailable,
    Cancelled,
    Internal,
    NotImplemented,
}

impl ErrorType {
    /// Why a request ended without a word: its client left, unless something of ours broke.
    pub(crate) fn of_unfinished() -> Self {
        match std::thread::panicking() {
            true => Self::Internal,
            false => Self::Cancelled,
        }
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Validation => "validation",
            Self::NotFound => "not_found",
            Self::Overload => "overload",
            Self::Unavailable => "unavailable",
            Self::Cancelled => "cancelled",
            Self::Internal => "internal",
            Self::NotImplemented => "not_implemented",
        }
    }
}
