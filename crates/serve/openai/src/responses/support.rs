//! What becomes of the fields of a Responses request that this server does not act on.
//!
//! The rules are those of the other endpoints, whose tables are in `request::support`: a field that
//! changes answers is refused unless its value asks for what happens anyway, and one that changes
//! none is accepted.

use crate::request::object::Others;
use crate::request::support::{Field, Neutral, field};
use crate::request::{RequestError, UnknownFields};

const BY_CONTENT: &str = "prefixes are found by their content";
const NO_SUMMARIES: &str = "summaries: the reasoning itself is in the answer";
const PROGRAMS: &str = "calls by programs";
const DEFERRED: &str = "calls whose results come later";
const NAMESPACES: &str = "namespaces of functions";
const LABEL: &str = "labels of an earlier answer";

/// Of a body.
pub(super) const BODY: [Field; 21] = [
    field("background", Neutral::Bool(false), "answers to fetch later"),
    field(
        "conversation",
        Neutral::Null,
        "stored conversations other than by `previous_response_id`",
    ),
    field("prompt", Neutral::Null, "stored prompts"),
    field(
        "truncation",
        Neutral::Texts(&["disabled"]),
        "cutting prompts",
    ),
    field(
        "context_management",
        Neutral::Empty,
        "compaction of conversations",
    ),
    field("max_tool_calls", Neutral::Null, "tools of the server"),
    field(
        "top_logprobs",
        Neutral::Number(0.0),
        "log-probabilities: use `/v1/chat/completions`",
    ),
    field(
        "service_tier",
        Neutral::Texts(&["auto", "default"]),
        "a choice of service tiers",
    ),
    field("moderation", Neutral::Null, "moderation"),
    field("access_programs", Neutral::Null, "access programs"),
    field("image", Neutral::Null, "images"),
    field("prompt_cache_options", Neutral::Empty, BY_CONTENT),
    field(
        "prompt_cache_retention",
        Neutral::Any,
        "blocks stay cached while there is room",
    ),
    field("messages", Neutral::Null, "use `input`"),
    field("max_tokens", Neutral::Null, "use `max_output_tokens`"),
    field(
        "max_completion_tokens",
        Neutral::Null,
        "use `max_output_tokens`",
    ),
    field("response_format", Neutral::Null, "use `text.format`"),
    field("reasoning_effort", Neutral::Null, "use `reasoning.effort`"),
    field("n", Neutral::Number(1.0), "more than one answer"),
    field(
        "priority",
        Neutral::Number(0.0),
        "a priority in the body (send the header `x-request-priority`)",
    ),
    field(
        "request_id",
        Neutral::Null,
        "an id in the body (send the header `x-request-id`)",
    ),
];

/// Of an item that is a message.
pub(super) const MESSAGE: [Field; 3] = [
    field("id", Neutral::Any, LABEL),
    field("status", Neutral::Any, LABEL),
    field("phase", Neutral::Any, LABEL),
];

/// Of a function call, and of its output.
pub(super) const CALL: [Field; 5] = [
    field("id", Neutral::Any, LABEL),
    field("status", Neutral::Any, LABEL),
    field("caller", Neutral::Kind("direct"), PROGRAMS),
    field("namespace", Neutral::Null, NAMESPACES),
    field("async", Neutral::Bool(false), DEFERRED),
];

/// Of a reasoning item.
pub(super) const REASONING_ITEM: [Field; 4] = [
    field("id", Neutral::Any, LABEL),
    field("status", Neutral::Any, LABEL),
    field("summary", Neutral::Any, "the model reads the content"),
    field(
        "encrypted_content",
        Neutral::Any,
        "only the server that wrote it can read it; ours sends the content",
    ),
];

/// Of a part of an item's content.
pub(super) const PART: [Field; 4] = [
    field("annotations", Neutral::Any, LABEL),
    field("logprobs", Neutral::Any, LABEL),
    field("prompt_cache_breakpoint", Neutral::Any, BY_CONTENT),
    field("cache_control", Neutral::Any, BY_CONTENT),
];

pub(super) const TOOL: [Field; 5] = [
    field("allowed_callers", Neutral::ListOf("direct"), PROGRAMS),
    field("async", Neutral::Bool(false), DEFERRED),
    field("defer_loading", Neutral::Bool(false), "a search for tools"),
    field("output_schema", Neutral::Null, "schemas of results"),
    field("cache_control", Neutral::Any, BY_CONTENT),
];

pub(super) const TEXT: [Field; 1] = [field(
    "verbosity",
    Neutral::Texts(&["medium"]),
    "control of an answer's length other than by `max_output_tokens`",
)];

pub(super) const REASONING: [Field; 4] = [
    field("summary", Neutral::Texts(&["auto"]), NO_SUMMARIES),
    field("generate_summary", Neutral::Texts(&["auto"]), NO_SUMMARIES),
    field(
        "context",
        Neutral::Texts(&["auto"]),
        "a choice of earlier reasoning",
    ),
    field(
        "mode",
        Neutral::Texts(&["standard"]),
        "a choice of reasoning modes",
    ),
];

/// Refuses what would be ignored. `prefix` is the path of the object, with its full stop.
pub(super) fn check(
    others: &Others,
    fields: &[Field],
    prefix: &str,
    unknown: UnknownFields,
) -> Result<(), RequestError> {
    for (name, value) in others.iter() {
        let known = fields.iter().find(|field| field.name == name);
        match (known, unknown) {
            (Some(field), _) if field.neutral.allows(value) => {}
            (Some(field), _) => {
                let instead = field.neutral.instead();
                let path = format!("{prefix}{name}");
                return Err(RequestError::no_effect(&path, field.about, &instead));
            }
            (None, UnknownFields::Ignore) => {}
            (None, UnknownFields::Refuse) => {
                return Err(RequestError::unknown(&format!("{prefix}{name}")));
            }
        }
    }
    Ok(())
}

/// Keeps of the other fields the first that is refused and the first that is unknown, so that many
/// items take little memory until they are checked.
pub(super) fn reduce(others: &mut Others, fields: &[Field]) {
    let (mut refused, mut unknown) = (false, false);
    others.retain(
        |name, value| match fields.iter().find(|field| field.name == name) {
            Some(field) if field.neutral.allows(value) => false,
            Some(_) => !std::mem::replace(&mut refused, true),
            None => !std::mem::replace(&mut unknown, true),
        },
    );
}
