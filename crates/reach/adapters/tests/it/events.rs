//! Events that are lost, late, of the wrong size or from before.

use adapters::EngineKind;
use contract::{HashSeed, block_chain};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;
use transport::WorkerLink;

use crate::harness::{Bench, request, run, until};
use crate::standin::{Build, StandIn};

fn text(first: u32) -> Vec<u32> {
    (first..first + 70).collect()
}

async fn held(link: &dyn WorkerLink) -> Vec<contract::BlockHash> {
    let mut blocks = link.snapshot().await.unwrap().blocks;
    blocks.sort();
    blocks
}

fn blocks_of(texts: &[Vec<u32>]) -> Vec<contract::BlockHash> {
    let chains = texts
        .iter()
        .flat_map(|text| block_chain(text, 32, HashSeed::BASE));
    let mut blocks: Vec<_> = chains.collect();
    blocks.sort();
    blocks
}

/// A subscription takes a moment to reach the engine, and what is published before is lost
/// without a trace. Talks until something is heard, and wipes it away.
async fn until_heard(engine: &StandIn, link: &dyn WorkerLink) {
    let mut start = 100_000;
    until("the engine is heard", async || {
        start += 1000;
        engine.works_on(&text(start));
        !held(link).await.is_empty()
    })
    .await;
    link.reset_cache().await.unwrap();
    until("it is forgotten", async || held(link).await.is_empty()).await;
}

#[tokio::test]
async fn what_was_there_before_is_learned_by_replay() {
    for kind in [EngineKind::Vllm, EngineKind::Sglang] {
        let engine = StandIn::start(Build::new(kind)).await;
        engine.works_on(&text(0));
        engine.works_on(&text(1000));
        let mut bench = Bench::start(&[engine.spec("")]);
        let member = bench.joined().await;
        assert!(member.warm);
        let expected = blocks_of(&[text(0), text(1000)]);
        until("the past is known", async || {
            held(&*member.link).await == expected
        })
        .await;
    }
}

#[tokio::test]
async fn lost_events_are_asked_for_again() {
    for kind in [EngineKind::Vllm, EngineKind::Sglang] {
        let engine = StandIn::start(Build::new(kind)).await;
        let mut bench = Bench::start(&[engine.spec("")]);
        let member = bench.joined().await;
        engine.works_on(&text(0));
        let first = blocks_of(&[text(0)]);
        until("events come", async || held(&*member.link).await == first).await;
        engine.loses([0, 1]);
        for start in [1000, 2000, 3000] {
            engine.works_on(&text(start));
        }
        let all = blocks_of(&[text(0), text(1000), text(2000), text(3000)]);
        until("the gap is filled", async || {
            held(&*member.link).await == all
        })
        .await;
        let gaps = |outcome| bench.counted("homing_engines_event_gaps_total", &[outcome]);
        assert!(gaps("replayed") >= 1.0);
        assert_eq!(gaps("forgotten"), 0.0);
    }
}

#[tokio::test]
async fn the_loss_of_the_last_event_is_noticed() {
    let engine = StandIn::start(Build::new(EngineKind::Vllm)).await;
    let mut bench = Bench::start(&[engine.spec("")]);
    let member = bench.joined().await;
    engine.loses([1]);
    engine.works_on(&text(0));
    engine.works_on(&text(1000));
    let all = blocks_of(&[text(0), text(1000)]);
    until("the end is known", async || {
        held(&*member.link).await == all
    })
    .await;
}

#[tokio::test]
async fn a_gap_that_cannot_be_filled_empties_the_picture_and_goes_on() {
    let engine = StandIn::start(Build::new(EngineKind::Vllm)).await;
    let mut bench = Bench::start(&[engine.spec_without_replay("")]);
    let member = bench.joined().await;
    until_heard(&engine, &*member.link).await;
    engine.works_on(&text(0));
    let first = blocks_of(&[text(0)]);
    until("events come", async || held(&*member.link).await == first).await;
    engine.loses([0]);
    engine.works_on(&text(1000));
    engine.works_on(&text(2000));
    let rest = blocks_of(&[text(2000)]);
    until("only what is certain is left", async || {
        held(&*member.link).await == rest
    })
    .await;
    assert_eq!(
        bench.counted("homing_engines_event_gaps_total", &["forgotten"]),
        1.0
    );
    // An answer shows that the first text is still there.
    run(&*member.link, request(&text(0), 2)).await.unwrap();
    assert_eq!(engine.last().cached, 64);
    let known = blocks_of(&[text(0), text(2000)]);
    until("the answer was heeded", async || {
        held(&*member.link).await == known
    })
    .await;
}

#[tokio::test]
async fn a_replay_that_has_forgotten_too_much_is_no_repair() {
    let engine = StandIn::start(Build::new(EngineKind::Vllm)).await;
    let mut bench = Bench::start(&[engine.spec("")]);
    let member = bench.joined().await;
    engine.works_on(&text(0));
    let first = blocks_of(&[text(0)]);
    until("events come", async || held(&*member.link).await == first).await;
    engine.keeps(1);
    engine.loses([0, 1]);
    for start in [1000, 2000, 3000] {
        engine.works_on(&text(start));
    }
    let rest = blocks_of(&[text(3000)]);
    until("only what is certain is left", async || {
        held(&*member.link).await == rest
    })
    .await;
}

#[tokio::test]
async fn evictions_are_followed() {
    for kind in [EngineKind::Vllm, EngineKind::Sglang, EngineKind::Trtllm] {
        let mut build = Build::new(kind);
        build.blocks = 4;
        let engine = StandIn::start(build).await;
        let mut bench = Bench::start(&[engine.spec("")]);
        let member = bench.joined().await;
        for start in [0, 1000, 2000] {
            engine.works_on(&text(start));
        }
        let rest = blocks_of(&[text(1000), text(2000)]);
        until("the oldest have gone", async || {
            held(&*member.link).await == rest
        })
        .await;
    }
}

#[tokio::test]
async fn a_cache_that_is_reset_is_empty() {
    for kind in [EngineKind::Vllm, EngineKind::Sglang] {
        let engine = StandIn::start(Build::new(kind)).await;
        let mut bench = Bench::start(&[engine.spec("")]);
        let member = bench.joined().await;
        engine.works_on(&text(0));
        let first = blocks_of(&[text(0)]);
        until("events come", async || held(&*member.link).await == first).await;
        member.link.reset_cache().await.unwrap();
        until("nothing is held", async || {
            held(&*member.link).await.is_empty()
        })
        .await;
    }
    let engine = StandIn::start(Build::new(EngineKind::Openai)).await;
    let mut bench = Bench::start(&[engine.spec("")]);
    let member = bench.joined().await;
    let refused = member.link.reset_cache().await.unwrap_err().to_string();
    assert!(refused.contains("openai cannot be told"), "{refused}");
}

#[tokio::test]
async fn events_that_somebody_else_took_empty_the_picture() {
    let engine = StandIn::start(Build::new(EngineKind::Trtllm)).await;
    let mut bench = Bench::start(&[engine.spec("")]);
    let member = bench.joined().await;
    engine.works_on(&text(0));
    let first = blocks_of(&[text(0)]);
    until("events come", async || held(&*member.link).await == first).await;
    engine.shared.lock().next_event += 1;
    engine.works_on(&text(1000));
    let rest = blocks_of(&[text(1000)]);
    until("only what is certain is left", async || {
        held(&*member.link).await == rest
    })
    .await;
}

#[tokio::test]
async fn a_guess_is_corrected_by_what_the_engine_found() {
    let mut build = Build::new(EngineKind::Openai);
    build.blocks = 4;
    let engine = StandIn::start(build).await;
    let mut bench = Bench::start(&[engine.spec("")]);
    let member = bench.joined().await;
    for start in [0, 1000, 2000] {
        run(&*member.link, request(&text(start), 2)).await.unwrap();
    }
    assert_eq!(
        held(&*member.link).await.len(),
        6,
        "it does not know how small the engine is"
    );
    run(&*member.link, request(&text(0), 2)).await.unwrap();
    assert_eq!(engine.last().cached, 0);
    let rest = blocks_of(&[text(0), text(1000), text(2000)]);
    assert_eq!(held(&*member.link).await, rest, "and what is younger stays");
    run(&*member.link, request(&text(2000), 2)).await.unwrap();
    run(&*member.link, request(&text(1000), 2)).await.unwrap();
    assert_eq!(engine.last().cached, 0);
    assert_eq!(
        bench.counted("homing_engines_cached_mismatches_total", &[]),
        2.0
    );
}

#[tokio::test]
async fn blocks_of_another_size_are_refused() {
    for says in [true, false] {
        let mut build = Build::new(EngineKind::Vllm);
        build.block_size = 16;
        build.says_block_size = says;
        let engine = StandIn::start(build).await;
        engine.works_on(&text(0));
        let mut bench = Bench::start(&[engine.spec("")]);
        let waited = tokio::time::timeout(std::time::Duration::from_millis(300), bench.joined());
        assert!(waited.await.is_err(), "it joined");
    }
}

#[tokio::test]
async fn blocks_that_turn_out_to_be_of_another_size_end_it() {
    let mut build = Build::new(EngineKind::Vllm);
    build.block_size = 16;
    build.says_block_size = false;
    let engine = StandIn::start(build).await;
    let mut bench = Bench::start(&[engine.spec("")]);
    let mut member = bench.joined().await;
    engine.works_on(&text(0));
    while member.feed.next().await.is_some() {}
    assert!(member.link.snapshot().await.is_err());
    let waited = tokio::time::timeout(std::time::Duration::from_millis(300), bench.joined());
    assert!(waited.await.is_err(), "it joined again");
}

#[tokio::test]
async fn an_engine_that_starts_anew_holds_nothing_of_before() {
    for replay in [true, false] {
        let engine = StandIn::start(Build::new(EngineKind::Vllm)).await;
        let spec = if replay {
            engine.spec("")
        } else {
            engine.spec_without_replay("")
        };
        let mut bench = Bench::start(&[spec]);
        let member = bench.joined().await;
        until_heard(&engine, &*member.link).await;
        for start in [0, 1000, 2000] {
            engine.works_on(&text(start));
        }
        let before = blocks_of(&[text(0), text(1000), text(2000)]);
        until("events come", async || held(&*member.link).await == before).await;
        engine.begins_anew();
        if replay {
            until("it is noticed", async || {
                held(&*member.link).await.is_empty()
            })
            .await;
        }
        engine.works_on(&text(3000));
        let after = blocks_of(&[text(3000)]);
        until("only the new is held", async || {
            held(&*member.link).await == after
        })
        .await;
    }
}

#[tokio::test]
async fn an_engine_whose_events_cannot_be_reached_serves() {
    let engine = StandIn::start(Build::new(EngineKind::Vllm)).await;
    let real = engine
        .shared
        .lock()
        .publisher
        .as_ref()
        .unwrap()
        .events
        .clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let spec = format!("vllm={},events=tcp://{address}", engine.url);
    let mut bench = Bench::start(&[spec]);
    let member = bench.joined().await;
    run(&*member.link, request(&text(0), 2)).await.unwrap();
    // What was sent there is believed to be there.
    assert_eq!(held(&*member.link).await, blocks_of(&[text(0)]));

    // The events become reachable, and say something else.
    let listener = TcpListener::bind(address).await.unwrap();
    let real = real.strip_prefix("tcp://").unwrap().to_owned();
    let proxy = TaskTracker::new().spawn(async move {
        let (mut from, _) = listener.accept().await.unwrap();
        let mut to = tokio::net::TcpStream::connect(real).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
    });
    let mut start = 100_000;
    until("events are heard", async || {
        start += 1000;
        engine.works_on(&text(start));
        let held = held(&*member.link).await;
        !held.is_empty() && !held.contains(&blocks_of(&[text(0)])[0])
    })
    .await;
    proxy.abort();
}
