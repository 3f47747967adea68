//! Dynamo's bytes: what is sent to its workers and what comes from them.
//!
//! Every decoder here is a function from bytes to a value or a [`DecodeError`]. None of them
//! panics, waits, or reserves memory because of a length field: what a peer announces costs
//! nothing until it has been sent.
//!
//! | module | what travels |
//! |---|---|
//! | [`request`] | a request over TCP and its acknowledgement, on the connection that we open |
//! | [`two_part`] | the frames of both directions: a header and a body |
//! | [`control`] | headers: who asks, where to answer, how an answer begins and is cancelled |
//! | [`engine`] | bodies: the request in tokens, the engine's output |
//! | [`event`] | cache events, as published over ZeroMQ and NATS |
//! | [`query`] | everything that a worker holds, to repair a gap |
//!
//! The formats are those of Dynamo 1.1 to 1.6. Their authors do not document them as stable;
//! unknown fields are skipped.

pub mod control;
pub mod engine;
pub mod event;
pub mod query;
pub mod request;
pub mod two_part;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why bytes are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("{what} of {size} bytes is larger than {limit}")]
    TooLarge {
        what: &'static str,
        size: u64,
        limit: usize,
    },
    #[error("{what} cannot be read: {detail}")]
    Malformed { what: &'static str, detail: String },
}

impl DecodeError {
    pub(crate) fn malformed(what: &'static str, detail: impl ToString) -> Self {
        Self::Malformed {
            what,
            detail: detail.to_string(),
        }
    }
}

/// How bodies are written. An endpoint says which it wants; those that do not say want JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codec {
    #[default]
    Json,
    Msgpack,
}

impl Codec {
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "msgpack" => Some(Self::Msgpack),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Msgpack => "msgpack",
        }
    }

    pub(crate) fn encode<T: Serialize>(self, value: &T) -> Vec<u8> {
        // Plain structs of numbers, strings and lists: neither format can refuse them.
        match self {
            Self::Json => serde_json::to_vec(value).expect("plain data is JSON"),
            Self::Msgpack => rmp_serde::to_vec_named(value).expect("plain data is msgpack"),
        }
    }

    pub(crate) fn decode<T: DeserializeOwned>(
        self,
        what: &'static str,
        bytes: &[u8],
    ) -> Result<T, DecodeError> {
        match self {
            Self::Json => {
                serde_json::from_slice(bytes).map_err(|error| DecodeError::malformed(what, error))
            }
            Self::Msgpack => {
                rmp_serde::from_slice(bytes).map_err(|error| DecodeError::malformed(what, error))
            }
        }
    }
}
