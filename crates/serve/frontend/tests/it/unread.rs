//! Clients that do not read, read slowly, or ask for more than there are slots: nobody else
//! may notice.

use std::time::Duration;

use axum::body::Body;
use contract::{
    FinishReason, GenerateRequest, KvSnapshot, LinkError, Started, TokenChunk, TokenLogprob,
    TokenStream, WorkerCard, WorkerId, token_stream,
};
use engine::sim::Profile;
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use std::sync::Arc;
use transport::{Change, LinkFuture, Member, WorkerLink, feed};

use testkit::{Cluster, Setup, bytes, user};

async fn one_worker(mode: &'static str, queue_limit: u32) -> Cluster {
    let setup = Setup {
        mode,
        workers: 1,
        queue_limit,
        ..Setup::default()
    };
    Cluster::start(setup).await
}

fn slots(cluster: &Cluster) -> usize {
    cluster.views()[0].card.slots as usize
}

fn prompts(count: usize) -> Value {
    let prompt = |number| format!("Prompt {number}: say something.");
    (0..count).map(prompt).collect::<Vec<_>>().into()
}

async fn complete(cluster: &Cluster, mut body: Value) -> Response<Body> {
    body["model"] = json!(cluster.model);
    cluster.call("POST", "/v1/completions", Some(body)).await
}

async fn within<T>(limit: Duration, what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(limit, work).await;
    done.unwrap_or_else(|_| panic!("{what} did not happen within {limit:?}"))
}

#[tokio::test(start_paused = true)]
async fn a_batch_with_more_prompts_than_slots_is_answered_in_waves() {
    // With room to wait for all of them, and with hardly any.
    for (mode, queue_limit) in [("kv", 256), ("kv", 2), ("round-robin", 2)] {
        let cluster = one_worker(mode, queue_limit).await;
        let count = 2 * slots(&cluster);
        for stream in [false, true] {
            let body = json!({ "prompt": prompts(count), "max_tokens": 20, "stream": stream });
            let answering = async { bytes(complete(&cluster, body).await).await };
            let answer = within(Duration::from_secs(60), "an answer", answering).await;
            let answer = String::from_utf8(answer.to_vec()).unwrap();
            let finished = answer.matches("\"finish_reason\":\"length\"").count();
            assert_eq!(finished, count, "{mode}, stream {stream}: {answer}");
        }
        let resting = |c: &Cluster| c.views()[0].in_flight == 0 && c.frontend.in_flight() == 0;
        cluster.until("everything is given back", resting).await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_batches_that_fill_the_fleet_do_not_wait_for_each_other() {
    let cluster = one_worker("kv", 256).await;
    let batch = || json!({ "prompt": prompts(2 * slots(&cluster)), "max_tokens": 20 });
    let both = async {
        tokio::join!(
            complete(&cluster, batch()),
            complete(&cluster, batch()),
            cluster.chat(&[user("and me")]).with("max_tokens", 2).send()
        )
    };
    let (one, two, three) = within(Duration::from_secs(60), "three answers", both).await;
    for response in [one, two, three] {
        assert_eq!(response.status(), StatusCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_begins_with_its_first_prompt_and_not_with_its_last() {
    let cluster = one_worker("kv", 256).await;
    let count = 2 * slots(&cluster);
    let body = json!({
        "prompt": prompts(count), "max_tokens": 400, "ignore_eos": true, "stream": true,
    });
    let response = complete(&cluster, body).await;
    // As many as there are slots have begun, the others wait.
    let waiting = cluster.router.total_queued();
    assert_eq!(waiting as usize, count - slots(&cluster));
    drop(response);
    let empty = |c: &Cluster| c.views()[0].in_flight == 0 && c.router.total_queued() == 0;
    cluster.until("all of it is cancelled", empty).await;
}

#[tokio::test(start_paused = true)]
async fn answers_that_nobody_reads_give_their_slots_back() {
    for mode in ["kv", "round-robin"] {
        let cluster = one_worker(mode, 0).await;
        let mut unread = Vec::new();
        for _ in 0..slots(&cluster) {
            let request = cluster.chat(&[user("I will not read this")]);
            unread.push(
                request
                    .with("stream", true)
                    .with("max_tokens", 40)
                    .send()
                    .await,
            );
        }
        let free = |c: &Cluster| c.views()[0].in_flight == 0;
        cluster.until("the slots are free", free).await;
        assert_eq!(cluster.workers[0].status().running, 0);
        let other = cluster.chat(&[user("I will")]).with("max_tokens", 2);
        let answer = within(Duration::from_secs(5), "an answer", other.answer()).await;
        assert_eq!(answer.usage.completion_tokens, 2);
        // Nothing of what waits is lost on somebody who reads after all.
        let late = bytes(unread.pop().unwrap()).await;
        assert!(late.ends_with(b"data: [DONE]\n\n"));
        assert!(!late.windows(7).any(|window| window == b"\"error\""));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stays_unread_is_given_up_and_says_so() {
    let cluster = one_worker("kv", 256).await;
    let request = cluster.chat(&[user("I will read this much later")]);
    let endless = request.with("ignore_eos", true).with("max_tokens", 20_000);
    let response = endless.with("stream", true).send().await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(cluster.frontend.in_flight(), 1);
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(cluster.views()[0].in_flight, 1, "it may still be read");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(cluster.views()[0].in_flight, 0);
    assert_eq!(cluster.frontend.in_flight(), 0, "its place inside is free");
    let metrics = cluster.registry.render(Duration::ZERO);
    let counted = "homing_frontend_slow_readers_total{model=\"";
    let line = metrics.lines().find(|line| line.starts_with(counted));
    assert!(line.unwrap().ends_with(" 1"), "{line:?}");
    let text = String::from_utf8(bytes(response).await.to_vec()).unwrap();
    assert!(text.contains("client_too_slow"), "{text}");
    assert!(text.ends_with("data: [DONE]\n\n"));
}

#[tokio::test(start_paused = true)]
async fn the_router_learns_how_fast_workers_are_and_not_how_fast_clients_read() {
    let mut learned = Vec::new();
    for pause in [Duration::ZERO, Duration::from_secs(5)] {
        let cluster = one_worker("kv", 256).await;
        for _ in 0..20 {
            let request = cluster.chat(&[user("take your time")]);
            let long = request.with("ignore_eos", true).with("max_tokens", 200);
            let mut body = long.with("stream", true).send().await.into_body();
            while let Some(frame) = body.frame().await {
                frame.unwrap();
                tokio::time::sleep(pause).await;
            }
        }
        learned.push(cluster.views()[0].learned);
    }
    // Not to the last digit: what was learned fades while a client takes its time.
    let alike = |one: f64, two: f64| (one / two - 1.0).abs() < 0.02;
    assert!(alike(learned[0].step_ms, learned[1].step_ms), "{learned:?}");
    let residence = learned.iter().map(|one| one.residence_seconds);
    let residence: Vec<f64> = residence.collect();
    assert!(alike(residence[0], residence[1]), "{learned:?}");
}

/// A worker that answers every request with these tokens, one a chunk, and how likely they were.
#[derive(Debug)]
struct Scripted(Vec<u32>);

impl WorkerLink for Scripted {
    fn generate(&self, _: GenerateRequest) -> LinkFuture<'_, TokenStream> {
        let (mut sender, stream) = token_stream(WorkerId(7));
        for (at, &token) in self.0.iter().enumerate() {
            sender.send(TokenChunk {
                tokens: [token].into_iter().collect(),
                logprobs: vec![TokenLogprob {
                    logprob: -0.5,
                    top: vec![(token, -0.5)],
                }],
                started: (at == 0).then(|| {
                    Box::new(Started {
                        cached_tokens: 0,
                        intake: Duration::ZERO,
                        queue_wait: Duration::ZERO,
                        prefill: Duration::ZERO,
                    })
                }),
                finish: (at + 1 == self.0.len()).then_some(FinishReason::Stop),
                ..TokenChunk::default()
            });
        }
        Box::pin(async { Ok(stream) })
    }

    fn snapshot(&self) -> LinkFuture<'_, KvSnapshot> {
        Box::pin(async { Ok(KvSnapshot::default()) })
    }

    fn reset_cache(&self) -> LinkFuture<'_, ()> {
        Box::pin(async {
            Err(LinkError::Draining {
                worker: WorkerId(7),
            })
        })
    }
}

#[tokio::test(start_paused = true)]
async fn every_token_of_a_stream_has_its_log_probability() {
    let cluster = one_worker("kv", 256).await;
    let refused = cluster.chat(&[user("logprobs")]).with("logprobs", true);
    let refused = refused.send().await;
    assert_eq!(refused.status(), 400, "the simulator has none");
    cluster.roster.announce(Change::Left(WorkerId(0))).await;
    let text = "🦜🧭 and then 🗺️ END of it";
    let tokenizer = preprocess::Preprocessor::embedded(preprocess::PreprocessConfig::default());
    let tokens = tokenizer.encode_plain(text).unwrap();
    let (_publisher, feed) = feed(cluster.clock);
    let member = Member {
        card: WorkerCard {
            abilities: contract::Abilities::ALL,
            ..Profile::named(engine::sim::DEFAULT_PROFILE)
                .unwrap()
                .card(WorkerId(7), "scripted")
        },
        link: Arc::new(Scripted(tokens.clone())),
        feed,
        warm: false,
        lease: None,
    };
    cluster
        .roster
        .announce(Change::Joined(Box::new(member)))
        .await;
    let joined = |c: &Cluster| c.views().iter().any(|view| view.card.id == WorkerId(7));
    cluster.until("it has joined", joined).await;
    let chat = cluster.chat(&[user("logprobs")]).with("logprobs", true);
    // Held back: parts of characters, and what may become a stop string.
    let chat = chat.with("stop", "ENDING").with("stream", true);
    let (events, listed) = events(chat.send().await, |choice| {
        let content = &choice["logprobs"]["content"];
        content.as_array().map_or(0, Vec::len)
    })
    .await;
    assert_eq!(listed, tokens.len());
    assert!(events < tokens.len(), "some text was held back");

    let body = json!({ "prompt": "Echo: é. ", "echo": true, "logprobs": 1, "stream": true });
    let mut offsets = Vec::new();
    let (_, listed) = self::events(complete(&cluster, body).await, |choice| {
        let lists = &choice["logprobs"];
        offsets.extend(
            lists["text_offset"]
                .as_array()
                .into_iter()
                .flatten()
                .cloned(),
        );
        lists["tokens"].as_array().map_or(0, Vec::len)
    })
    .await;
    let echoed = tokenizer.encode_plain("Echo: é. ").unwrap().len();
    assert_eq!(listed, echoed + tokens.len());
    assert!(offsets.is_sorted_by_key(|offset| offset.as_u64()));
    assert_eq!(offsets[echoed], json!("Echo: é. ".chars().count()));
}

/// Events with text, and the sum of what `count` finds in their choices.
async fn events(
    response: Response<Body>,
    mut count: impl FnMut(&Value) -> usize,
) -> (usize, usize) {
    let text = String::from_utf8(bytes(response).await.to_vec()).unwrap();
    let data = text
        .split_terminator("\n\n")
        .map(|event| &event["data: ".len()..]);
    let events = data.filter(|event| *event != "[DONE]");
    let mut found = (0, 0);
    for event in events {
        let event: Value = serde_json::from_str(event).unwrap();
        found.0 += 1;
        found.1 += count(&event["choices"][0]);
    }
    found
}
