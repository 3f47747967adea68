//! Why a request has no answer, in kinds that can be counted.

use std::fmt;

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Nobody could be reached at the address.
    Connect,
    /// The answer was not complete in time.
    Timeout,
    /// An answer had begun, and then no byte came for too long.
    Stalled,
    /// The server refused, with an HTTP status.
    Status,
    /// The answer broke off, or was not what a streamed answer looks like.
    BrokenStream,
    /// The server reported an error within its stream.
    ServerError,
    /// A complete answer without a count of its tokens: it cannot be measured.
    NoUsage,
}

impl FailureKind {
    pub const ALL: [Self; 7] = [
        Self::Connect,
        Self::Timeout,
        Self::Stalled,
        Self::Status,
        Self::BrokenStream,
        Self::ServerError,
        Self::NoUsage,
    ];

    /// The name in records and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Timeout => "timeout",
            Self::Stalled => "stalled",
            Self::Status => "status",
            Self::BrokenStream => "broken_stream",
            Self::ServerError => "server_error",
            Self::NoUsage => "no_usage",
        }
    }
}

/// One failure, as it is recorded and shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[ts(optional_fields)]
pub struct Failure {
    /// The name of a kind; there may be more of them one day.
    #[ts(type = "string")]
    pub kind: FailureKind,
    /// The HTTP status, if the server refused with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The server's own words where it had any.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        if let Some(status) = self.status {
            write!(f, " {status}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            message: message.into(),
        }
    }

    pub fn refused(status: u16, message: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Status,
            status: Some(status),
            message: message.into(),
        }
    }

    /// Whether the same request may succeed later just as it is: the server is away or full.
    pub fn is_passing(&self) -> bool {
        self.kind == FailureKind::Connect || matches!(self.status, Some(429 | 502 | 503 | 504))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_one_spelling() {
        for kind in FailureKind::ALL {
            let json = serde_json::to_value(kind).unwrap();
            assert_eq!(json, kind.name());
        }
    }

    #[test]
    fn a_refusal_is_shown_with_its_status() {
        let shown = Failure::refused(401, "Who are you?").to_string();
        assert_eq!(shown, "status 401: Who are you?");
        let shown = Failure::new(FailureKind::Stalled, "silence").to_string();
        assert_eq!(shown, "stalled: silence");
    }

    #[test]
    fn a_server_that_is_away_or_full_is_asked_again() {
        assert!(Failure::new(FailureKind::Connect, "refused").is_passing());
        assert!(Failure::refused(503, "busy").is_passing());
        assert!(!Failure::refused(401, "who?").is_passing());
        assert!(!Failure::new(FailureKind::Stalled, "silence").is_passing());
    }
}
