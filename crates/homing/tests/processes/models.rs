//! Several models behind one frontend, and what becomes of them when the configuration changes.

use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::client::{get, post};
use crate::system::{Process, workers};

/// Served by a worker of ours.
fn table(model: &str, worker: &Process) -> String {
    let address = &worker.address;
    format!("[[models]]\nmodel-name = \"{model}\"\nworkers = [\"{address}\"]\n")
}

fn write(path: &Path, tables: &[String]) {
    let mut file = std::fs::File::create(path).expect("a file");
    file.write_all(tables.concat().as_bytes()).expect("room");
}

async fn listed(frontend: &Process) -> Vec<String> {
    let text = get(&format!("{}/v1/models", frontend.address)).await;
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let models = document["data"].as_array().expect("a list");
    let ids = models.iter().filter_map(|model| model["id"].as_str());
    ids.map(str::to_owned).collect()
}

async fn ask(frontend: &Process, model: &str, max_tokens: u32) -> Value {
    let body = json!({
        "model": model, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": true,
        "messages": [{"role": "user", "content": "What is a cache? ".repeat(20)}],
    });
    post(&format!("{}/v1/chat/completions", frontend.address), &body).await
}

/// The sum of a metric's rows with this in their labels.
async fn counted(frontend: &Process, name: &str, label: &str) -> f64 {
    let text = get(&format!("{}/metrics", frontend.address)).await;
    let rows = text.lines();
    let rows = rows.filter(|row| row.starts_with(name) && row.contains(label));
    rows.filter_map(|row| row.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

async fn until_listed(frontend: &Process, expected: &[&str]) {
    for _ in 0..1200 {
        if listed(frontend).await == expected {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("{expected:?}, not {:?}", listed(frontend).await);
}

async fn until_joined(frontend: &Process, models: &[&str]) {
    crate::system::until("workers of all models", frontend, |workers| {
        let has = |model: &&str| workers.iter().any(|one| one["card"]["model"] == **model);
        workers.len() == models.len() && models.iter().all(has)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_frontend_serves_several_models_and_keeps_them_apart() {
    let alpha = Process::worker(&["--model-name", "alpha"]);
    let beta = Process::worker(&["--model-name", "beta"]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("homing.toml");
    write(&path, &[table("alpha", &alpha), table("beta", &beta)]);
    let frontend = Process::frontend(&["--config", path.to_str().expect("text")]);
    until_joined(&frontend, &["alpha", "beta"]).await;
    assert_eq!(listed(&frontend).await, ["alpha", "beta"]);

    for (model, times) in [("alpha", 3), ("beta", 1)] {
        for _ in 0..times {
            let answer = ask(&frontend, model, 8).await;
            assert_eq!(answer["model"], model, "{answer}");
            assert_eq!(answer["usage"]["completion_tokens"], 8, "{answer}");
        }
        let label = format!("model=\"{model}\"");
        let decided = counted(&frontend, "homing_router_decisions_total", &label).await;
        assert_eq!(decided, f64::from(times));
        let ended = counted(&frontend, "dynamo_frontend_requests_total", &label).await;
        assert_eq!(ended, f64::from(times));
        let decisions = format!("{}/decisions?model={model}", frontend.address);
        let decisions: Value = serde_json::from_str(&get(&decisions).await).expect("JSON");
        let decisions = decisions["decisions"].as_array().expect("a list");
        assert_eq!(decisions.len(), times as usize);
    }
    // The same prompt was cached by the first, and the second knew nothing of it.
    let blocks = "homing_router_index_blocks";
    assert!(counted(&frontend, blocks, "model=\"alpha\"").await > 0.0);

    let unknown = ask(&frontend, "gamma", 8).await;
    let words = unknown["error"]["message"].as_str().expect("an error");
    assert_eq!(
        words,
        "The model `gamma` does not exist. This server serves `alpha`, `beta`."
    );
    assert_eq!(unknown["error"]["code"], "model_not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_come_and_go_while_the_frontend_runs() {
    let workers_of = |model| Process::worker(&["--model-name", model]);
    let (alpha, beta, gamma) = (workers_of("alpha"), workers_of("beta"), workers_of("gamma"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("homing.toml");
    write(&path, &[table("alpha", &alpha), table("beta", &beta)]);
    let frontend = Process::frontend(&["--config", path.to_str().expect("text")]);
    until_joined(&frontend, &["alpha", "beta"]).await;

    // What has begun is finished, though its model goes.
    let begun = ask(&frontend, "beta", 400);
    let reloaded = async {
        crate::system::until("the request is running", &frontend, |workers| {
            workers.iter().any(|one| one["in_flight"] == 1)
        })
        .await;
        write(&path, &[table("alpha", &alpha), table("gamma", &gamma)]);
        frontend.reload();
        until_listed(&frontend, &["alpha", "gamma"]).await;
    };
    let (answer, ()) = tokio::join!(begun, reloaded);
    assert_eq!(answer["usage"]["completion_tokens"], 400, "{answer}");
    until_joined(&frontend, &["alpha", "gamma"]).await;
    assert_eq!(ask(&frontend, "gamma", 4).await["model"], "gamma");
    assert_eq!(
        ask(&frontend, "beta", 4).await["error"]["code"],
        "model_not_found"
    );

    // A file that cannot be used changes nothing.
    for broken in [
        "[[models]]\nmodel-name = \"delta\"\n",
        "[[models",
        "[[models]]\nhttp-port = 1\n",
    ] {
        write(&path, &[broken.to_owned()]);
        frontend.reload();
        assert_eq!(ask(&frontend, "alpha", 4).await["model"], "alpha");
    }
    write(&path, &[table("gamma", &gamma)]);
    frontend.reload();
    until_listed(&frontend, &["gamma"]).await;
    assert_eq!(ask(&frontend, "gamma", 4).await["model"], "gamma");
    assert_eq!(workers(&frontend).await.len(), 1);
}
