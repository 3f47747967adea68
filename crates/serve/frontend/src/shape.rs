//! The APIs that an answer can be written for.
//!
//! All of them are answered by the same walk; what differs is how the answer looks on the wire and
//! what is kept of it. A [`Shape`] is made of the request and travels with the answer.

use openai::Message;
use openai::responses::ResponseStore;
use openai::responses::response::ResponseEcho;
use parking_lot::Mutex;

use crate::metrics::Endpoint;

/// How an answer is written.
#[derive(Debug)]
pub(crate) enum Shape {
    Chat,
    Completions,
    Responses(Box<Responded>),
    Messages {
        /// The client wants thoughts without their text.
        omit_thinking: bool,
        /// Something that changes with every request was removed from the system prompt.
        normalized: bool,
    },
}

/// What an answer of the Responses API repeats, and where its conversation is kept.
#[derive(Debug)]
pub(crate) struct Responded {
    pub(crate) echo: ResponseEcho,
    /// Whose it is: the API key's name.
    pub(crate) owner: String,
    /// The messages of this request.
    pub(crate) added: Vec<Message>,
}

impl Shape {
    pub(crate) fn endpoint(&self) -> Endpoint {
        match self {
            Self::Chat => Endpoint::Chat,
            Self::Completions => Endpoint::Completions,
            Self::Responses(_) => Endpoint::Responses,
            Self::Messages { .. } => Endpoint::Messages,
        }
    }

    /// Whether something that changes with every request was removed.
    pub(crate) fn is_normalized(&self) -> bool {
        matches!(
            self,
            Self::Messages {
                normalized: true,
                ..
            }
        )
    }

    /// What ids of answers begin with.
    pub(crate) fn id_prefix(&self) -> &'static str {
        match self {
            Self::Chat => "chatcmpl-",
            Self::Completions => "cmpl-",
            Self::Responses(_) => "resp_",
            Self::Messages { .. } => "msg_",
        }
    }
}

impl Responded {
    /// Keeps the conversation for a request that continues it.
    pub(crate) fn keep(mut self, store: &Mutex<ResponseStore>, id: &str, answer: Message) {
        if !self.echo.store {
            return;
        }
        self.added.push(answer);
        let parent = self.echo.previous_response_id.as_deref();
        store.lock().insert(&self.owner, id, parent, self.added);
    }
}
