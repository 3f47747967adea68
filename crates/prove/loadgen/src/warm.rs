//! Fills a server's caches before load begins, so that the first minute of a demonstration is not
//! that of a cold start.
//!
//! Each text is sent once, with an answer of one token. Nothing of it is measured. A server that
//! cannot answer yet is asked again for a minute.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::client::{Chat, Client, Message};
use crate::starter::Starter;

const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(1);

/// How many texts were answered.
pub async fn warm(client: &Client, starters: &[Starter], seed: u64) -> usize {
    let latest = Instant::now() + PATIENCE;
    let mut answered = 0;
    for (number, starter) in (0..).zip(starters) {
        let messages = [Message::user(starter.message(seed, number, false))];
        // Each a conversation of its own: one session would be sent to one worker.
        let session = format!("warm-up-{number}");
        let chat = Chat {
            messages: &messages,
            max_tokens: 1,
            session: &session,
            seed: None,
        };
        loop {
            let exchange = client.chat(&chat, &mut ()).await;
            match exchange.outcome {
                Ok(_) => {
                    answered += 1;
                    break;
                }
                Err(_) if Instant::now() < latest => sleep(PAUSE).await,
                Err(_) => return answered,
            }
        }
    }
    answered
}

#[cfg(test)]
mod tests {
    use contract::Clock;

    use super::*;
    use crate::mock::{Manner, Mock};

    #[tokio::test(start_paused = true)]
    async fn each_text_is_sent_once() {
        let mock = Mock::new(Manner::default());
        let client = mock.client(Clock::start(), false);
        let starters = [
            Starter::new("Tides", "The moon."),
            Starter::new("Rivers", "They flow."),
        ];
        assert_eq!(warm(&client, &starters, 7).await, 2);
        let seen = mock.seen();
        assert_eq!(seen.len(), 2);
        assert_ne!(seen[0].session, seen[1].session);
        for (seen, text) in seen.iter().zip(["The moon.", "They flow."]) {
            assert_eq!(seen.body["max_tokens"], 1);
            let content = seen.body["messages"][0]["content"].as_str().unwrap();
            assert!(content.starts_with(text), "{content}");
        }
    }
}
