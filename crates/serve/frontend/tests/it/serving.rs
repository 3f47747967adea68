//! What a client sees when everything works.

use std::time::Duration;

use engine::sim::Profile;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use testkit::{Cluster, Setup, assistant, bytes, user};

/// About a thousand tokens that no other test uses.
fn long_prompt(name: &str) -> String {
    (0..500)
        .map(|number| format!("{name} {number}. "))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_second_turn_goes_home_and_reports_the_first_turns_full_blocks() {
    let cluster = Cluster::start(Setup::default()).await;
    let mut messages = vec![user(&long_prompt("home"))];
    let first = cluster
        .chat(&messages)
        .with("max_tokens", 64)
        .answer()
        .await;
    assert_eq!(first.usage.prompt_tokens_details.unwrap().cached_tokens, 0);
    messages.push(assistant(&first.text));
    messages.push(user("Go on."));
    let second = cluster
        .chat(&messages)
        .with("max_tokens", 64)
        .answer()
        .await;
    assert_eq!(first.worker, second.worker);
    let held = first.usage.prompt_tokens + first.usage.completion_tokens;
    let cached = second.usage.prompt_tokens_details.unwrap().cached_tokens;
    // The answer was cut at 64 tokens, perhaps inside a word, which may then be spelled with
    // other tokens: the block with that word is the only one that may be missing.
    assert!(
        (held / 32 * 32).saturating_sub(cached) <= 32,
        "{cached} of {held}"
    );
    assert!(second.first_token < first.first_token / 2);
}

#[tokio::test(start_paused = true)]
async fn an_answer_says_how_many_guesses_it_kept() {
    let cluster = Cluster::start(Setup {
        workers: 1,
        profile: Profile::named("h200-llama-70b-fp8-eagle3").unwrap(),
        ..Setup::default()
    })
    .await;
    let messages = [user("guess what")];
    let ask = || cluster.chat(&messages).with("max_tokens", 100);
    let streamed = ask().answer().await.usage;
    let details = streamed.completion_tokens_details.unwrap();
    let accepted = details.accepted_prediction_tokens.unwrap();
    let rejected = details.rejected_prediction_tokens.unwrap();
    assert!(accepted > 0 && accepted < streamed.completion_tokens);
    let counts = cluster.workers[0].status().speculation;
    assert_eq!(u64::from(accepted), counts.accepted_tokens);
    assert_eq!(u64::from(accepted + rejected), counts.drafted_tokens);
    let whole: Value = serde_json::from_slice(&bytes(ask().send().await).await).unwrap();
    assert_eq!(
        whole["usage"]["completion_tokens_details"],
        json!({ "accepted_prediction_tokens": accepted, "rejected_prediction_tokens": rejected })
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_guesses_does_not_mention_them() {
    let cluster = Cluster::start(Setup::default()).await;
    let answer = cluster.chat(&[user("no guess")]).with("max_tokens", 9);
    let whole: Value = serde_json::from_slice(&bytes(answer.send().await).await).unwrap();
    assert_eq!(whole["usage"].get("completion_tokens_details"), None);
}

#[tokio::test(start_paused = true)]
async fn under_round_robin_turns_cycle() {
    let cluster = Cluster::start(Setup {
        mode: "round-robin",
        ..Setup::default()
    })
    .await;
    let messages = [user(&long_prompt("cycle"))];
    let mut workers = Vec::new();
    for _ in 0..6 {
        workers.push(
            cluster
                .chat(&messages)
                .with("max_tokens", 2)
                .answer()
                .await
                .worker,
        );
    }
    assert_eq!(workers[..3], workers[3..]);
    workers.truncate(3);
    workers.sort();
    assert_eq!(workers, ["0", "1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn the_mode_switches_while_requests_run() {
    let cluster = Cluster::start(Setup::default()).await;
    let messages = [user("a running request")];
    let running = cluster
        .chat(&messages)
        .with("max_tokens", 400)
        .with("ignore_eos", true)
        .answer();
    let switch = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let body = json!({ "mode": "kv-blocks", "overlap_score_weight": 0.5 });
        let response = cluster.call("PUT", "/router", Some(body)).await;
        assert_eq!(response.status(), 200);
        let response = cluster
            .call("PUT", "/router", Some(json!({ "mode": "random" })))
            .await;
        assert_eq!(response.status(), 200);
        cluster.get("/router").await
    };
    let (answer, router) = tokio::join!(running, switch);
    assert_eq!(answer.usage.completion_tokens, 400);
    assert_eq!(router["mode"], "random");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_frees_slot_and_blocks_within_one_step() {
    let cluster = Cluster::start(Setup {
        workers: 1,
        ..Setup::default()
    })
    .await;
    let idle = cluster.workers[0].status().active_blocks;
    let request = cluster.chat(&[user(&long_prompt("hang up"))]);
    let response = request
        .with("stream", true)
        .with("ignore_eos", true)
        .send()
        .await;
    let mut body = response.into_body();
    body.frame().await.unwrap().unwrap();
    assert_eq!(cluster.workers[0].status().running, 1);
    let steps = cluster.workers[0].status().steps;
    drop(body);
    let free = |c: &Cluster| c.workers[0].status().running + c.views()[0].in_flight == 0;
    cluster.until("the slot is free", free).await;
    assert!(cluster.workers[0].status().steps <= steps + 1);
    assert_eq!(cluster.workers[0].status().active_blocks, idle);
}

#[tokio::test(start_paused = true)]
async fn workers_join_and_leave_while_serving() {
    use contract::WorkerId;
    use transport::Change;

    let mut cluster = Cluster::start(Setup::default()).await;
    let messages = [user("stay with me")];
    let answer = cluster.chat(&messages).with("max_tokens", 4).answer().await;
    let leaver: u64 = answer.worker.parse().unwrap();
    cluster
        .roster
        .announce(Change::Draining(WorkerId(leaver)))
        .await;
    cluster
        .until("it drains", |c| c.views()[leaver as usize].draining)
        .await;
    let moved = cluster.chat(&messages).with("max_tokens", 4).answer().await;
    assert_ne!(moved.worker, answer.worker);
    cluster.workers.remove(leaver as usize).drain().await;
    cluster
        .roster
        .announce(Change::Left(WorkerId(leaver)))
        .await;
    cluster.until("it has left", |c| c.views().len() == 2).await;
    assert!(
        !cluster
            .registry
            .render(Duration::ZERO)
            .contains(&format!("worker-{leaver}\""))
    );
}

#[tokio::test(start_paused = true)]
async fn everything_simulated_says_so() {
    let cluster = Cluster::start(Setup::default()).await;
    let response = cluster
        .chat(&[user("hello")])
        .with("max_tokens", 2)
        .send()
        .await;
    assert_eq!(response.headers()["x-homing-simulated"], "true");
    assert_eq!(cluster.get("/workers").await["simulated"], true);
    assert_eq!(
        cluster.get("/v1/models").await["data"][0]["simulated"],
        true
    );
    let answer = cluster
        .chat(&[user("hello")])
        .with("max_tokens", 9)
        .answer()
        .await;
    assert!(answer.text.starts_with("[simulated]"), "{}", answer.text);
}
