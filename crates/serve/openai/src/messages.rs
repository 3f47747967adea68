//! Anthropic's Messages API, translated to and from our own types.
//!
//! A body becomes the [`ChatRequest`](crate::ChatRequest) that the rest of the server already
//! serves, and an answer becomes Anthropic's blocks and events. There is no second path through the
//! server: whatever works for chat works here. HTTP is elsewhere, as for the other endpoints.
//!
//! | module | what it fixes |
//! |---|---|
//! | `request` | the body, its checks and what becomes of its fields |
//! | [`response`] | an answer in one piece, errors, counts of tokens |
//! | [`events`] | the events of a streamed answer |
//!
//! # Guarantees
//!
//! - **No field is ignored in silence**, as in [`crate::request`]; the fields without an effect are
//!   in the tables of `fields`.
//! - **One prompt, one text.** The same conversation always becomes the same messages, so that a
//!   prefix is found again.

pub mod events;
pub mod response;

mod content;
pub(crate) mod fields;
mod output;
mod problems;
mod request;
mod tools;

use std::borrow::Cow;

pub use self::events::MessagesWriter;
#[cfg(test)]
pub(crate) use self::request::ACTING;
pub use self::request::{MessagesRequest, parse, parse_count};
pub use self::response::{
    ContentBlock, CountTokensResponse, Ending, MessagesError, MessagesResponse, MessagesUsage,
    StopReason,
};

/// Lines with which agents begin a system prompt, and which differ from request to request. Claude
/// Code sends its version and a checksum of the request, which are for the provider's accounts.
const CHANGING_LINES: [&str; 1] = ["x-anthropic-billing-header:"];

/// A system prompt without the changing lines at its very beginning, which would keep every prefix
/// from being found again. All else stays as it is, byte for byte.
pub fn stable_system(text: &str) -> Cow<'_, str> {
    let changes = |rest: &str| CHANGING_LINES.iter().any(|line| rest.starts_with(line));
    let mut rest = text;
    while changes(rest) {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    Cow::Borrowed(rest)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use expect_test::expect_file;

    use super::fields::TABLES;
    use super::*;
    use crate::request::support::Neutral;

    const ABOUT: &str = "\
# Request fields of the Messages API

Written by `cargo xtask codegen` from the code that reads requests.

The rules are those of [the other endpoints](request-fields.md): a field of `POST /v1/messages` has an
effect, or it is refused with status 400 and a message that names it, or it is in the last table with
the values that are accepted because they ask for nothing. `null` means that the field is absent.
`POST /v1/messages/count_tokens` reads the same fields.

- Blocks are `text`, `tool_use`, `tool_result`, `thinking` and `redacted_thinking`. Images and documents are
  refused, and so are tools that Anthropic's servers run.
- A conversation ends with a message of the user: continuing an assistant's message is refused.
- `is_error` puts `Error: ` before the result of a tool.
- `thinking` with a budget, and `output_config.effort`, set the reasoning effort of models whose template knows it.

## Fields with an effect
";

    #[test]
    fn the_fields_of_the_docs_are_fresh() {
        let mut acting = String::new();
        for (path, names) in ACTING {
            let names: Vec<String> = names
                .iter()
                .map(|name| format!("`{}`", name.trim_start_matches("r#")))
                .collect();
            let title = match path.trim_end_matches('.') {
                "" => "POST /v1/messages",
                path => path,
            };
            let _ = writeln!(acting, "- `{title}`: {}.", names.join(", "));
        }
        let mut table = String::from("| field | accepted value | |\n|---|---|---|\n");
        for (path, fields) in TABLES {
            for field in fields {
                let about = match matches!(field.neutral, Neutral::Any) {
                    true => field.about.to_owned(),
                    false => format!("not supported: {}", field.about),
                };
                let accepted = field.neutral.describe();
                let _ = writeln!(table, "| `{path}{}` | {accepted} | {about} |", field.name);
            }
        }
        let page = format!("{ABOUT}\n{acting}\n## Fields without an effect\n\n{table}");
        expect_file!["../../../../docs/messages-fields.md"].assert_eq(&page);
    }

    #[test]
    fn no_field_is_listed_twice_or_both_listed_and_acted_on() {
        for (path, fields) in TABLES {
            // All types of blocks have one structure.
            let object = path.split(" (").next().unwrap().trim_end_matches('.');
            let acting = ACTING
                .iter()
                .find(|(acting, _)| acting.trim_end_matches('.') == object);
            let (_, acting) = acting.unwrap_or_else(|| panic!("{path} is no object"));
            for (index, field) in fields.iter().enumerate() {
                let name = field.name();
                let twice = fields[..index].iter().any(|other| other.name() == name);
                assert!(!twice && !acting.contains(&name), "{path}{name}");
            }
        }
    }

    #[test]
    fn only_changing_lines_at_the_beginning_are_removed() {
        let header = "x-anthropic-billing-header: cc_version=2.1.100.7b4; cch=eb6c6;";
        for (text, expected) in [
            (format!("{header}\nYou are"), "You are"),
            (format!("{header}\n{header}\r\n\nYou are"), "\nYou are"),
            (header.to_owned(), ""),
            (format!("{header}\n"), ""),
        ] {
            assert_eq!(stable_system(&text), expected, "{text:?}");
        }
        for kept in [
            "",
            "You are",
            " x-anthropic-billing-header: a\nYou are",
            "\nx-anthropic-billing-header: a\nYou are",
            "X-Anthropic-Billing-Header: a\nYou are",
            "x-anthropic-billing-header\nYou are",
            "You are\nx-anthropic-billing-header: a\n",
        ] {
            assert_eq!(stable_system(kept), kept);
        }
    }
}
