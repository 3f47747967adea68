//! Fields of chat and completions requests that this server does not act on.

use super::support::{Field, Neutral, field};

const FUNCTIONS: &str = "the older form of tool calls: use `tools`";
const WHITE_SPACE: &str = "a choice of white space in JSON";

pub(crate) const BY_CONTENT: &str = "prefixes are found by their content";

// Fields that another API has too.
pub(crate) const CACHE_CONTROL: Field = field("cache_control", Neutral::Any, BY_CONTENT);
pub(crate) const CACHE_RETENTION: Field = field(
    "prompt_cache_retention",
    Neutral::Any,
    "blocks stay cached while there is room",
);
pub(crate) const SERVICE_TIER: Field = field(
    "service_tier",
    Neutral::Texts(&["auto", "default"]),
    "a choice of service tiers",
);
pub(crate) const PRIORITY: Field = field(
    "priority",
    Neutral::Number(0.0),
    "a priority in the body (send the header `x-request-priority`)",
);
pub(crate) const REQUEST_ID: Field = field(
    "request_id",
    Neutral::Null,
    "an id in the body (send the header `x-request-id`)",
);

/// Of a body.
pub(crate) const BODY: [Field; 40] = [
    field("functions", Neutral::Empty, FUNCTIONS),
    field(
        "function_call",
        Neutral::Texts(&["none", "auto"]),
        FUNCTIONS,
    ),
    field(
        "guided_decoding_backend",
        Neutral::Any,
        "one compiler of grammars serves all",
    ),
    field("guided_whitespace_pattern", Neutral::Null, WHITE_SPACE),
    field("regex", Neutral::Null, "use `structured_outputs.regex`"),
    field("ebnf", Neutral::Null, "use `structured_outputs.grammar`"),
    field(
        "json_schema",
        Neutral::Null,
        "use `response_format`, or `structured_outputs.json`",
    ),
    field("allowed_token_ids", Neutral::Null, "a choice of tokens"),
    field("bad_words", Neutral::Empty, "a choice of words"),
    field(
        "reasoning",
        Neutral::Empty,
        "control of a model's reasoning",
    ),
    field(
        "thinking",
        Neutral::Kind("disabled"),
        "control of a model's reasoning",
    ),
    field(
        "verbosity",
        Neutral::Texts(&["medium"]),
        "control of an answer's length other than by `max_tokens`",
    ),
    field(
        "modalities",
        Neutral::ListOf("text"),
        "output other than text",
    ),
    field("audio", Neutral::Null, "output other than text"),
    field("web_search_options", Neutral::Null, "web search"),
    field("store", Neutral::Bool(false), "storing answers"),
    SERVICE_TIER,
    field("use_beam_search", Neutral::Bool(false), "beam search"),
    field("length_penalty", Neutral::Number(1.0), "beam search"),
    field(
        "include_stop_str_in_output",
        Neutral::Bool(false),
        "a stop string in the answer",
    ),
    field(
        "no_stop_trim",
        Neutral::Bool(false),
        "a stop string in the answer",
    ),
    field(
        "skip_special_tokens",
        Neutral::Bool(true),
        "special tokens in the answer",
    ),
    field(
        "spaces_between_special_tokens",
        Neutral::Any,
        "concerns special tokens, which no answer contains",
    ),
    field("truncate_prompt_tokens", Neutral::Null, "cutting prompts"),
    field(
        "prompt_logprobs",
        Neutral::Null,
        "log-probabilities of the prompt",
    ),
    field(
        "return_token_ids",
        Neutral::Bool(false),
        "token ids in the answer",
    ),
    field(
        "return_tokens_as_token_ids",
        Neutral::Bool(false),
        "token ids in the answer",
    ),
    field(
        "add_generation_prompt",
        Neutral::Bool(true),
        "a prompt that ends in another way than the template's",
    ),
    field(
        "continue_final_message",
        Neutral::Bool(false),
        "continuing the last message",
    ),
    field("documents", Neutral::Empty, "documents beside the messages"),
    field(
        "chat_template",
        Neutral::Null,
        "another chat template than the model's",
    ),
    field("mm_processor_kwargs", Neutral::Empty, "images and sound"),
    PRIORITY,
    REQUEST_ID,
    field(
        "kv_transfer_params",
        Neutral::Null,
        "a transfer of KV blocks by the client",
    ),
    field("metadata", Neutral::Any, "labels for the client's own use"),
    field(
        "safety_identifier",
        Neutral::Any,
        "labels for the client's own use",
    ),
    field("prompt_cache_key", Neutral::Any, BY_CONTENT),
    CACHE_RETENTION,
    field("prediction", Neutral::Any, "a hint that changes no answer"),
];

/// Of a message.
pub(crate) const MESSAGE: [Field; 4] = [
    field("function_call", Neutral::Null, FUNCTIONS),
    field("refusal", Neutral::Null, "a refusal in the history"),
    field("audio", Neutral::Null, "sound"),
    field("annotations", Neutral::Any, "notes about an earlier answer"),
];

/// Of a part of a message's content.
pub(crate) const PART: [Field; 1] = [CACHE_CONTROL];

/// Of `stream_options`.
pub(crate) const STREAM_OPTIONS: [Field; 1] = [field(
    "include_obfuscation",
    Neutral::Bool(false),
    "padding of events",
)];

/// Of a tool, or of its function.
pub(crate) const TOOL: [Field; 1] = [CACHE_CONTROL];

/// Of `structured_outputs`.
pub(crate) const STRUCTURED_OUTPUTS: [Field; 5] = [
    field(
        "disable_fallback",
        Neutral::Any,
        "one compiler of grammars serves all",
    ),
    field("disable_any_whitespace", Neutral::Bool(true), WHITE_SPACE),
    field(
        "disable_additional_properties",
        Neutral::Bool(false),
        "schemas other than the one that was sent",
    ),
    field("whitespace_pattern", Neutral::Null, WHITE_SPACE),
    field(
        "structural_tag",
        Neutral::Null,
        "tags: use `structured_outputs.grammar`",
    ),
];

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;
    use crate::request::fields::{ChatFields, CompletionFields};
    use crate::request::options::StreamOptions;
    use crate::request::output_format::{RawSchema, ResponseFormat, StructuredOutputs};
    use crate::request::parts::RawPart;
    use crate::request::support::page::{Place, check_listed_once, page};
    use crate::request::tools::{RawCall, RawCalled, RawFunction, RawTool};
    use crate::request::value::RawMessage;

    const ABOUT: &str = "\
# Request fields

Written by `cargo xtask codegen` from the code that reads requests.

No field of a request is ignored in silence. A field has an effect, or it is refused with status 400
and a message that names it, or it is in the last table with the values that are accepted because
they ask for nothing. `null` is accepted everywhere and means that the field is absent.

Fields that are in none of the tables are unknown. They are refused too, unless the server runs with
`--unknown-fields ignore` or `forward`.

Where every worker of the model is an engine with a server of its own (vLLM, SGLang, TensorRT-LLM, llama.cpp),
nothing that is called not supported here is refused: the request is [forwarded](forwarding.md) to that server.

`logprobs`, `logit_bias`, constrained output and required tool calls depend on the engine and are refused
where a worker's engine cannot do them. [agents.md](agents.md) has the table.

## Fields with an effect
";

    const PLACES: [Place; 13] = [
        ("", &BODY, ChatFields::FIELDS),
        ("POST /v1/completions", &[], CompletionFields::FIELDS),
        ("messages[].", &MESSAGE, RawMessage::FIELDS),
        ("messages[].content[].", &PART, RawPart::FIELDS),
        ("messages[].tool_calls[].", &[], RawCall::FIELDS),
        ("messages[].tool_calls[].function.", &[], RawCalled::FIELDS),
        ("tools[].", &TOOL, RawTool::FIELDS),
        ("tools[].function.", &[], RawFunction::FIELDS),
        ("response_format.", &[], ResponseFormat::FIELDS),
        ("response_format.json_schema.", &[], RawSchema::FIELDS),
        (
            "structured_outputs.",
            &STRUCTURED_OUTPUTS,
            StructuredOutputs::FIELDS,
        ),
        ("stream_options.", &STREAM_OPTIONS, StreamOptions::FIELDS),
        ("nvext.", &[], &["extra_fields", "cache_salt"]),
    ];

    #[test]
    fn the_fields_of_the_docs_are_fresh() {
        let page = page(ABOUT, "POST /v1/chat/completions", &PLACES);
        expect_file!["../../../../../docs/request-fields.md"].assert_eq(&page);
    }

    #[test]
    fn no_field_is_listed_twice_or_both_listed_and_acted_on() {
        check_listed_once(&PLACES);
        // The page has these tables once, though two objects share them.
        check_listed_once(&[
            ("", &BODY, CompletionFields::FIELDS),
            ("tools[].function.", &TOOL, RawFunction::FIELDS),
        ]);
    }
}
