//! A real model as separate processes: `cargo xtask test --only model` fetches it and runs these.

mod calibration;
mod text;

use crate::client::{Streamed, assistant, chat, user};
use crate::system::{MODEL, Process, until_workers};

/// Workers that compute, and a frontend before them that knows their vocabulary.
fn start(workers: usize, more: &[&str]) -> (Vec<Process>, Process) {
    let path = model();
    let engine = [
        "--engine",
        "llama",
        "--model-path",
        &path,
        "--model-name",
        MODEL,
        "--threads",
        "1",
        "--kv-cache-mb",
        "512",
    ];
    let arguments = [&engine, more].concat();
    let worker = |id: usize| {
        let id = id.to_string();
        Process::worker(&[&arguments[..], &["--worker-id", &id]].concat())
    };
    let workers: Vec<Process> = (0..workers).map(worker).collect();
    let list: Vec<&str> = workers.iter().map(|worker| &*worker.address).collect();
    let frontend = Process::frontend(&["--model-path", &path, "--workers", &list.join(",")]);
    (workers, frontend)
}

#[expect(clippy::disallowed_methods, reason = "the step says where it is")]
fn model() -> String {
    std::env::var("SMOLLM2").expect("SMOLLM2 names the GGUF file")
}

const ANSWER: u32 = 48;

/// Two turns of a conversation.
async fn conversation(frontend: &Process, topic: &str) -> [Streamed; 2] {
    let mut messages = vec![user(&format!(
        "{} Now tell me: what is {topic}?",
        "I am new to this and want to understand it well, with an example. ".repeat(12)
    ))];
    let first = chat(&frontend.address, &messages, ANSWER, |_| ()).await;
    messages.push(assistant(&first.text));
    messages.push(user("And why does it matter?"));
    let second = chat(&frontend.address, &messages, ANSWER, |_| ()).await;
    [first, second]
}

#[tokio::test]
#[ignore = "needs SmolLM2: cargo xtask test --only model"]
async fn second_turns_find_their_cache() {
    let (workers, frontend) = start(2, &[]);
    until_workers(&frontend, workers.len()).await;
    for topic in ["a cache", "a queue", "a tree"] {
        let [first, second] = conversation(&frontend, topic).await;
        assert!(first.is_complete() && second.is_complete());
        assert!(!first.text.is_empty());
        println!(
            "{topic}: {} tokens of the second turn were cached",
            second.cached_tokens
        );
        // The first prompt alone is more than five blocks.
        assert!(second.cached_tokens >= 160, "{}", second.cached_tokens);
    }
    let shown = crate::system::workers(&frontend).await;
    assert!(
        shown
            .iter()
            .all(|worker| worker["card"]["simulated"] == false),
        "{shown:#?}"
    );
}

/// Guessing ahead, and a worker that dies in the middle, change nothing.
#[tokio::test]
#[ignore = "needs SmolLM2: cargo xtask test --only model"]
async fn guesses_and_a_dead_worker_change_nothing() {
    let (_alone, plain) = start(1, &[]);
    until_workers(&plain, 1).await;
    let expected = conversation(&plain, "a cache").await;
    let (mut workers, frontend) = start(2, &["--speculation", "ngram"]);
    until_workers(&frontend, workers.len()).await;
    let same = conversation(&frontend, "a cache").await;
    for (one, other) in expected.iter().zip(&same) {
        assert_eq!(one.text, other.text);
    }
    let text = "I am new to this and want to understand it well, with an example. ".repeat(12);
    let messages = [user(&format!("{text} Now tell me: what is a tree?"))];
    let undisturbed = chat(&plain.address, &messages, ANSWER, |_| ()).await;
    let stop = tokio::sync::Notify::new();
    let (streamed, ()) = tokio::join!(
        chat(&frontend.address, &messages, ANSWER, |pieces| {
            if pieces == 3 {
                stop.notify_one();
            }
        }),
        async {
            stop.notified().await;
            // Whichever of them speaks: the other goes on.
            let busy = busiest(&frontend).await;
            workers[busy].kill();
        }
    );
    assert!(streamed.is_complete(), "{:?}", streamed.error);
    assert_eq!(streamed.text, undisturbed.text);
}

/// The number of the worker that has a request under way.
async fn busiest(frontend: &Process) -> usize {
    let workers = crate::system::workers(frontend).await;
    let running = |worker: &serde_json::Value| worker["status"]["running"].as_u64().unwrap_or(0);
    let busy = workers.iter().find(|worker| running(worker) > 0);
    let id = busy.and_then(|worker| worker["card"]["id"].as_str());
    id.and_then(|id| id.parse().ok()).expect("one is busy")
}
