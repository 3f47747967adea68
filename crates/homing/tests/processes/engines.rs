//! Somebody else's server as a worker: another Homing, through its OpenAI API alone.

use crate::client::{assistant, chat, user};
use crate::system::{MODEL, Process, metric, until_workers};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_openai_server_is_a_worker_whose_cache_is_known() {
    let worker = Process::worker(&[]);
    let server = Process::frontend(&["--workers", &worker.address]);
    until_workers(&server, 1).await;
    let engine = format!("openai={},slots=16,name=behind", server.address);
    let mut frontend = Process::frontend(&["--upstream", &engine, "--model-name", MODEL]);
    until_workers(&frontend, 1).await;

    let first = user(&"What is a cache, and why is it never large enough? ".repeat(40));
    let direct = chat(&server.address, std::slice::from_ref(&first), 40, |_| {}).await;
    let through = chat(&frontend.address, std::slice::from_ref(&first), 40, |_| {}).await;
    assert!(through.is_complete(), "{through:?}");
    assert_eq!(through.text, direct.text);
    let second = [first, assistant(&through.text), user("Go on.")];
    let answer = chat(&frontend.address, &second, 40, |_| {}).await;
    let truth = chat(&server.address, &second, 40, |_| {}).await;
    assert_eq!(answer.text, truth.text);
    assert!(answer.cached_tokens > 0, "{answer:?}");
    assert_eq!(metric(&frontend, "homing_engines_answers_total").await, 2.0);

    // Who joins later is taken in, beside workers of our own kind.
    frontend.kill();
    let later = Process::worker(&[]);
    let arguments = [
        "--engine",
        &engine,
        "--workers",
        &later.address,
        "--model-name",
        MODEL,
    ];
    let frontend = Process::frontend(&arguments);
    until_workers(&frontend, 2).await;
}
