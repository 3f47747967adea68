//! What a worker tells its frontends, however fast it changes.

use std::time::Duration;

use contract::{
    Abilities, BlockFormat, Clock, FrontendId, GenerateRequest, GpuSpec, Hashing, KvSnapshot,
    LinkError, ModelName, TokenStream, WorkerCard, WorkerId,
};
use tasks::Tasks;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use transport::{FeedPublisher, LinkFuture, feed};

use super::*;
use crate::events::Plane;
use crate::wire::worker_client::WorkerClient;
use crate::wire::{from_frontend, from_worker};

/// Serves nothing.
#[derive(Debug)]
struct Idle;

impl WorkerLink for Idle {
    fn generate(&self, _: GenerateRequest) -> LinkFuture<'_, TokenStream> {
        let worker = WorkerId(1);
        Box::pin(async move { Err(LinkError::Draining { worker }) })
    }

    fn snapshot(&self) -> LinkFuture<'_, KvSnapshot> {
        Box::pin(async { Ok(KvSnapshot::default()) })
    }

    fn reset_cache(&self) -> LinkFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

fn card() -> WorkerCard {
    WorkerCard {
        id: WorkerId(1),
        name: "one".to_owned(),
        model: ModelName::new("m"),
        blocks: BlockFormat::new(32),
        total_blocks: 100,
        slots: 4,
        max_step_tokens: 100,
        max_context_tokens: 1000,
        gpu: GpuSpec {
            kind: "none".to_owned(),
            count: 0,
            memory_bytes: 0,
        },
        engine: "idle".to_owned(),
        simulated: true,
        abilities: Abilities::default(),
        speculation: "none".to_owned(),
        forwards: Vec::new(),
        adapters: Vec::new(),
    }
}

/// A worker without an engine, on a port of its own, and what keeps it there.
struct Serving {
    shared: Arc<Shared>,
    address: String,
    tasks: Tasks,
    _engine: FeedPublisher,
}

impl Serving {
    async fn start() -> Self {
        let tasks = Tasks::new();
        let (clock, listener) = (
            Clock::start(),
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
        );
        let address = format!("http://{}", listener.local_addr().unwrap());
        let publisher = Publisher::open(&Plane::Grpc, "topic", &tasks);
        let publisher = publisher.await.unwrap();
        let registration = Registration {
            cluster: "default".to_owned(),
            card: card(),
            epoch: 1,
            address: address.clone(),
            events: publisher.address().clone(),
        };
        let (engine, feed) = feed(clock);
        let member = Member {
            card: card(),
            link: Arc::new(Idle),
            feed,
            warm: false,
            lease: None,
        };
        let config = ServeConfig {
            registration,
            clock,
            max_requests: 1,
            tls: None,
        };
        let service = Service::start(config, member, publisher, &tasks.tracker);
        let shared = Arc::clone(&service.shared);
        tasks.spawn(service.listen(listener));
        Self {
            shared,
            address,
            tasks,
            _engine: engine,
        }
    }

    /// Frontend 1 attaches; what it can say, and what it is told.
    async fn attach(&self, attempt: u64) -> Result<Attached, Status> {
        let mut client = WorkerClient::connect(self.address.clone()).await.unwrap();
        let (to_worker, outbound) = mpsc::channel(1);
        let hello = wire::Hello {
            frontend: 1,
            cluster: "default".to_owned(),
            model: "m".to_owned(),
            block_size: 32,
            hash_version: Hashing::default().version,
            hash_lookahead: Hashing::default().lookahead,
            attempt,
        };
        let say = Some(from_frontend::Say::Hello(hello));
        to_worker.try_send(wire::FromFrontend { say }).unwrap();
        let told = client.attach(ReceiverStream::new(outbound)).await?;
        Ok((to_worker, told.into_inner()))
    }

    async fn end(self) {
        drop(self._engine);
        self.tasks.finish().await;
    }
}

type Attached = (
    mpsc::Sender<wire::FromFrontend>,
    tonic::Streaming<wire::FromWorker>,
);

#[tokio::test]
async fn a_frontend_hears_the_latest_lease_however_many_came_before_it() {
    let worker = Serving::start().await;
    let (to_worker, mut told) = worker.attach(0).await.unwrap();
    let shared = &worker.shared;

    // Another comes and goes faster than the first can be told.
    for _ in 0..100 {
        shared.leases.lock().enter(FrontendId(2));
        shared.divide();
        shared.leases.lock().leave(FrontendId(2));
        shared.divide();
    }
    let latest = async {
        loop {
            let message = told.message().await.unwrap().expect("the session goes on");
            if let Some(from_worker::Say::Lease(lease)) = message.say
                && lease.number == 200
            {
                return lease.slots;
            }
        }
    };
    let slots = tokio::time::timeout(Duration::from_secs(20), latest).await;
    assert_eq!(slots.expect("the last lease is told"), 4);
    drop((told, to_worker));
    worker.end().await;
}

/// A worker that stood still finds the attempts that its frontend has given up meanwhile, in
/// any order.
#[tokio::test]
async fn an_attempt_that_was_given_up_does_not_take_the_place_of_a_later_one() {
    let worker = Serving::start().await;
    let earlier = worker.attach(1).await.unwrap();
    let latest = worker.attach(3).await.unwrap();
    let stale = worker.attach(2).await.unwrap_err();
    assert_eq!(stale.code(), tonic::Code::Aborted);
    // The end of the earlier one leaves the latest what it was lent.
    drop(earlier);
    while worker.shared.tasks.len() > 4 {
        tokio::task::yield_now().await;
    }
    let latest_attempt = |shared: &Shared| {
        let sessions = shared.sessions.lock();
        sessions.get(&FrontendId(1)).map(|latest| latest.attempt)
    };
    assert_eq!(latest_attempt(&worker.shared), Some(3));
    assert_eq!(worker.shared.leases.lock().loads().len(), 1);
    drop(latest);
    worker.end().await;
}
