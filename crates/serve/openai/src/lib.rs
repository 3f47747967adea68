//! The OpenAI wire format as we serve it.
//!
//! Requests come in as bytes and leave as checked values: a holder of a [`ChatRequest`] or a
//! [`CompletionRequest`] need not check a range again. Responses are plain structures
//! that also deserialise, so a client in this workspace speaks with the same types. HTTP
//! statuses are not here: an error says what is wrong and with which field, and the
//! frontend decides what that means on the wire.
//!
//! | module | what it fixes |
//! |---|---|
//! | [`request`] | both request bodies, their checks and [`RequestError`] |
//! | [`response`] | both answers, models, usage, log-probabilities, errors |
//! | [`responses`] | the Responses API: its requests, answers, events and stored conversations |
//! | [`routing`] | why a request went where it went |
//! | [`messages`] | Anthropic's Messages API over the same types |
//! | [`sse`] | the fast writer for the events of a streamed answer |
//! | [`openapi`] | the description of the whole HTTP interface |

pub mod event_reader;
pub mod forward;
pub mod messages;
pub mod openapi;
pub mod request;
pub mod response;
pub mod responses;
pub mod routing;
pub mod sse;

pub use request::{
    ChatRequest, CompletionRequest, Extensions, GenerationOptions, JsonText, Message,
    OutputConstraint, OutputFormat, Prompt, ReasoningEffort, RequestError, RequestErrorKind, Role,
    Tool, ToolCall, ToolChoice, UnknownFields,
};
pub use response::{
    CallDelta, CallMade, ChatChoice, ChatChunkChoice, ChatCompletion, ChatCompletionChunk,
    ChatDelta, ChatLogprobs, ChatMessage, ChatTokenLogprob, Completion, CompletionChoice,
    CompletionLogprobs, ErrorBody, ErrorDetail, FinishReason, FunctionCalled, FunctionDelta, Model,
    ModelList, ObjectKind, PromptTokensDetails, TopLogprob, Usage,
};
pub use routing::{Routing, RoutingCandidate};
pub use sse::{Delta, EventWriter, Logprobs, Said};
