//! Which server, which model, and the headers that identify this client.

use std::fmt;

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Uri};

/// A server that speaks the OpenAI API.
#[derive(Clone, Debug)]
pub struct Target {
    /// With the version, without a slash at the end.
    base: Uri,
    pub model: String,
    key: Option<Key>,
    /// Whether to ask for what is not in OpenAI's API but many servers give: a token count in
    /// every event, the worker, timing and routing.
    pub extensions: bool,
}

/// The API key; its `Debug` output hides the value.
#[derive(Clone)]
struct Key(HeaderValue);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("`{0}` is not an address such as http://127.0.0.1:8000")]
    Address(String),
    #[error("the API key has characters that are not allowed in a header")]
    Key,
}

impl Target {
    /// `http://host:port` means its `/v1`; an address with a path is taken as it is.
    pub fn new(address: &str, model: &str) -> Result<Self, TargetError> {
        let wrong = || TargetError::Address(address.to_owned());
        let uri: Uri = address.trim_end_matches('/').parse().map_err(|_| wrong())?;
        let known = uri.scheme() == Some(&Scheme::HTTP) || uri.scheme() == Some(&Scheme::HTTPS);
        if !known || uri.authority().is_none() || uri.query().is_some() {
            return Err(wrong());
        }
        let base = match uri.path() {
            "" | "/" => with_path(&uri, "/v1"),
            _ => Some(uri),
        };
        Ok(Self {
            base: base.ok_or_else(wrong)?,
            model: model.to_owned(),
            key: None,
            extensions: true,
        })
    }

    /// Sends the key as a bearer token.
    pub fn with_key(mut self, key: &str) -> Result<Self, TargetError> {
        let value = HeaderValue::try_from(format!("Bearer {key}"));
        let mut value = value.map_err(|_| TargetError::Key)?;
        value.set_sensitive(true);
        self.key = Some(Key(value));
        Ok(self)
    }

    pub fn base(&self) -> &Uri {
        &self.base
    }

    pub(super) fn uri(&self, path: &str) -> Uri {
        let path = format!("{}{path}", self.base.path());
        with_path(&self.base, &path).expect("the base and the path were checked")
    }

    /// Beside the API, as servers of engines and gateways' probes have it.
    pub(super) fn health(&self) -> Uri {
        let path = self.base.path().trim_end_matches("/v1");
        with_path(&self.base, &format!("{path}/health")).expect("the base was checked")
    }

    pub(super) fn headers(&self, headers: &mut HeaderMap) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(Key(key)) = &self.key {
            headers.insert(AUTHORIZATION, key.clone());
        }
    }
}

fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_the_api() {
        for (address, uri) in [
            ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1/models"),
            ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1/models"),
            ("https://api.example/v1", "https://api.example/v1/models"),
            ("https://a.example/x/v2/", "https://a.example/x/v2/models"),
        ] {
            let target = Target::new(address, "m").unwrap();
            assert_eq!(target.uri("/models").to_string(), uri);
            let health = uri.replace("/v1", "").replace("/models", "/health");
            assert_eq!(target.health().to_string(), health);
        }
        for address in [
            "",
            "localhost",
            "localhost:8000",
            "ftp://a",
            "http://",
            "/v1",
        ] {
            assert!(Target::new(address, "m").is_err(), "{address}");
        }
    }

    #[test]
    fn a_key_is_sent_and_never_shown() {
        let target = Target::new("http://a", "m").unwrap();
        assert!(target.clone().with_key("two\nlines").is_err());
        let target = target.with_key("secret-7").unwrap();
        assert!(!format!("{target:?}").contains("secret-7"));
        let mut headers = HeaderMap::new();
        target.headers(&mut headers);
        assert_eq!(headers[AUTHORIZATION], "Bearer secret-7");
    }
}
