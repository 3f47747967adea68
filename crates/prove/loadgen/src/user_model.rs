//! A language model in the user's place: it reads the last answer and asks on.
//!
//! It is asked through the same client as the system under test, but what it takes is the
//! user's thinking and never part of a measurement. If it fails, the built-in question is
//! asked and counted: a run does not stop because its user has nothing to say.

use std::time::Duration;

use crate::client::{Chat, Client, Message, Patience, Role};

/// Longest question, in tokens.
const MAX_TOKENS: u32 = 100;

/// How long to wait for a question.
pub const PATIENCE: Patience = Patience {
    answer: Duration::from_secs(30),
    silence: Duration::from_secs(30),
};

const TASK: &str = "You are a curious reader who talks with an expert. You are shown what the \
    expert has just said. Reply with one short question that follows from it, and with nothing \
    else.";

/// Writes follow-ups.
#[derive(Clone, Debug)]
pub struct UserModel {
    client: Client,
}

impl UserModel {
    /// The client should have [`PATIENCE`].
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The address of its server.
    pub fn url(&self) -> String {
        self.client.target().base().to_string()
    }

    /// A question about `answer`; `None` if there is none in time.
    pub async fn question(&self, answer: &str, session: &str) -> Option<String> {
        let messages = [Message::new(Role::System, TASK), Message::user(answer)];
        let chat = Chat {
            messages: &messages,
            max_tokens: MAX_TOKENS,
            session,
            seed: None,
        };
        let outcome = self.client.chat(&chat, &mut ()).await.outcome;
        let text = outcome.ok()?.text.trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}
