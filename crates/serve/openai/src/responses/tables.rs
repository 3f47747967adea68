//! Fields of a Responses request that this server does not act on.
//!
//! What becomes of them is decided by `request::support`, as for the other endpoints.

use crate::request::support::{Field, Neutral, field};
use crate::request::tables::{
    BY_CONTENT, CACHE_CONTROL, CACHE_RETENTION, PRIORITY, REQUEST_ID, SERVICE_TIER,
};

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
    SERVICE_TIER,
    field("moderation", Neutral::Null, "moderation"),
    field("access_programs", Neutral::Null, "access programs"),
    field("image", Neutral::Null, "images"),
    field("prompt_cache_options", Neutral::Empty, BY_CONTENT),
    CACHE_RETENTION,
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
    PRIORITY,
    REQUEST_ID,
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
    CACHE_CONTROL,
];

pub(super) const TOOL: [Field; 5] = [
    field("allowed_callers", Neutral::ListOf("direct"), PROGRAMS),
    field("async", Neutral::Bool(false), DEFERRED),
    field("defer_loading", Neutral::Bool(false), "a search for tools"),
    field("output_schema", Neutral::Null, "schemas of results"),
    CACHE_CONTROL,
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
