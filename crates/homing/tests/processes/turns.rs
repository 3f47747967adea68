//! A hundred conversations that are sent at once, and what came back.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio::sync::Notify;

use crate::client::{Streamed, assistant, chat, user};

pub(crate) const STREAMS: usize = 100;
const ANSWER: u32 = 150;

/// Prompts that differ from their first block on, and long enough for going home to pay.
fn prompt(index: usize) -> String {
    let topic = ["caches", "pipelines", "queues", "schedulers", "radios"][index % 5];
    format!("Conversation {index} is about {topic}. ").repeat(40) + "What should I know first?"
}

pub(crate) fn first_turns() -> Vec<Vec<Value>> {
    begin(0..STREAMS)
}

/// The first turns of the conversations of these numbers.
pub(crate) fn begin(conversations: Range<usize>) -> Vec<Vec<Value>> {
    conversations
        .map(|index| vec![user(&prompt(index))])
        .collect()
}

/// The second turns after these first ones.
pub(crate) fn second_turns(first: Vec<Vec<Value>>, answers: &[Streamed]) -> Vec<Vec<Value>> {
    let turns = first.into_iter().zip(answers);
    let turns = turns.map(|(mut messages, answer)| {
        messages.push(assistant(&answer.text));
        messages.push(user("And what comes after that?"));
        messages
    });
    turns.collect()
}

/// Sends everything at once. When every stream has begun, `disturb` is told.
pub(crate) async fn ask(
    frontend: &str,
    turns: &[Vec<Value>],
    disturb: Option<&Notify>,
) -> Vec<Streamed> {
    let begun = Arc::new(AtomicUsize::new(0));
    let streams = turns.iter().map(|messages| {
        let begun = Arc::clone(&begun);
        chat(frontend, messages, ANSWER, move |pieces| {
            if pieces == 5
                && begun.fetch_add(1, Ordering::Relaxed) + 1 == turns.len()
                && let Some(disturb) = disturb
            {
                disturb.notify_one();
            }
        })
    });
    join_all(streams).await
}

pub(crate) fn texts(answers: &[Streamed]) -> Vec<&str> {
    answers.iter().map(|answer| answer.text.as_str()).collect()
}

pub(crate) fn percentile(mut values: Vec<Duration>, share: f64) -> Duration {
    values.sort();
    values[((values.len() - 1) as f64 * share) as usize]
}

/// Conversations that begin while `away` lasts, twenty at a time, none of which anybody has
/// seen before.
pub(crate) async fn begin_during(
    frontend: &str,
    away: Duration,
) -> (Vec<Vec<Value>>, Vec<Streamed>) {
    let began = tokio::time::Instant::now();
    let (mut turns, mut answers) = (Vec::new(), Vec::new());
    while began.elapsed() < away {
        let next = STREAMS + turns.len();
        let batch = begin(next..next + 20);
        answers.extend(ask(frontend, &batch, None).await);
        turns.extend(batch);
    }
    (turns, answers)
}
