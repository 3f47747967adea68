//! The routing side of a test: who has joined, and what is known of each.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use contract::{
    Clock, FeedMessage, FinishReason, GenerateRequest, HashSeed, LinkError, OutputLimits,
    RequestId, Sampling, WorkerCard, WorkerId, block_chain,
};
use dynamo::{Config, Dynamo, Registry};
use nats::Nats;
use router::Observed;
use router::feed::Holdings;
use router::prefix_index::PrefixIndex;
use tasks::Tasks;
use tokio_util::sync::DropGuard;
use transport::{Change, Changes, Feed, Member, WorkerLink, roster};

use crate::BLOCK;

const PATIENCE: Duration = Duration::from_secs(100);

/// Waits for something that will come.
pub(crate) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain: {what}"),
    }
}

/// Members as they come and go.
pub(crate) struct Fleet {
    changes: Changes,
    pub(crate) dynamo: Dynamo,
    pub(crate) metrics: telemetry::Registry,
    pub(crate) workers: BTreeMap<WorkerId, Worker>,
    _stop: DropGuard,
}

impl Fleet {
    pub(crate) async fn watch(registry: Registry) -> Self {
        Self::watch_with(registry, None).await
    }

    pub(crate) async fn watch_with(registry: Registry, nats: Option<Nats>) -> Self {
        let (roster, changes) = roster();
        let config = Config {
            namespace: None,
            listen: ([0, 0, 0, 0], 0).into(),
            advertise: None,
            nats,
            clock: Clock::start(),
        };
        let tasks = Tasks::new();
        let metrics = telemetry::Registry::new();
        let dynamo = dynamo::start(config, registry, roster, &metrics, &tasks)
            .await
            .expect("a port is free");
        Self {
            changes,
            dynamo,
            metrics,
            workers: BTreeMap::new(),
            _stop: tasks.stop.drop_guard(),
        }
    }

    pub(crate) async fn watch_folder(folder: PathBuf) -> Self {
        Self::watch(Registry::Files(folder)).await
    }

    /// Waits until this many are there, and returns their ids.
    pub(crate) async fn until(&mut self, count: usize) -> Vec<WorkerId> {
        while self.workers.len() != count {
            let change = in_time("a change of the fleet", self.changes.next()).await;
            match change.expect("discovery goes on") {
                Change::Joined(member) => {
                    let worker = Worker::new(*member).await;
                    self.workers.insert(worker.card.id, worker);
                }
                Change::Left(id) => {
                    self.workers.remove(&id).expect("only members leave");
                }
                Change::Draining(_) => panic!("dynamo workers do not say that they drain"),
            }
        }
        self.workers.keys().copied().collect()
    }

    pub(crate) fn worker(&mut self, id: WorkerId) -> &mut Worker {
        self.workers.get_mut(&id).expect("it is a member")
    }
}

/// A member, and an index of what its feed says it holds.
pub(crate) struct Worker {
    pub(crate) card: WorkerCard,
    pub(crate) link: Arc<dyn WorkerLink>,
    feed: Feed,
    completeness: router::feed::Feed,
    index: PrefixIndex,
}

/// What came of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) tokens: Vec<u32>,
    pub(crate) cached_tokens: u32,
    pub(crate) finish: FinishReason,
}

impl Worker {
    async fn new(member: Member) -> Self {
        let mut index = PrefixIndex::default();
        index.reserve_slots(1);
        let mut worker = Self {
            card: member.card,
            link: member.link,
            feed: member.feed,
            completeness: router::feed::Feed::default(),
            index,
        };
        assert!(member.warm);
        worker.restore().await;
        worker
    }

    /// Serves a request to its end.
    pub(crate) async fn serve(&self, request: GenerateRequest) -> Result<Outcome, LinkError> {
        in_time("an answer", async {
            let mut stream = self.link.generate(request).await?;
            let mut outcome = Outcome {
                tokens: Vec::new(),
                cached_tokens: 0,
                finish: FinishReason::Stop,
            };
            let mut first = true;
            while let Some(chunk) = stream.next().await {
                let chunk = chunk?;
                assert_eq!(chunk.started.is_some(), first);
                first = false;
                if let Some(started) = chunk.started {
                    outcome.cached_tokens = started.cached_tokens;
                }
                outcome.tokens.extend(chunk.tokens);
                if let Some(finish) = chunk.finish {
                    outcome.finish = finish;
                }
            }
            Ok(outcome)
        })
        .await
    }

    /// How many tokens of a prompt the worker holds, according to the index.
    pub(crate) fn predicted(&self, prompt: &[u32]) -> usize {
        let chain = block_chain(prompt, BLOCK, HashSeed::BASE);
        let mut depths = [0];
        self.index.overlap(&chain, &mut depths);
        depths[0] as usize * BLOCK
    }

    /// Follows the feed until the index has this many tokens of a prompt. Returns how many
    /// snapshots that took.
    pub(crate) async fn until_predicted(&mut self, prompt: &[u32], tokens: usize) -> u32 {
        let mut snapshots = 0;
        while self.predicted(prompt) != tokens {
            let what = format!(
                "{tokens} tokens in the index, not {}",
                self.predicted(prompt)
            );
            let delivery = in_time(&what, self.feed.next()).await;
            let message = delivery.expect("the feed goes on").message;
            snapshots += self.observe(message).await;
        }
        snapshots
    }

    async fn observe(&mut self, message: FeedMessage) -> u32 {
        let mut holdings = Holdings::new(&mut self.index, 0);
        let mut observed = match message {
            FeedMessage::Kv(batch) => self.completeness.observe(&batch, &mut holdings),
            FeedMessage::Head {
                epoch,
                next_sequence,
            } => self
                .completeness
                .head((epoch, next_sequence), &mut holdings),
            FeedMessage::Status(_)
            | FeedMessage::Loads(_)
            | FeedMessage::Lease(_)
            | FeedMessage::Draining => panic!("dynamo workers tell of blocks only"),
        };
        let mut snapshots = 0;
        while observed == Observed::NeedsSnapshot {
            observed = self.restore().await;
            snapshots += 1;
        }
        snapshots
    }

    async fn restore(&mut self) -> Observed {
        let snapshot = in_time("a snapshot", self.link.snapshot()).await;
        let snapshot = snapshot.expect("the worker tells what it holds");
        let mut holdings = Holdings::new(&mut self.index, 0);
        self.completeness.restore(&snapshot, &mut holdings)
    }
}

/// A prompt that no other seed gives.
pub(crate) fn prompt(seed: u32, length: usize) -> Vec<u32> {
    let tokens = (0..length as u32).map(|position| 3 + (seed * 7919 + position * 31) % 990);
    tokens.collect()
}

pub(crate) fn request(prompt: &[u32], max_tokens: u32) -> GenerateRequest {
    GenerateRequest {
        id: RequestId::new("test"),
        nonce: 0,
        trace: None,
        prompt: prompt.into(),
        answered: Arc::from([]),
        hash_seed: HashSeed::BASE,
        limits: OutputLimits {
            max_tokens,
            min_tokens: 0,
            ignore_eos: true,
            eos_tokens: Arc::from([2]),
        },
        sampling: Sampling::default(),
        logprobs: None,
        grammar: None,
    }
}
