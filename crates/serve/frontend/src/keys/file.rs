//! A key file's text: TOML, JSON, or a plain list.
//!
//! Read by hand from a tree of values, because what parsers say about a file that they cannot
//! read quotes it, and this file holds secrets: errors here name a key by its place or its name
//! and a field, and never quote a value.

use std::collections::BTreeSet;
use std::sync::Arc;

use router::HIGHEST_PRIORITY;
use serde_json::{Map, Value};

use super::Key;

/// Largest share: beyond, the others would hardly ever have a turn.
const LARGEST_SHARE: u64 = 1000;
/// Longest name: it is a label of metrics.
const LONGEST_NAME: usize = 64;

/// Why a key file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    #[error("it is not valid {format}, near line {line}")]
    Syntax { format: &'static str, line: usize },
    #[error("the top level must be a list `keys` and nothing else")]
    Shape,
    #[error("it has no keys")]
    Empty,
    #[error("{key}: {problem}")]
    Key { key: String, problem: String },
}

pub(super) fn parse(text: &str) -> Result<Vec<Key>, KeyFileError> {
    let keys = match format(text) {
        Format::Plain => plain(text),
        Format::Json => structured(serde_json::from_str(text).map_err(|error| {
            let line = error.line();
            KeyFileError::Syntax {
                format: "JSON",
                line,
            }
        })?)?,
        Format::Toml => structured(toml::from_str(text).map_err(|error| {
            let before = error.span().map_or(0, |span| span.start);
            let line = 1 + text
                .bytes()
                .take(before)
                .filter(|byte| *byte == b'\n')
                .count();
            KeyFileError::Syntax {
                format: "TOML",
                line,
            }
        })?)?,
    };
    if keys.is_empty() {
        return Err(KeyFileError::Empty);
    }
    let (mut names, mut secrets) = (BTreeSet::new(), BTreeSet::new());
    for key in &keys {
        if !names.insert(&key.name) {
            return Err(wrong(&key.name, "another key has the same name"));
        }
        if !secrets.insert(&key.secret) {
            return Err(wrong(&key.name, "another key is the same"));
        }
    }
    Ok(keys)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Plain,
    Json,
    Toml,
}

/// JSON begins with a brace, TOML with a table `[[keys]]` or a list `keys = `; no key does.
fn format(text: &str) -> Format {
    let mut lines = lines(text);
    match lines.next() {
        Some(line) if line.starts_with('{') => Format::Json,
        Some(line) if line.starts_with("[[") => Format::Toml,
        Some(line) if line.starts_with("keys") && line.contains('=') => Format::Toml,
        _ => Format::Plain,
    }
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// One key a line, all alike, named by their place.
fn plain(text: &str) -> Vec<Key> {
    (1..)
        .zip(lines(text))
        .map(|(place, line)| Key {
            name: format!("key-{place}"),
            secret: line.to_owned(),
            priority: None,
            share: 1,
            max_requests: None,
            cache_salt: None,
            inside: Arc::default(),
        })
        .collect()
}

fn structured(value: Value) -> Result<Vec<Key>, KeyFileError> {
    let Value::Object(mut top) = value else {
        return Err(KeyFileError::Shape);
    };
    let Some(Value::Array(keys)) = top.remove("keys") else {
        return Err(KeyFileError::Shape);
    };
    if !top.is_empty() {
        return Err(KeyFileError::Shape);
    }
    let places = (1..).zip(keys);
    places
        .map(|(place, key)| {
            let Value::Object(fields) = key else {
                let place = format!("key {place}");
                return Err(wrong(&place, "it has no fields"));
            };
            read(place, fields)
        })
        .collect()
}

/// Removes the known fields one by one; fields that are left are unknown.
fn read(place: usize, mut fields: Map<String, Value>) -> Result<Key, KeyFileError> {
    let unnamed = format!("key {place}");
    let name = match fields.remove("name") {
        Some(Value::String(name)) if is_name(&name) => name,
        _ => {
            let problem = "`name` must be 1 to 64 letters, digits, `-`, `_` or `.`";
            return Err(wrong(&unnamed, problem));
        }
    };
    let secret = match fields.remove("key") {
        Some(Value::String(key)) if is_secret(&key) => key,
        _ => return Err(wrong(&name, "`key` must be text without spaces")),
    };
    let lowest = -i64::from(HIGHEST_PRIORITY);
    let priorities = lowest..=i64::from(HIGHEST_PRIORITY);
    let priority = match fields.remove("priority") {
        None => None,
        Some(value) => match value.as_i64().filter(|value| priorities.contains(value)) {
            Some(priority) => Some(priority as i32),
            None => {
                let problem = "`priority` must be a whole number from -8 to 8";
                return Err(wrong(&name, problem));
            }
        },
    };
    let mut number = |field: &str, most: u64| match fields.remove(field) {
        None => Ok(None),
        Some(value) => match value.as_u64().filter(|value| (1..=most).contains(value)) {
            Some(number) => Ok(Some(number)),
            None => {
                let problem = format!("`{field}` must be a whole number from 1 to {most}");
                Err(wrong(&name, &problem))
            }
        },
    };
    let share = number("share", LARGEST_SHARE)?.unwrap_or(1) as u32;
    let max_requests = number("max_requests", u64::from(u32::MAX))?;
    let isolated = match fields.remove("isolated") {
        None => false,
        Some(Value::Bool(isolated)) => isolated,
        Some(_) => return Err(wrong(&name, "`isolated` must be true or false")),
    };
    let cache_salt = match fields.remove("cache_salt") {
        None => isolated.then(|| secret.clone()),
        Some(Value::String(salt)) if !salt.is_empty() => Some(salt),
        Some(_) => return Err(wrong(&name, "`cache_salt` must be text")),
    };
    if !fields.is_empty() {
        // The message omits its name: it may be a key in the wrong place.
        let problem = "it has a field other than name, key, priority, share, max_requests, \
                       isolated and cache_salt";
        return Err(wrong(&name, problem));
    }
    Ok(Key {
        name,
        secret,
        priority,
        share,
        max_requests: max_requests.map(|most| most as usize),
        cache_salt,
        inside: Arc::default(),
    })
}

fn is_name(name: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(known)
}

/// What a header can carry after `Bearer `.
fn is_secret(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic())
}

fn wrong(key: &str, problem: &str) -> KeyFileError {
    KeyFileError::Key {
        key: key.to_owned(),
        problem: problem.to_owned(),
    }
}
