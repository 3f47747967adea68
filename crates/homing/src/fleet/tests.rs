//! What becomes of a worker whose engine fails.

use std::time::Duration;

use clap::Parser;
use contract::{Clock, GenerateRequest, HashSeed, OutputLimits, RequestId, Sampling, TokenStream};
use engine::sim::Profile;
use engine::{Batch, Executor, ExecutorError, Limits, StepOutput};
use telemetry::Registry;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use transport::{Changes, WorkerLink, roster};

use super::*;
use crate::args::DemoArgs;

/// Cannot do a single step.
struct Broken(Limits);

impl Executor for Broken {
    fn limits(&self) -> Limits {
        self.0.clone()
    }

    async fn step(&mut self, _: &Batch<'_>) -> Result<StepOutput, ExecutorError> {
        Err(ExecutorError::Device {
            detail: "broken".to_owned(),
        })
    }
}

#[derive(Parser)]
struct Demo {
    #[command(flatten)]
    args: DemoArgs,
}

/// A fleet with one worker that fails at its first step.
struct Failing {
    fleet: Fleet,
    changes: Changes,
    link: Arc<dyn WorkerLink>,
}

const BROKEN: WorkerId = WorkerId(7);

impl Failing {
    async fn new() -> Self {
        let args = Demo::try_parse_from(["homing"]).unwrap().args;
        let (backend, _) = Backend::read(args.resolve().unwrap().backend).unwrap();
        let context = WorkerContext {
            clock: Clock::start(),
            registry: Registry::new(),
            epoch: 1,
        };
        let (roster, mut changes) = roster();
        let mut fleet = Fleet::new(Arc::new(backend), context, roster, 8);
        let profile = Profile::named("zero-delay").unwrap();
        let card = profile.card(BROKEN, "broken");
        let (worker, member) = Worker::start(card, Broken(profile.limits()), &fleet.context);
        let link = Arc::clone(&member.link);
        fleet.join(worker, member).await;
        assert!(matches!(changes.next().await, Some(Change::Joined(_))));
        Self {
            fleet,
            changes,
            link,
        }
    }
}

/// Makes the engine do a step.
async fn fail(link: &dyn WorkerLink) {
    let request = GenerateRequest {
        id: RequestId::new("r"),
        nonce: 0,
        trace: None,
        prompt: Arc::new([1]),
        answered: Arc::default(),
        hash_seed: HashSeed::BASE,
        limits: OutputLimits {
            max_tokens: 1,
            min_tokens: 0,
            ignore_eos: false,
            eos_tokens: Arc::default(),
        },
        sampling: Sampling::default(),
        logprobs: None,
        grammar: None,
    };
    let mut stream: TokenStream = link.generate(request).await.unwrap();
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(error.to_string().contains("broken"), "{error}");
}

async fn until_left(changes: &mut Changes) {
    let left = tokio::time::timeout(Duration::from_secs(60), changes.next()).await;
    let left = left.unwrap().unwrap();
    assert!(matches!(left, Change::Left(BROKEN)), "{left:?}");
}

async fn ended(running: JoinHandle<anyhow::Result<()>>) -> anyhow::Result<()> {
    let ended = tokio::time::timeout(Duration::from_secs(60), running).await;
    ended.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_engine_failed_leaves_and_the_others_stay() {
    let Failing {
        mut fleet,
        mut changes,
        link,
    } = Failing::new().await;
    fleet.add().await.unwrap();
    assert!(matches!(changes.next().await, Some(Change::Joined(_))));
    let (sender, commands) = mpsc::channel(1);
    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    let running = tasks.spawn(fleet.run(commands, stop.clone()));
    fail(&*link).await;
    until_left(&mut changes).await;
    let (reply, removed) = oneshot::channel();
    let worker = BROKEN;
    let remove = FleetCommand::Remove { worker, reply };
    sender.send(remove).await.unwrap();
    assert!(
        matches!(removed.await.unwrap(), Err(FleetError::UnknownWorker)),
        "it has left, and the fleet still serves"
    );
    stop.cancel();
    ended(running).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_fleet_whose_last_worker_failed_ends_with_an_error() {
    let Failing {
        fleet,
        mut changes,
        link,
    } = Failing::new().await;
    let (_sender, commands) = mpsc::channel(1);
    let tasks = TaskTracker::new();
    let running = tasks.spawn(fleet.run(commands, CancellationToken::new()));
    fail(&*link).await;
    until_left(&mut changes).await;
    let error = ended(running).await.unwrap_err().to_string();
    assert_eq!(error, "the engine of the last worker failed; see the log");
}
