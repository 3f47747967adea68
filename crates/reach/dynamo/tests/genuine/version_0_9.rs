//! Workers of version 0.9, whose dumps do not say which events they contain.

use std::process::{Command, Stdio};

use test_servers::dynamo::Genuine;
use test_servers::nats::Server;

use crate::fleet::{prompt, request};
use crate::over_nats::{nothing_is_unreadable, watch};
use crate::{BLOCK, Ground, installed};

const ENVIRONMENT: &str = "venv-dynamo-0.9";

fn start(ground: &Ground, server: &Server) -> Genuine {
    let mut command = Command::new(installed(ENVIRONMENT, "python"));
    command
        .args(["-m", "dynamo.mocker", "--model-name", "words"])
        .arg("--model-path")
        .arg(ground.model.path())
        .arg(format!("--block-size={BLOCK}"))
        .args(["--num-workers=2", "--speedup-ratio=20"])
        .args(["--enable-local-indexer", "--request-plane", "tcp"])
        .args(["--store-kv", "file"])
        .env("DYN_FILE_KV", ground.registry.path())
        .env("NATS_SERVER", server.url())
        .env("HF_HUB_OFFLINE", "1")
        .env("DYN_LOG", "error")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    Genuine::start(&mut command).expect("python runs")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs ai-dynamo"]
async fn caches_are_known_by_events_and_by_dumps() {
    let streams = tempfile::tempdir().unwrap();
    let program = installed(ENVIRONMENT, "nats-server");
    let mut server = Server::start_with_streams(&program, streams.path()).unwrap();
    let ground = Ground::new();
    let _mocker = start(&ground, &server);
    let mut fleet = watch(&ground, &server).await;
    let ids = fleet.until(2).await;
    let held = prompt(1, 70);
    let worker = fleet.worker(ids[0]);
    worker.serve(request(&held, 3)).await.unwrap();
    worker.until_predicted(&held, 64).await;
    let again = worker.serve(request(&held, 3)).await.unwrap();
    assert_eq!(again.cached_tokens, 64);

    // What was published while there was no server is known once it is back.
    server.kill();
    let worker = fleet.worker(ids[0]);
    let unheard = prompt(2, 70);
    worker.serve(request(&unheard, 3)).await.unwrap();
    server.restart().unwrap();
    worker.until_predicted(&unheard, 64).await;
    assert_eq!(worker.predicted(&held), 64);
    nothing_is_unreadable(&fleet);

    // Who comes later knows all from the first dump, and goes on with events.
    let mut late = watch(&ground, &server).await;
    late.until(2).await;
    let worker = late.worker(ids[0]);
    assert_eq!(worker.predicted(&held), 64);
    let child = [&unheard[..64], &prompt(9, 40)].concat();
    worker.serve(request(&child, 3)).await.unwrap();
    worker.until_predicted(&child, 96).await;
    let other = late.worker(ids[1]);
    assert_eq!(other.predicted(&held), 0);
    other.serve(request(&held, 3)).await.unwrap();
    other.until_predicted(&held, 64).await;
    nothing_is_unreadable(&late);
}
