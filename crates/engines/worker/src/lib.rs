//! Wraps an engine as a worker that a frontend can reach.
//!
//! A [`Worker`] owns one engine, its card and its metrics, and gives the routing side a
//! [`transport::Member`] to talk to: a link for requests and a feed for the engine's events.
//! Here the two sides share a process; a network service wraps the same worker in the same
//! three things.
//!
//! # Life
//!
//! [`Worker::start`] → announced through a roster → serves → [`Worker::drain`]: refuse new
//! requests, finish the running ones, stop. Dropping a worker without draining stops it
//! too, but the streams it was serving end with an error.

use std::sync::Arc;

use contract::{
    Clock, GenerateRequest, Grammar, KvSnapshot, LinkError, TokenStream, WorkerCard, WorkerId,
    WorkerStatus,
};
use engine::{Engine, EngineHandle, EngineMetrics, Executor, Wiring};
use grammar::Vocabulary;
use telemetry::Registry;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use transport::{LinkFuture, Member, WorkerLink, feed};

/// What every worker of a process shares.
#[derive(Clone, Debug)]
pub struct WorkerContext {
    pub clock: Clock,
    pub registry: Registry,
    /// Distinguishes this life of the worker from earlier ones under the same id.
    pub epoch: u64,
}

/// A running engine.
#[derive(Debug)]
pub struct Worker {
    card: WorkerCard,
    engine: EngineHandle,
    metrics: EngineMetrics,
    tasks: TaskTracker,
    stop: CancellationToken,
    /// Stops the engine if the worker is dropped without draining.
    _stop_on_drop: DropGuard,
}

impl Worker {
    /// Starts an engine and returns what a roster announces.
    pub fn start<E: Executor>(
        card: WorkerCard,
        executor: E,
        context: &WorkerContext,
    ) -> (Self, Member) {
        let (publisher, feed) = feed(context.clock);
        let metrics = EngineMetrics::new(&context.registry, &card, executor.limits().draft_tokens);
        let tasks = TaskTracker::new();
        let stop = CancellationToken::new();
        let wiring = Wiring {
            worker: card.id,
            epoch: context.epoch,
            clock: context.clock,
            metrics: metrics.clone(),
            feed: Box::new(move |message| publisher.publish(message)),
        };
        let vocabulary = executor.vocabulary();
        let engine = Engine::spawn(executor, wiring, &tasks, stop.clone());
        tasks.close();
        let member = Member {
            card: card.clone(),
            link: Arc::new(LocalLink {
                worker: card.id,
                engine: engine.clone(),
                vocabulary,
            }),
            feed,
            warm: false,
            lease: None,
        };
        let stop_on_drop = stop.clone().drop_guard();
        (
            Self {
                card,
                engine,
                metrics,
                tasks,
                stop,
                _stop_on_drop: stop_on_drop,
            },
            member,
        )
    }

    pub fn card(&self) -> &WorkerCard {
        &self.card
    }

    pub fn status(&self) -> WorkerStatus {
        self.engine.status()
    }

    /// Waits until the engine has stopped by itself, which it only does when it cannot go on.
    pub async fn failed(&self) {
        self.tasks.wait().await;
    }

    /// Refuses new requests, waits until the running ones are done, and withdraws the
    /// worker's metrics.
    pub async fn drain(self) {
        self.stop.cancel();
        self.tasks.wait().await;
        self.metrics.forget();
    }
}

/// The link to an engine in the same process.
#[derive(Debug)]
struct LocalLink {
    worker: WorkerId,
    engine: EngineHandle,
    vocabulary: Option<Arc<Vocabulary>>,
}

impl LocalLink {
    /// Compiles a request's grammar away from the engine's threads: others wait there. The engine
    /// finds it compiled.
    async fn compile(&self, grammar: Grammar) -> Result<(), LinkError> {
        let refused = |detail: String| LinkError::Refused {
            worker: self.worker,
            detail,
        };
        let Some(vocabulary) = self.vocabulary.clone() else {
            return Err(refused("it has no constrained output".to_owned()));
        };
        let compiling = tokio::task::spawn_blocking(move || vocabulary.compile(&grammar));
        match compiling.await {
            Ok(compiled) => compiled.map_err(|error| refused(format!("the grammar: {error}"))),
            Err(_) => Err(refused("the grammar could not be compiled".to_owned())),
        }
    }
}

impl WorkerLink for LocalLink {
    fn generate(&self, request: GenerateRequest) -> LinkFuture<'_, TokenStream> {
        Box::pin(async {
            if let Some(grammar) = &request.grammar {
                self.compile(grammar.clone()).await?;
            }
            self.engine.generate(request)
        })
    }

    fn snapshot(&self) -> LinkFuture<'_, KvSnapshot> {
        Box::pin(self.engine.snapshot())
    }

    fn reset_cache(&self) -> LinkFuture<'_, ()> {
        Box::pin(self.engine.reset_cache())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use contract::{HashSeed, OutputLimits, RequestId, Sampling};
    use engine::sim::Profile;
    use engine::{Batch, ExecutorError, Limits, StepOutput};

    use super::*;

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

    #[tokio::test(start_paused = true)]
    async fn whoever_runs_a_worker_hears_that_its_engine_failed() {
        let profile = Profile::named("zero-delay").unwrap();
        let card = profile.card(WorkerId(1), "one");
        let context = WorkerContext {
            clock: Clock::start(),
            registry: Registry::new(),
            epoch: 1,
        };
        let (worker, member) = Worker::start(card, Broken(profile.limits()), &context);
        let patience = std::time::Duration::from_secs(60);
        assert!(
            tokio::time::timeout(patience, worker.failed())
                .await
                .is_err()
        );
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
        let mut stream = member.link.generate(request).await.unwrap();
        let error = stream.next().await.unwrap().unwrap_err();
        assert!(error.to_string().contains("broken"), "{error}");
        worker.failed().await;
    }
}
