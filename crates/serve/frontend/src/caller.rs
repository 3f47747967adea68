//! Who sends a request and with which rights, from its headers and its key.
//!
//! With keys, a key is a tenant. Without, everyone is the same nameless tenant, and all there is
//! to tell clients apart is the session id that they choose themselves: that shares slots
//! fairly among well-behaved ones and stops nobody who sends another id with every request. The
//! router also takes it as a hint where to place a request of which it knows nothing else.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use contract::HashSeed;
use http::{HeaderMap, HeaderName, header};
use router::Identity;
use xxhash_rust::xxh3::xxh3_64;

use crate::App;
use crate::admission::Refusal;
use crate::dispatch::Urgency;
use crate::error::ApiError;
use crate::keys::{Key, KeyPermit};
use crate::metrics::key_asked;

static PRIORITY: HeaderName = HeaderName::from_static("x-request-priority");
static TIMEOUT: HeaderName = HeaderName::from_static("x-request-timeout-ms");
static API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Under which clients name their sessions: ours and the usual one first, then those of agents.
static SESSIONS: [HeaderName; 5] = [
    HeaderName::from_static("x-session-id"),
    HeaderName::from_static("x-session-affinity"),
    HeaderName::from_static("x-claude-code-session-id"),
    HeaderName::from_static("session-id"),
    HeaderName::from_static("session_id"),
];

/// Who sent a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// With how many requests it may have inside.
    key: Option<(Arc<Key>, usize)>,
    pub(crate) urgency: Urgency,
}

impl Caller {
    /// Reads the headers. Fails if keys are asked for and none is there, or if a header makes
    /// no sense.
    pub(crate) fn of(app: &App, headers: &HeaderMap) -> Result<Self, ApiError> {
        let sent = credential(headers);
        let sent = sent.as_deref();
        let key = match &app.api_keys {
            None => None,
            Some(keys) => {
                let found = keys.find(sent, app.admission.limit());
                Some(found.ok_or_else(ApiError::unauthorized)?)
            }
        };
        let holder = key.as_ref().map(|(key, _)| &**key);
        let asked: i32 = number(headers, &PRIORITY)?.unwrap_or(0);
        let timeout: Option<u64> = number(headers, &TIMEOUT)?;
        let patience = [timeout.map(Duration::from_millis), app.max_queue_wait];
        let urgency = Urgency {
            identity: identity(headers, holder),
            priority: asked.min(highest(holder, app.trust_priority)),
            patience: patience.into_iter().flatten().min(),
        };
        Ok(Self { key, urgency })
    }

    /// A place among the key's requests, if there is a key.
    pub(crate) fn enter(&self, app: &App) -> Result<Option<KeyPermit>, Refusal> {
        let Some((key, limit)) = &self.key else {
            return Ok(None);
        };
        let entered = key.enter(*limit);
        key_asked(&app.shared.registry, &key.name, entered.is_ok());
        match entered {
            Ok(permit) => Ok(Some(permit)),
            Err(limit) => Err(Refusal::KeyFull { limit }),
        }
    }

    /// Whose conversations the caller may continue: those of its key.
    pub(crate) fn owner(&self) -> &str {
        self.key.as_ref().map_or("", |(key, _)| &key.name)
    }

    /// A request's seed, apart from others' where the key asks for it.
    pub(crate) fn seed(&self, request: HashSeed) -> HashSeed {
        match &self.key {
            Some((key, _)) => key.seed(request),
            None => request,
        }
    }
}

/// The key as `Authorization` has it. Clients of Anthropic's API send `x-api-key`.
pub(crate) fn credential(headers: &HeaderMap) -> Option<Cow<'_, [u8]>> {
    if let Some(sent) = headers.get(header::AUTHORIZATION) {
        return Some(Cow::Borrowed(sent.as_bytes()));
    }
    let key = headers.get(&API_KEY)?;
    Some(Cow::Owned([b"Bearer ", key.as_bytes()].concat()))
}

/// How far a caller may go.
fn highest(key: Option<&Key>, trusted: bool) -> i32 {
    let stated = key.and_then(|key| key.priority);
    stated.unwrap_or(if trusted { i32::MAX } else { 0 })
}

/// A tenant's or a session's number by its name. 0 is for those without.
pub(crate) fn named(name: &[u8]) -> u64 {
    xxh3_64(name).max(1)
}

/// The same key is the same tenant whatever else the key file says.
fn identity(headers: &HeaderMap, key: Option<&Key>) -> Identity {
    let mut sessions = SESSIONS.iter().filter_map(|name| headers.get(name));
    let session = sessions.find(|session| !session.is_empty());
    Identity {
        tenant: key.map_or(0, |key| named(key.name.as_bytes())),
        share: key.map_or(1, |key| key.share),
        session: session.map_or(0, |session| named(session.as_bytes())),
    }
}

/// The number that a header has to be, if it is there.
pub(crate) fn number<T: FromStr>(
    headers: &HeaderMap,
    name: &HeaderName,
) -> Result<Option<T>, ApiError> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    let parsed = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let Some(parsed) = parsed else {
        let message = format!("The header `{name}` must be a whole number, not {value:?}.");
        return Err(ApiError::bad_request(message).param(name.as_str()));
    };
    Ok(Some(parsed))
}
