//! Engines that are full, refuse, break off or go away.

use adapters::EngineKind;
use contract::LinkError;
use serde_json::json;

use crate::harness::{Bench, Service, request, run, until};
use crate::standin::{Build, EngineTokenizer, Mood, StandIn};

async fn one(kind: EngineKind) -> (StandIn, Bench, transport::Member) {
    let engine = StandIn::start(Build::new(kind)).await;
    let mut bench = Bench::start(&[engine.spec("")]);
    let member = bench.joined().await;
    (engine, bench, member)
}

#[tokio::test]
async fn a_full_engine_is_not_a_broken_one() {
    let (engine, _bench, member) = one(EngineKind::Vllm).await;
    for status in [429, 503, 529] {
        engine.feels(Mood::Refusing(status));
        let (_, error) = run(&*member.link, request(&[1, 2, 3], 2))
            .await
            .unwrap_err();
        assert!(matches!(error, LinkError::Overloaded { .. }), "{error}");
        assert!(!error.blames_worker());
    }
    engine.feels(Mood::Refusing(400));
    let (_, error) = run(&*member.link, request(&[1, 2, 3], 2))
        .await
        .unwrap_err();
    assert!(matches!(error, LinkError::TooLarge { .. }), "{error}");
    engine.feels(Mood::Refusing(500));
    let (_, error) = run(&*member.link, request(&[1, 2, 3], 2))
        .await
        .unwrap_err();
    assert!(matches!(error, LinkError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn an_engine_that_breaks_off_is_an_error_and_not_an_end() {
    let (engine, _bench, member) = one(EngineKind::Vllm).await;
    engine.feels(Mood::DyingAfter(3));
    let (chunks, error) = run(&*member.link, request(&[1, 2, 3], 10))
        .await
        .unwrap_err();
    assert!(matches!(error, LinkError::Interrupted { .. }), "{error}");
    assert!(chunks.len() <= 3);
    assert!(chunks.iter().all(|chunk| chunk.finish.is_none()));
}

#[tokio::test]
async fn the_answer_goes_on_at_another_engine() {
    let (left, right) = (
        StandIn::start(Build::new(EngineKind::Vllm)).await,
        StandIn::start(Build::new(EngineKind::Vllm)).await,
    );
    let service = Service::start(&[left.spec(""), right.spec("")]).await;
    left.feels(Mood::DyingAfter(5));
    right.feels(Mood::DyingAfter(5));
    let both = async {
        until("somebody got it", async || {
            !left.seen().is_empty() || !right.seen().is_empty()
        })
        .await;
        left.feels(Mood::Well);
        right.feels(Mood::Well);
    };
    let messages = [json!({"role": "user", "content": "Hello"})];
    let (answer, ()) = tokio::join!(service.chat(&messages, 20), both);
    assert_eq!(answer["usage"]["completion_tokens"], json!(20));
    let requests = [left.seen(), right.seen()].concat();
    let shortest = requests.iter().map(|seen| seen.prompt.len()).min().unwrap();
    for seen in &requests {
        let given = (seen.prompt.len() - shortest) as u64;
        assert_eq!(
            seen.body["max_tokens"],
            json!(20 - given),
            "what was answered counts"
        );
    }
}

#[tokio::test]
async fn an_engine_that_falls_ill_leaves_and_comes_back() {
    let (engine, mut bench, mut member) = one(EngineKind::Vllm).await;
    engine.feels(Mood::Ill);
    while member.feed.next().await.is_some() {}
    let (_, error) = run(&*member.link, request(&[1, 2, 3], 2))
        .await
        .unwrap_err();
    assert!(matches!(error, LinkError::Unreachable { .. }), "{error}");
    engine.feels(Mood::Well);
    let again = bench.joined().await;
    assert_eq!(again.card.id, member.card.id);
    run(&*again.link, request(&[1, 2, 3], 2)).await.unwrap();
    assert_eq!(bench.counted("homing_engines_joined_total", &[]), 2.0);
    assert_eq!(bench.counted("homing_engines_lost_total", &[]), 1.0);
}

#[tokio::test]
async fn an_engine_that_only_says_nothing_is_busy_for_a_while() {
    let (engine, bench, mut member) = one(EngineKind::Vllm).await;
    engine.feels(Mood::Silent);
    let checked = engine.shared.lock().checked;
    // Two checks have failed by the third, which an engine that reports failure does not survive.
    until("it is asked again", async || {
        engine.shared.lock().checked >= checked + 3
    })
    .await;
    run(&*member.link, request(&[1, 2, 3], 2)).await.unwrap();
    assert_eq!(bench.counted("homing_engines_lost_total", &[]), 0.0);
    // With nothing else to show, it is gone in the end.
    while member.feed.next().await.is_some() {}
    until("it is counted", async || {
        bench.counted("homing_engines_lost_total", &[]) == 1.0
    })
    .await;
}

#[tokio::test]
async fn an_engine_of_another_model_does_not_join() {
    let waits = std::time::Duration::from_millis(300);
    let engine = StandIn::start(Build::new(EngineKind::Vllm)).await;
    let mut bench = Bench::start(&[engine.spec(",model=unknown")]);
    assert!(tokio::time::timeout(waits, bench.joined()).await.is_err());
    for (tokenizer, joins) in [
        (EngineTokenizer::Ours, true),
        (EngineTokenizer::Another, false),
    ] {
        let engine = StandIn::start(Build {
            tokenizer,
            ..Build::new(EngineKind::Vllm)
        })
        .await;
        let mut bench = Bench::start(&[engine.spec(",model=org/model")]);
        match joins {
            true => drop(bench.joined().await),
            false => assert!(tokio::time::timeout(waits, bench.joined()).await.is_err()),
        }
    }
}

#[tokio::test]
async fn nobody_there_is_no_reason_to_give_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let spec = format!("openai=http://{}", listener.local_addr().unwrap());
    drop(listener);
    let mut bench = Bench::start(&[spec]);
    let waited = tokio::time::timeout(std::time::Duration::from_millis(200), bench.joined());
    assert!(waited.await.is_err());
}

#[tokio::test]
async fn a_reader_that_goes_away_costs_nothing() {
    let (engine, bench, member) = one(EngineKind::Openai).await;
    let prompt: Vec<u32> = (0..70).collect();
    let mut stream = member.link.generate(request(&prompt, 1000)).await.unwrap();
    // The first bytes may bring no token yet.
    while stream.next().await.unwrap().unwrap().is_keep_alive() {}
    drop(stream);
    let blocks = member.link.snapshot().await.unwrap().blocks.len();
    assert!(blocks >= 2, "the prompt has been computed");
    assert_eq!(engine.seen().len(), 1);
    assert_eq!(bench.counted("homing_engines_answers_total", &[]), 0.0);
}

#[tokio::test]
async fn two_engines_that_cannot_be_told_apart_are_refused() {
    let start = |specs: [&str; 2]| {
        let started = Bench::try_start(&specs.map(str::to_owned));
        started.err().unwrap().to_string()
    };
    let same = start(["openai=http://a:1", "vllm=http://a:1"]);
    assert!(same.contains("id="), "{same}");
    let same = start(["openai=http://a:1,name=x", "vllm=http://b:1,name=x"]);
    assert!(same.contains("name x"), "{same}");
}
