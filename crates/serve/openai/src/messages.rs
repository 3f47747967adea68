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
//!   in `tables`.
//! - **One prompt, one text.** The same conversation always becomes the same messages, so that a
//!   prefix is found again.

pub mod events;
pub mod response;

mod content;
mod output;
mod problems;
mod request;
mod tables;
mod tools;

use std::borrow::Cow;

pub use self::events::MessagesWriter;
pub(crate) use self::events::error_event;
pub use self::request::{MessagesRequest, parse, parse_count};
pub use self::response::{
    ContentBlock, CountTokensResponse, Ending, MessagesError, MessagesResponse, MessagesUsage,
    StopReason,
};

/// Lines with which agents begin a system prompt, and which differ from request to request. Claude
/// Code sends its version and a checksum of the request, which are for the provider's accounts.
const CHANGING_LINES: [&str; 1] = ["x-anthropic-billing-header:"];

/// Whether a body may have such a line: a look that costs next to nothing.
pub(crate) fn may_have_changing_lines(body: &[u8]) -> bool {
    CHANGING_LINES
        .iter()
        .any(|line| memchr::memmem::find(body, line.as_bytes()).is_some())
}

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
    use expect_test::expect_file;

    use super::content::{RawBlock, RawMessage, RawText};
    use super::output::{RawFormat, RawOutputConfig, RawThinking};
    use super::request::{RawContext, RawEdit, RawMetadata, RawRequest};
    use super::tables::*;
    use super::tools::{RawChoice, RawTool};
    use super::*;
    use crate::request::support::page::{Place, check_listed_once, page};

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

    const PLACES: [Place; 17] = [
        ("", &BODY, RawRequest::FIELDS),
        ("system[].", &[], RawText::FIELDS),
        ("messages[].", &MESSAGE, RawMessage::FIELDS),
        ("messages[].content[].", &[], RawBlock::FIELDS),
        ("messages[].content[] (text).", &TEXT, RawBlock::FIELDS),
        (
            "messages[].content[] (thinking).",
            &THINKING,
            RawBlock::FIELDS,
        ),
        (
            "messages[].content[] (redacted_thinking).",
            &REDACTED_THINKING,
            RawBlock::FIELDS,
        ),
        (
            "messages[].content[] (tool_use).",
            &TOOL_USE,
            RawBlock::FIELDS,
        ),
        (
            "messages[].content[] (tool_result).",
            &TOOL_RESULT,
            RawBlock::FIELDS,
        ),
        ("tools[].", &TOOL, RawTool::FIELDS),
        ("tool_choice.", &[], RawChoice::FIELDS),
        ("metadata.", &[], RawMetadata::FIELDS),
        ("thinking.", &[], RawThinking::FIELDS),
        ("output_config.", &OUTPUT_CONFIG, RawOutputConfig::FIELDS),
        ("output_config.format.", &[], RawFormat::FIELDS),
        ("context_management.", &[], RawContext::FIELDS),
        ("context_management.edits[].", &[], RawEdit::FIELDS),
    ];

    #[test]
    fn the_fields_of_the_docs_are_fresh() {
        let page = page(ABOUT, "POST /v1/messages", &PLACES);
        expect_file!["../../../../docs/messages-fields.md"].assert_eq(&page);
    }

    #[test]
    fn no_field_is_listed_twice_or_both_listed_and_acted_on() {
        check_listed_once(&PLACES);
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
