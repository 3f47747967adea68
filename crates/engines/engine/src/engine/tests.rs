//! The loop on a paused clock.

use std::collections::BTreeSet;

use contract::random::mix;
use contract::{
    BlockHash, FinishReason, HashSeed, KvEvent, OutputLimits, RequestId, Sampling, TokenId,
};
use telemetry::Registry;

use super::*;
use crate::executor::{Batch, RowOutput, StepOutput};
use crate::sim::{AnswerBank, Profile, SimExecutor};

const WORKER: WorkerId = WorkerId(4);

struct World {
    handle: EngineHandle,
    messages: Arc<Mutex<Vec<FeedMessage>>>,
    tasks: TaskTracker,
    drain: CancellationToken,
    registry: Registry,
}

fn profile(name: &str) -> Profile {
    Profile::named(name).unwrap()
}

fn start<E: Executor>(executor: E) -> World {
    start_with(executor, |_| {})
}

/// Starts an engine whose messages are also shown to `witness`, as they come.
fn start_with<E: Executor>(
    executor: E,
    mut witness: impl FnMut(&FeedMessage) + Send + 'static,
) -> World {
    let messages = Arc::new(Mutex::new(Vec::new()));
    let (tasks, drain, registry) = (
        TaskTracker::new(),
        CancellationToken::new(),
        Registry::new(),
    );
    let card = profile("h200-llama-70b-fp8").card(WORKER, "worker-4");
    let feed = Arc::clone(&messages);
    let wiring = Wiring {
        worker: WORKER,
        epoch: 11,
        clock: Clock::start(),
        metrics: EngineMetrics::new(&registry, &card, executor.limits().draft_tokens),
        feed: Box::new(move |message| {
            witness(&message);
            feed.lock().push(message);
        }),
    };
    let handle = Engine::spawn(executor, wiring, &tasks, drain.clone());
    tasks.close();
    World {
        handle,
        messages,
        tasks,
        drain,
        registry,
    }
}

fn simulated(name: &str) -> World {
    start(SimExecutor::new(
        &profile(name),
        Arc::new(AnswerBank::default()),
        1,
    ))
}

fn request(prompt_tokens: u32, max_tokens: u32) -> GenerateRequest {
    GenerateRequest {
        id: RequestId::new("test"),
        nonce: 0,
        trace: None,
        prompt: (0..prompt_tokens).collect(),
        answered: std::sync::Arc::default(),
        hash_seed: HashSeed::BASE,
        limits: OutputLimits {
            max_tokens,
            min_tokens: 0,
            ignore_eos: true,
            eos_tokens: [1_000_000].into(),
        },
        sampling: Sampling::default(),
        logprobs: None,
        grammar: None,
    }
}

async fn read(stream: &mut TokenStream) -> Result<(Vec<TokenId>, FinishReason), LinkError> {
    let mut tokens = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk?;
        tokens.extend(chunk.tokens);
        if let Some(finish) = chunk.finish {
            return Ok((tokens, finish));
        }
    }
    panic!("a stream ends with a finish or an error");
}

impl World {
    /// What a router that heard everything believes, after checking the numbering.
    fn replay(&self) -> (BTreeSet<BlockHash>, u64) {
        let mut believed = BTreeSet::new();
        let mut next = 0;
        for message in &*self.messages.lock() {
            let FeedMessage::Kv(batch) = message else {
                continue;
            };
            assert_eq!(
                (batch.worker, batch.epoch, batch.sequence),
                (WORKER, 11, next)
            );
            assert!(!batch.events.is_empty());
            next += 1;
            for event in &batch.events {
                match event {
                    KvEvent::Stored { blocks, .. } => {
                        believed.extend(blocks.iter().map(|block| block.hash));
                    }
                    KvEvent::Removed { blocks } => believed.retain(|hash| !blocks.contains(hash)),
                    KvEvent::Cleared => believed.clear(),
                }
            }
        }
        (believed, next)
    }

    fn statuses(&self) -> Vec<WorkerStatus> {
        let messages = self.messages.lock();
        let statuses = messages.iter().filter_map(|message| {
            let FeedMessage::Status(status) = message else {
                return None;
            };
            Some(status.clone())
        });
        statuses.collect()
    }

    async fn until_idle(&self) {
        while self.handle.status().running + self.handle.status().waiting > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_served_in_the_profiles_time() {
    let world = simulated("h200-llama-70b-fp8");
    let began = tokio::time::Instant::now();
    let mut stream = world.handle.generate(request(3_500, 101)).unwrap();
    let first = stream.next().await.unwrap().unwrap();
    let started = first.started.unwrap();
    assert_eq!(started.cached_tokens, 0);
    assert!(started.prefill.abs_diff(Duration::from_millis(405)) < Duration::from_millis(5));
    let (tokens, finish) = read(&mut stream).await.unwrap();
    assert_eq!((tokens.len(), finish), (100, FinishReason::Length));
    // 405 ms and a hundred steps of 18.24 ms.
    let took = began.elapsed().as_secs_f64();
    assert!((took - 2.229).abs() < 0.01, "{took}");
}

#[tokio::test(start_paused = true)]
async fn feed_and_snapshot_agree_and_turns_reuse_blocks() {
    let world = simulated("h200-llama-70b-fp8");
    let mut first = world.handle.generate(request(320, 64)).unwrap();
    read(&mut first).await.unwrap();
    let (believed, next) = world.replay();
    assert_eq!(
        believed.len(),
        (320 + 63) / 32,
        "heard before the answer's end was read"
    );
    let snapshot = world.handle.snapshot().await.unwrap();
    assert_eq!((snapshot.epoch, snapshot.next_sequence), (11, next));
    assert_eq!(
        snapshot.blocks.into_iter().collect::<BTreeSet<_>>(),
        believed
    );
    let mut second = world.handle.generate(request(330, 4)).unwrap();
    let chunk = second.next().await.unwrap().unwrap();
    assert_eq!(chunk.started.unwrap().cached_tokens, 320);
    world.handle.reset_cache().await.unwrap();
    assert!(world.replay().0.is_empty());
    assert_eq!(world.handle.snapshot().await.unwrap().blocks, []);
}

#[tokio::test(start_paused = true)]
async fn the_feed_hears_of_blocks_before_the_reader_sees_the_answer() {
    let stream: Arc<Mutex<Option<TokenStream>>> = Arc::default();
    let early = Arc::new(Mutex::new(Vec::new()));
    let (reader, arrived) = (Arc::clone(&stream), Arc::clone(&early));
    let executor = SimExecutor::new(&profile("zero-delay"), Arc::default(), 1);
    let world = start_with(executor, move |message| {
        if let (FeedMessage::Kv(_), Some(stream)) = (message, &mut *reader.lock()) {
            arrived.lock().push(stream.try_next().is_some());
        }
    });
    *stream.lock() = Some(world.handle.generate(request(32, 1)).unwrap());
    while early.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(*early.lock(), [false]);
    let mut stream = stream.lock().take().unwrap();
    assert!(stream.try_next().unwrap().unwrap().finish.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_stream_frees_everything_within_a_step() {
    let world = simulated("h200-llama-70b-fp8");
    let mut stream = world.handle.generate(request(100, 5_000)).unwrap();
    stream.next().await.unwrap().unwrap();
    assert_eq!(world.handle.status().running, 1);
    drop(stream);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let status = world.handle.status();
    assert_eq!((status.running, status.active_blocks), (0, 0));
    assert!(status.cached_blocks > 0);
}

#[tokio::test(start_paused = true)]
async fn statuses_are_paced_and_settle_when_idle() {
    let world = simulated("h200-llama-70b-fp8");
    let mut stream = world.handle.generate(request(100, 1_000)).unwrap();
    read(&mut stream).await.unwrap();
    world.until_idle().await;
    // Some 18 seconds of steps: at most one status for each 50 ms.
    let busy = world.statuses();
    assert!((200..=375).contains(&busy.len()), "{}", busy.len());
    assert!(busy[100].utilization > 0.95 && busy[100].running == 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let last = world.statuses().pop().unwrap();
    assert_eq!(
        (last.running, last.utilization, last.output_tokens),
        (0, 0.0, 1_000)
    );
    assert!(
        world.statuses().len() < busy.len() + 4,
        "an idle engine is silent"
    );
    assert_eq!(world.handle.status(), last);
    let text = world.registry.render(Duration::ZERO);
    assert!(
        text.contains("homing_engine_steps_total{worker_id=\"4\"} 1000\n"),
        "{text}"
    );
    assert!(
        text.contains("homing_engine_step_tokens_total{worker_id=\"4\",phase=\"prefill\"} 100\n")
    );
}

#[tokio::test(start_paused = true)]
async fn draining_finishes_what_runs_and_refuses_the_rest() {
    let world = simulated("h200-llama-70b-fp8");
    let mut stream = world.handle.generate(request(100, 50)).unwrap();
    world.drain.cancel();
    let refused = world.handle.generate(request(100, 50)).unwrap_err();
    assert_eq!(refused, LinkError::Draining { worker: WORKER });
    assert_eq!(read(&mut stream).await.unwrap().0.len(), 50);
    world.tasks.wait().await;
    assert_eq!(
        world.handle.snapshot().await.unwrap_err(),
        LinkError::Draining { worker: WORKER }
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_engine_stops_at_once() {
    let world = simulated("zero-delay");
    tokio::task::yield_now().await;
    world.drain.cancel();
    world.tasks.wait().await;
}

#[tokio::test(start_paused = true)]
async fn a_step_without_duration_lets_others_run() {
    let world = simulated("zero-delay");
    let mut streams: Vec<TokenStream> = (0..300)
        .map(|_| world.handle.generate(request(64, 40)).unwrap())
        .collect();
    // On one thread this only ends if the loop yields.
    for stream in &mut streams {
        assert_eq!(read(stream).await.unwrap().0.len(), 40);
    }
    world.until_idle().await;
    assert_eq!(world.handle.status().output_tokens, 300 * 40);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_refused_at_the_door() {
    let world = simulated("h200-llama-70b-fp8");
    let error = world.handle.generate(request(30_000, 3_000)).unwrap_err();
    assert!(matches!(error, LinkError::TooLarge { worker: WORKER, .. }));
    let text = world.registry.render(Duration::ZERO);
    let refused = text
        .lines()
        .find(|line| line.contains("error_type=\"too_large\""))
        .unwrap();
    assert!(refused.ends_with(" 1"), "{refused}");
}

/// Works for some steps, then fails or breaks the contract.
struct Failing {
    steps: u32,
    output: Option<StepOutput>,
}

impl Executor for Failing {
    fn limits(&self) -> Limits {
        Limits {
            slots: 2,
            ..profile("zero-delay").limits()
        }
    }

    async fn step(&mut self, batch: &Batch<'_>) -> Result<StepOutput, ExecutorError> {
        if let Some(steps) = self.steps.checked_sub(1) {
            self.steps = steps;
            let row = |slot: usize| RowOutput {
                tokens: [mix(0, slot as u64, 0) as u32].as_slice().into(),
                logprobs: Vec::new(),
                drafted: 0,
            };
            return Ok(StepOutput {
                rows: batch.rows.iter().map(|r| row(r.slot)).collect(),
                ..StepOutput::default()
            });
        }
        let lost = || ExecutorError::Device {
            detail: "off the bus".to_owned(),
        };
        self.output.take().ok_or_else(lost)
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_executor_ends_the_engine_and_those_in_the_step_are_suspected() {
    for (output, detail) in [
        (None, "the device failed: off the bus"),
        (
            Some(StepOutput::default()),
            "the step's output does not match its batch",
        ),
    ] {
        let world = start(Failing { steps: 3, output });
        let mut streams: Vec<TokenStream> = (0..4)
            .map(|_| world.handle.generate(request(8, 100)).unwrap())
            .collect();
        let (worker, detail) = (WORKER, detail.to_owned());
        let suspected = LinkError::Failed {
            worker,
            detail: detail.clone(),
        };
        let waiting = LinkError::Interrupted { worker, detail };
        let expected = [&suspected, &suspected, &waiting, &waiting];
        for (stream, expected) in streams.iter_mut().zip(expected) {
            assert_eq!(read(stream).await.unwrap_err(), *expected);
        }
        world.tasks.wait().await;
        let error = world.handle.generate(request(8, 100)).unwrap_err();
        assert!(matches!(
            error,
            LinkError::Unreachable { worker: WORKER, .. }
        ));
        assert!(world.handle.reset_cache().await.is_err());
        assert_eq!(world.handle.status().running, 0);
    }
}
