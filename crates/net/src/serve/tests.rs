//! What a worker tells its frontends, however fast it changes.

use std::time::Duration;

use contract::{
    Clock, FrontendId, GenerateRequest, GpuSpec, Hashing, KvSnapshot, LinkError, ModelName,
    TokenStream, WorkerCard, WorkerId,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use transport::{LinkFuture, feed};

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
        block_size: 32,
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
        logprobs: false,
        speculation: "none".to_owned(),
        hashing: Hashing::default(),
    }
}

#[tokio::test]
async fn a_frontend_hears_the_latest_lease_however_many_came_before_it() {
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let (clock, listener) = (
        Clock::start(),
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
    );
    let address = format!("http://{}", listener.local_addr().unwrap());
    let publisher = Publisher::open(&Plane::Grpc, "topic", (&tasks, &stop));
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
    let service = Service::start(config, member, publisher, &tasks);
    let shared = Arc::clone(&service.shared);
    tasks.spawn(service.listen(listener));

    let mut client = WorkerClient::connect(address).await.unwrap();
    let (to_worker, outbound) = mpsc::channel(1);
    let hello = wire::Hello {
        frontend: 1,
        cluster: "default".to_owned(),
        model: "m".to_owned(),
        block_size: 32,
        hash_version: Hashing::default().version,
        hash_lookahead: Hashing::default().lookahead,
    };
    let say = Some(from_frontend::Say::Hello(hello));
    to_worker.try_send(wire::FromFrontend { say }).unwrap();
    let told = client.attach(ReceiverStream::new(outbound)).await.unwrap();
    let mut told = told.into_inner();

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
    drop((told, to_worker, engine));
    stop.cancel();
    tasks.close();
    tasks.wait().await;
}
