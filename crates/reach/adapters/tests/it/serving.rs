//! Requests through a whole frontend: turns go home, and the figures are the engine's.

use adapters::{EngineKind, SharedEstimates};
use contract::{FeedMessage, LocalHash, ModelName, Processed};
use serde_json::{Value, json};
use transport::Member;

use crate::harness::{Bench, Service, request, run, until};
use crate::standin::{Build, StandIn};

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// Conversations of three turns on two engines: each turn after the first goes where the
/// conversation is, and what was predicted is what the engine found.
async fn turns_go_home(build: Build) {
    let (left, right) = (StandIn::start(build).await, StandIn::start(build).await);
    let specs = [
        left.spec(",slots=8,name=left"),
        right.spec(",slots=8,name=right"),
    ];
    let service = Service::by_blocks(&specs).await;
    for conversation in 0..4 {
        let mut messages = vec![user(&format!(
            "Story {conversation}. {}",
            "Tell me more of it. ".repeat(40)
        ))];
        let mut home = None;
        for turn in 0..3 {
            let before = [left.seen().len(), right.seen().len()];
            let indexed = service.indexed();
            let answer = service.chat(&messages, 40).await;
            let engine = if left.seen().len() > before[0] {
                &left
            } else {
                &right
            };
            let seen = engine.last();
            let at = engine.url.clone();
            let decision = service.router.decisions(1).remove(0);
            let reported = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
                .as_u64()
                .unwrap();
            assert_eq!(reported as usize, seen.cached, "{} turn {turn}", build.kind);
            assert_eq!(answer["usage"]["prompt_tokens"], json!(seen.prompt.len()));
            if let Some(home) = &home {
                assert_eq!(home, &at, "{} turn {turn} went elsewhere", build.kind);
                assert!(seen.cached > 0);
                assert_eq!(decision.predicted_cached_tokens as usize, seen.cached);
            }
            home = Some(at);
            let text = answer["choices"][0]["message"]["content"]
                .as_str()
                .unwrap()
                .to_owned();
            messages.push(json!({"role": "assistant", "content": text}));
            messages.push(user("And then?"));
            until("the new blocks are known", async || {
                service.indexed() > indexed
            })
            .await;
        }
    }
}

#[tokio::test]
async fn turns_go_home_to_vllm() {
    turns_go_home(Build::new(EngineKind::Vllm)).await;
}

#[tokio::test]
async fn turns_go_home_to_sglang() {
    turns_go_home(Build::new(EngineKind::Sglang)).await;
}

#[tokio::test]
async fn turns_go_home_to_tensorrt_llm() {
    turns_go_home(Build::new(EngineKind::Trtllm)).await;
}

#[tokio::test]
async fn turns_go_home_to_a_server_without_events() {
    turns_go_home(Build::new(EngineKind::Openai)).await;
}

#[tokio::test]
async fn text_comes_out_as_the_engine_gave_it() {
    let engine = StandIn::start(Build::new(EngineKind::Openai)).await;
    let service = Service::start(&[engine.spec("")]).await;
    let answer = service.chat(&[user("Hello")], 15).await;
    let text = " The quick brown fox jumps, again The quick brown fox jumps, again The";
    assert_eq!(answer["choices"][0]["message"]["content"], json!(text));
}

#[tokio::test]
async fn what_the_engine_is_stands_on_its_card() {
    for (kind, slots) in [
        (EngineKind::Vllm, 0),
        (EngineKind::Sglang, 48),
        (EngineKind::Trtllm, 0),
    ] {
        let engine = StandIn::start(Build::new(kind)).await;
        let mut bench = Bench::start(&[engine.spec("")]);
        let mut member = bench.joined().await;
        assert_eq!(member.card.engine, kind.as_str());
        assert_eq!(
            (member.card.total_blocks, member.card.slots),
            (1000, slots),
            "{kind}"
        );
        assert_eq!(member.card.max_context_tokens, 131_072);
        assert!(!member.card.simulated);
        let status = loop {
            if let contract::FeedMessage::Status(status) = member.feed.next().await.unwrap().message
            {
                break status;
            }
        };
        assert_eq!(
            (status.running, status.waiting, status.active_blocks),
            (2, 1, 500),
            "{kind}"
        );
    }
}

#[tokio::test]
async fn the_engines_model_name_is_used_and_salts_keep_apart() {
    for kind in [EngineKind::Vllm, EngineKind::Sglang] {
        let engine = StandIn::start(Build::new(kind)).await;
        let mut bench = Bench::start(&[engine.spec("")]);
        let member = bench.joined().await;
        let prompt: Vec<u32> = (0..100).collect();
        let mut salted = request(&prompt, 4);
        salted.hash_seed = contract::HashSeed::new("", "tenant");
        run(&*member.link, salted.clone()).await.unwrap();
        assert_eq!(engine.last().body["model"], json!("org/model"));
        until("the blocks are known", async || {
            member.link.snapshot().await.unwrap().blocks.len() == 3
        })
        .await;
        let mut held = member.link.snapshot().await.unwrap().blocks;
        held.sort();
        let mut expected = contract::block_chain(&prompt, 32, salted.hash_seed);
        expected.sort();
        assert_eq!(held, expected, "{kind}");
        run(&*member.link, request(&prompt, 4)).await.unwrap();
        assert_eq!(engine.last().cached, 0);
        run(&*member.link, salted).await.unwrap();
        assert_eq!(engine.last().cached, 96);
        assert_eq!(
            bench.counted("homing_engines_cached_mismatches_total", &[]),
            0.0
        );
    }
}

#[tokio::test]
async fn a_vllm_that_gives_text_only_is_understood() {
    let mut build = Build::new(EngineKind::Vllm);
    build.gives_ids = false;
    let engine = StandIn::start(build).await;
    let service = Service::start(&[engine.spec("")]).await;
    let answer = service.chat(&[user("Hello")], 7).await;
    let text = " The quick brown fox jumps, again";
    assert_eq!(answer["choices"][0]["message"]["content"], json!(text));
}

#[tokio::test]
async fn an_engine_that_should_publish_and_does_not_is_guessed() {
    let mut build = Build::new(EngineKind::Vllm);
    build.reports_cached = false;
    let engine = StandIn::start(build).await;
    engine.loses(0..1000);
    let mut bench = Bench::start(&[engine.spec_without_replay("")]);
    let member = bench.joined().await;
    let prompt: Vec<u32> = (0..100).collect();
    for _ in 0..8 {
        assert!(member.link.snapshot().await.unwrap().blocks.is_empty());
        run(&*member.link, request(&prompt, 4)).await.unwrap();
    }
    assert_eq!(member.link.snapshot().await.unwrap().blocks.len(), 3);
}

async fn blocks_of(member: &Member) -> usize {
    member.link.snapshot().await.unwrap().blocks.len()
}

#[tokio::test]
async fn frontends_believe_the_same_of_an_engine_without_events() {
    let engine = StandIn::start(Build::new(EngineKind::Openai)).await;
    let specs = [engine.spec(",slots=8")];
    let (here, there) = (SharedEstimates::default(), SharedEstimates::default());
    let mut told = here.ours();
    let mut first = Bench::sharing(&specs, &here);
    let mut second = Bench::sharing(&specs, &there);
    let (ours, theirs) = (first.joined().await, second.joined().await);
    let prompt: Vec<u32> = (100..400).collect();
    run(&*ours.link, request(&prompt, 4)).await.unwrap();
    let processed = told.try_recv().unwrap();
    there.hear(&processed);
    // What comes back is known.
    here.hear(&processed);
    assert_eq!((blocks_of(&ours).await, blocks_of(&theirs).await), (9, 9));
}

#[tokio::test]
async fn an_engines_own_events_are_not_added_to() {
    for (kind, believed) in [(EngineKind::Openai, 3), (EngineKind::Vllm, 0)] {
        let engine = StandIn::start(Build::new(kind)).await;
        let shared = SharedEstimates::default();
        let mut bench = Bench::sharing(&[engine.spec(",slots=8")], &shared);
        let member = bench.joined().await;
        let processed = |block_size| Processed {
            model: ModelName::new("served"),
            worker: member.card.id,
            block_size,
            blocks: [1, 2, 3].map(LocalHash).into(),
        };
        // Blocks of another size are others.
        shared.hear(&processed(16));
        assert_eq!(blocks_of(&member).await, 0);
        shared.hear(&processed(32));
        assert_eq!(blocks_of(&member).await, believed, "{kind}");
    }
}

/// What an engine drafts is shown of its worker and counted, by the drafter that was named.
async fn drafts_are_told(kind: EngineKind, option: &str, drafter: &str) {
    let build = Build {
        drafts: true,
        ..Build::new(kind)
    };
    let engine = StandIn::start(build).await;
    let mut bench = Bench::start(&[engine.spec(option)]);
    let mut member = bench.joined().await;
    assert_eq!(member.card.speculation, drafter);
    let status = loop {
        if let FeedMessage::Status(status) = member.feed.next().await.unwrap().message {
            break status;
        }
    };
    let counts = &status.speculation;
    let told = (counts.drafts, counts.drafted_tokens, counts.accepted_tokens);
    assert_eq!(told, (100, 300, 150), "{kind}");
    let method = format!("method=\"{drafter}\"");
    for (name, value) in [
        ("homing_speculation_drafts_total", 100.0),
        ("homing_speculation_drafted_tokens_total", 300.0),
        ("homing_speculation_accepted_tokens_total", 150.0),
    ] {
        assert_eq!(bench.counted(name, &[&method]), value, "{kind} {name}");
    }
}

#[tokio::test]
async fn drafts_of_vllm_are_told() {
    drafts_are_told(EngineKind::Vllm, ",drafts=draft", "draft-model").await;
    drafts_are_told(EngineKind::Vllm, ",drafts=eagle3", "eagle3").await;
    drafts_are_told(EngineKind::Vllm, "", "unknown").await;
}

#[tokio::test]
async fn drafts_of_tensorrt_llm_are_told() {
    drafts_are_told(EngineKind::Trtllm, ",drafts=draft", "draft-model").await;
}

#[tokio::test]
async fn an_engine_that_does_not_draft_has_no_such_figures() {
    let engine = StandIn::start(Build::new(EngineKind::Vllm)).await;
    let mut bench = Bench::start(&[engine.spec("")]);
    let member = bench.joined().await;
    assert_eq!(member.card.speculation, "none");
    assert!(
        !bench
            .registry
            .render(std::time::Duration::ZERO)
            .contains("homing_speculation")
    );
}
