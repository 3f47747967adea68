//! An engine that others can reach.
//!
//! A [`Worker`] owns one engine, its card and its metrics, and gives the routing side a
//! [`transport::Member`] to talk to: a link for requests and a feed for what the engine
//! has to tell. Here the two sides share a process; a network service wraps the same
//! worker in the same three things.
//!
//! # Life
//!
//! [`Worker::start`] → announced through a roster → serves → [`Worker::drain`]: refuse new
//! requests, finish the running ones, stop. Dropping a worker without draining stops it
//! too, but the streams it was serving end with an error.

use std::sync::Arc;

use contract::{Clock, GenerateRequest, KvSnapshot, TokenStream, WorkerCard, WorkerStatus};
use engine::{Engine, EngineHandle, EngineMetrics, Executor, Wiring};
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
        let engine = Engine::spawn(executor, wiring, &tasks, stop.clone());
        tasks.close();
        let member = Member {
            card: card.clone(),
            link: Arc::new(LocalLink {
                engine: engine.clone(),
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
    engine: EngineHandle,
}

impl WorkerLink for LocalLink {
    fn generate(&self, request: GenerateRequest) -> LinkFuture<'_, TokenStream> {
        Box::pin(async { self.engine.generate(request) })
    }

    fn snapshot(&self) -> LinkFuture<'_, KvSnapshot> {
        Box::pin(self.engine.snapshot())
    }

    fn reset_cache(&self) -> LinkFuture<'_, ()> {
        Box::pin(self.engine.reset_cache())
    }
}
