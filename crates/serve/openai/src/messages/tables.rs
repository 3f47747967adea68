//! Fields of the Messages API that this server does not act on.
//!
//! What becomes of them is decided by `request::support`, as for the other endpoints.

use crate::request::support::{Field, Neutral, field};
use crate::request::tables::CACHE_CONTROL;

/// Of a body.
pub(super) const BODY: [Field; 15] = [
    CACHE_CONTROL,
    field("container", Neutral::Null, "code execution by the server"),
    field("mcp_servers", Neutral::Empty, "tools that the server calls"),
    field(
        "inference_geo",
        Neutral::Texts(&["global"]),
        "a choice of regions",
    ),
    field(
        "service_tier",
        Neutral::Texts(&["auto", "standard_only"]),
        "a choice of service tiers",
    ),
    field(
        "speed",
        Neutral::Texts(&["standard"]),
        "a choice of service tiers",
    ),
    field("fallbacks", Neutral::Empty, "other models that may answer"),
    field(
        "fallback_credit_token",
        Neutral::Null,
        "other models that may answer",
    ),
    field(
        "compaction",
        Neutral::Null,
        "summaries of the conversation by the server",
    ),
    field(
        "thread",
        Neutral::Null,
        "conversations that the server keeps",
    ),
    field(
        "diagnostics",
        Neutral::Any,
        "cached tokens are in `usage`; why others were not is left open, as the API allows",
    ),
    field(
        "user_profile_id",
        Neutral::Any,
        "labels for the client's own use",
    ),
    field(
        "workspace_id",
        Neutral::Any,
        "labels for the client's own use",
    ),
    field(
        "betas",
        Neutral::Empty,
        "features under test, which only the header `anthropic-beta` may name",
    ),
    field(
        "anthropic_beta",
        Neutral::Empty,
        "features under test, which only the header `anthropic-beta` may name",
    ),
];

const TOOLSET: Field = field("toolset_name", Neutral::Null, "sets of the server's tools");

/// Of a message.
pub(super) const MESSAGE: [Field; 1] = [CACHE_CONTROL];

/// Of a text, in a message or elsewhere.
pub(super) const TEXT: [Field; 2] = [
    CACHE_CONTROL,
    field("citations", Neutral::Empty, "citations"),
];

/// Of a thought.
pub(super) const THINKING: [Field; 2] = [
    CACHE_CONTROL,
    field("signature", Neutral::Any, "thoughts are not signed"),
];

/// Of a thought that another server encrypted.
pub(super) const REDACTED_THINKING: [Field; 2] = [
    CACHE_CONTROL,
    field(
        "data",
        Neutral::Any,
        "only the server that wrote it reads it",
    ),
];

/// Of a call.
pub(super) const TOOL_USE: [Field; 3] = [
    CACHE_CONTROL,
    TOOLSET,
    field(
        "caller",
        Neutral::Kind("direct"),
        "calls by code that the server executes",
    ),
];

/// Of a call's result.
pub(super) const TOOL_RESULT: [Field; 2] = [CACHE_CONTROL, TOOLSET];

/// Of a tool.
pub(super) const TOOL: [Field; 5] = [
    CACHE_CONTROL,
    field(
        "defer_loading",
        Neutral::Bool(false),
        "tools that the model must search",
    ),
    field(
        "allowed_callers",
        Neutral::ListOf("direct"),
        "calls by code that the server executes",
    ),
    field(
        "eager_input_streaming",
        Neutral::Any,
        "arguments are always sent as they are written",
    ),
    field(
        "input_examples",
        Neutral::Empty,
        "examples of arguments: write them into the description",
    ),
];

/// Of `output_config`.
pub(super) const OUTPUT_CONFIG: [Field; 1] = [field(
    "task_budget",
    Neutral::Null,
    "a budget of tokens for several answers",
)];
