//! Serves the pages: files that were built before.
//!
//! The caller that creates a console passes the files in, so that this crate builds without them.
//! Each has its own path and nothing else does: a console before another service leaves every
//! other path to it. Names of files under `assets/` carry a hash of their content, so a
//! browser may keep them forever; the others are requested again and answered with 304 while
//! they are unchanged.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};

/// Scripts and connections only from and to where the page came from. Styles may be inline,
/// because the chart library sets sizes that way.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; \
     img-src 'self' data:; connect-src 'self' ws: wss:; frame-ancestors 'none'";

/// The page that everything begins with.
const INDEX: &str = "index.html";

/// A name that ends so is the packed copy of the file without it.
const PACKED: &str = ".gz";

/// One built file.
#[derive(Clone, Debug)]
pub struct Asset {
    /// Relative to the root, with `/` between folders.
    pub name: String,
    pub content: Cow<'static, [u8]>,
    /// Of the content: equal only if that is.
    pub sha256: [u8; 32],
}

/// All built files; none if they were not built.
#[derive(Clone, Debug, Default)]
pub struct Assets {
    by_name: BTreeMap<String, Arc<Page>>,
}

/// A file with its response headers.
#[derive(Debug)]
struct Page {
    content_type: &'static str,
    cache_control: &'static str,
    etag: String,
    plain: Bytes,
    packed: Option<Bytes>,
}

impl Assets {
    pub fn new(files: impl IntoIterator<Item = Asset>) -> Self {
        let (packed, plain): (Vec<Asset>, Vec<Asset>) = files
            .into_iter()
            .partition(|file| file.name.ends_with(PACKED));
        let mut packed: BTreeMap<String, Bytes> = packed
            .into_iter()
            .map(|file| (file.name, bytes(file.content)))
            .collect();
        let pages = plain.into_iter().map(|file| {
            let page = Page {
                content_type: content_type(&file.name),
                cache_control: cache_control(&file.name),
                etag: etag(&file.sha256),
                plain: bytes(file.content),
                packed: packed.remove(&format!("{}{PACKED}", file.name)),
            };
            (file.name, Arc::new(page))
        });
        Self {
            by_name: pages.collect(),
        }
    }

    /// A path for each file, and `/` for the first page. `status_page` is where else to look
    /// if there are none.
    pub(crate) fn routes<S>(&self, status_page: &str) -> Router<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        let mut routes = Router::new();
        for (name, page) in &self.by_name {
            let page = Arc::clone(page);
            let answer = get(async move |headers: HeaderMap| page.answer(&headers));
            if name == INDEX {
                routes = routes.route("/", answer.clone());
            }
            routes = routes.route(&format!("/{name}"), answer);
        }
        if !self.by_name.contains_key(INDEX) {
            let text = not_built(status_page);
            routes = routes.route("/", get(async move || guarded(Body::from(text))));
        }
        routes
    }
}

impl Page {
    fn answer(&self, headers: &HeaderMap) -> Response {
        let packed = self.packed.as_ref().filter(|_| takes_gzip(headers));
        // One tag for each form: they are equal in meaning and not byte by byte.
        let etag = match packed {
            Some(_) => format!("\"{}-gz\"", self.etag),
            None => format!("\"{}\"", self.etag),
        };
        let mut answer = match is_known(headers, &etag) {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => guarded(Body::from(packed.unwrap_or(&self.plain).clone())),
        };
        let known = answer.status() == StatusCode::NOT_MODIFIED;
        let said = answer.headers_mut();
        said.insert(CACHE_CONTROL, HeaderValue::from_static(self.cache_control));
        if let Ok(etag) = HeaderValue::from_str(&etag) {
            said.insert(ETAG, etag);
        }
        if self.packed.is_some() {
            said.insert(VARY, HeaderValue::from_static("accept-encoding"));
        }
        if !known {
            said.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
            if packed.is_some() {
                said.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
        }
        answer
    }
}

/// A page with what keeps browsers from doing more with it than it is meant for.
fn guarded(body: Body) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    (headers, body).into_response()
}

fn bytes(content: Cow<'static, [u8]>) -> Bytes {
    match content {
        Cow::Borrowed(content) => Bytes::from_static(content),
        Cow::Owned(content) => Bytes::from(content),
    }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "json" | "map" => "application/json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

fn cache_control(name: &str) -> &'static str {
    match name.starts_with("assets/") {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    }
}

/// Half of the hash: enough to distinguish any two files.
fn etag(sha256: &[u8; 32]) -> String {
    let mut text = String::with_capacity(32);
    for byte in &sha256[..16] {
        write!(text, "{byte:02x}").expect("a string takes any text");
    }
    text
}

/// Whether the client has what the tag names.
fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    values(headers, IF_NONE_MATCH.as_str())
        .any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag)
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    values(headers, ACCEPT_ENCODING.as_str()).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        let refused = weight.and_then(|weight| weight.parse::<f64>().ok()) == Some(0.0);
        name.eq_ignore_ascii_case("gzip") && !refused
    })
}

/// The items of a header that is a list.
fn values<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).into_iter();
    lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(str::trim)
}

fn not_built(status_page: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Homing</title>\n\
         <style>body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto; \
         padding: 0 1rem; color-scheme: light dark }}</style>\n\
         <h1>Homing</h1>\n\
         <p>The web console was not built: install Node 20 or later and build again. \
         The API works.</p>\n\
         <p><a href=\"/api/state\">/api/state</a> has what the console would show, and \
         <a href=\"{status_page}\">the status page</a> shows the workers.</p>\n"
    )
}

#[cfg(test)]
mod tests;
