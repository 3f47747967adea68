//! OpenAI's Responses API, translated to and from the types of the chat endpoint.
//!
//! A request becomes a [`ChatRequest`](crate::ChatRequest), so everything behind the edge serves
//! both; an answer becomes output items, whole or as events. Nothing here knows HTTP or waits.
//!
//! # Guarantees
//!
//! - **No field is ignored in silence**, as for the other endpoints: `tables` has those without an
//!   effect, and `docs/responses-fields.md` is written from it.
//! - **Replayed or stored, a conversation is the same.** The output items of an answer, sent back
//!   as input, become the message that [`message_of`] stores, so the next prompt has the same
//!   prefix either way.

pub(crate) mod event;
pub mod events;
mod fields;
mod input;
mod request;
pub mod response;
pub mod store;
mod tables;

#[cfg(test)]
mod tests;

pub use self::event::{Event, Part};
pub use self::events::ResponsesWriter;
pub use self::request::{ResponsesRequest, Turn, parse};
pub use self::response::{OutputItem, Response, ResponseEcho, ResponseStatus, message_of};
pub use self::store::{ResponseStore, StoreLimits};
