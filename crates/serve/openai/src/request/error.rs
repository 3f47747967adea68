//! What is wrong with a request, and where.

use std::fmt;

use serde_json::error::Category;

/// Why a body was not accepted. Names the field whenever there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    pub kind: RequestErrorKind,
    /// The path of the offending field: `messages[1].content`.
    pub param: Option<String>,
    /// For the client, complete with the field's name.
    pub message: String,
    /// One of OpenAI's codes.
    pub code: Option<&'static str>,
}

/// What the sender would have to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestErrorKind {
    /// Not JSON at all.
    Malformed,
    /// JSON, but a value is missing, of the wrong type or out of range.
    Invalid,
    /// Right by OpenAI's rules, but nothing we can do.
    Unsupported,
}

impl RequestError {
    pub(crate) fn missing(param: &str) -> Self {
        Self {
            kind: RequestErrorKind::Invalid,
            param: Some(param.to_owned()),
            message: format!("`{param}` is required"),
            code: Some("missing_required_parameter"),
        }
    }

    pub(crate) fn empty(param: &str, rule: &str) -> Self {
        Self {
            kind: RequestErrorKind::Invalid,
            param: Some(param.to_owned()),
            message: format!("`{param}` {rule}"),
            code: Some("invalid_value"),
        }
    }

    pub(crate) fn invalid(param: &str, problem: fmt::Arguments<'_>) -> Self {
        Self {
            kind: RequestErrorKind::Invalid,
            param: Some(param.to_owned()),
            message: format!("invalid value for `{param}`: {problem}"),
            code: Some("invalid_value"),
        }
    }

    pub(crate) fn unsupported(param: &str, what: String) -> Self {
        Self {
            kind: RequestErrorKind::Unsupported,
            param: Some(param.to_owned()),
            message: format!("`{param}`: {what} is not supported"),
            code: Some("unsupported_value"),
        }
    }

    /// A field that would change nothing here, though whoever sends it expects it to.
    pub(crate) fn no_effect(param: &str, about: &str, instead: &str) -> Self {
        Self {
            kind: RequestErrorKind::Unsupported,
            param: Some(param.to_owned()),
            message: format!("`{param}` is not supported ({about}): {instead}"),
            code: Some("unsupported_parameter"),
        }
    }

    pub(crate) fn unknown(param: &str) -> Self {
        Self {
            kind: RequestErrorKind::Unsupported,
            param: Some(param.to_owned()),
            message: format!(
                "`{param}` is not known and would have no effect: leave it out \
                 (an operator can start the server with --unknown-fields ignore)"
            ),
            code: Some("unknown_parameter"),
        }
    }

    pub(crate) fn not_an_object() -> Self {
        Self {
            kind: RequestErrorKind::Invalid,
            param: None,
            message: "the body must be a JSON object".to_owned(),
            code: Some("invalid_type"),
        }
    }

    /// The same error of a field inside another: `[0].text` under `content` is `content[0].text`.
    pub(crate) fn under(mut self, path: &str) -> Self {
        if let Some(param) = self.param {
            let dot = if param.starts_with('[') { "" } else { "." };
            let full = format!("{path}{dot}{param}");
            // Every message quotes the field before anything else.
            let (quoted, full_quoted) = (format!("`{param}`"), format!("`{full}`"));
            self.message = self.message.replacen(&quoted, &full_quoted, 1);
            self.param = Some(full);
        }
        self
    }

    pub(crate) fn from_json(param: Option<String>, error: &serde_json::Error) -> Self {
        let text = error.to_string();
        // The field says more than the column, so the position is left out.
        let problem = text
            .rsplit_once(" at line ")
            .map_or(&*text, |(problem, _)| problem);
        let fits_json = match error.classify() {
            Category::Data => true,
            // The grammar allows the number; only no machine type holds it.
            Category::Syntax => problem == "number out of range",
            Category::Eof | Category::Io => false,
        };
        if !fits_json {
            return Self {
                kind: RequestErrorKind::Malformed,
                param: None,
                message: format!("the body is not valid JSON: {text}"),
                code: None,
            };
        }
        let problem = in_json_terms(problem);
        let message = match &param {
            Some(param) => format!("invalid value for `{param}`: {problem}"),
            None => format!("the body does not fit: {problem}"),
        };
        Self {
            kind: RequestErrorKind::Invalid,
            param,
            message,
            // The type is right where there is only too much of it.
            code: Some(match problem.starts_with("more than ") {
                true => "invalid_value",
                false => "invalid_type",
            }),
        }
    }
}

/// Names machine types as JSON does, and quotes no more than the start of a long value.
fn in_json_terms(problem: &str) -> String {
    const QUOTED: usize = 80;
    let (found, expected) = problem.rsplit_once(", expected ").unwrap_or((problem, ""));
    let expected = match expected {
        "i64" => "an integer",
        "u32" => "a token id",
        "f64" => "a number",
        "a sequence" => "a list",
        other => other,
    };
    let mut text: String = found.chars().take(QUOTED).collect();
    if text.len() < found.len() {
        text.push('…');
    }
    if !expected.is_empty() {
        text.push_str(", expected ");
        text.push_str(expected);
    }
    text
}
