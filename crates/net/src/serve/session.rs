//! One frontend's stay at a worker: hello, then beats and loads until one of them goes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use contract::{FrontendId, Hashing, Lease};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use tracing::{info, warn};

use super::Shared;
use crate::registration::Expected;
use crate::silence::{Silence, beats};
use crate::wire::{self, from_frontend, from_worker};

/// A frontend that says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(3);
/// Whoever attaches says who it is at once.
const HELLO: Duration = Duration::from_secs(5);
/// Messages to a frontend that may wait.
const QUEUE: usize = 64;

type Inbound = Streaming<wire::FromFrontend>;

/// One frontend that uses this worker.
pub(super) struct Session {
    shared: Arc<Shared>,
    frontend: FrontendId,
    inbound: Inbound,
    outbound: mpsc::Sender<Result<wire::FromWorker, Status>>,
    /// What the rest of the worker wants it to hear.
    told: mpsc::Receiver<wire::FromWorker>,
    /// The other end of `told`, to know this session from a later one of the same frontend.
    teller: mpsc::Sender<wire::FromWorker>,
}

impl Session {
    /// Hears who it is, answers what this worker is, and goes on by itself.
    pub(super) async fn open(
        shared: &Arc<Shared>,
        mut inbound: Inbound,
    ) -> Result<ReceiverStream<Result<wire::FromWorker, Status>>, Status> {
        let hello = tokio::time::timeout(HELLO, inbound.message()).await;
        let hello = hello.map_err(|_| Status::deadline_exceeded("no hello"))??;
        let Some(wire::FromFrontend {
            say: Some(from_frontend::Say::Hello(hello)),
        }) = hello
        else {
            return Err(Status::invalid_argument("a frontend says hello first"));
        };
        let frontend = FrontendId(hello.frontend);
        let registration = &shared.config.registration;
        if let Err(mismatch) = registration.check(&expected(hello)) {
            warn!(%frontend, "refused a frontend: {mismatch}");
            return Err(Status::failed_precondition(mismatch.to_string()));
        }
        let (outbound, stream) = mpsc::channel(QUEUE);
        let (teller, told) = mpsc::channel(QUEUE);
        let granted = shared.leases.lock().enter(frontend);
        shared.sessions.lock().insert(frontend, teller.clone());
        let welcome = wire::Welcome {
            registration: registration.to_json(),
            lease: Some(wire::Lease {
                number: granted.number,
                slots: granted.slots,
            }),
        };
        // The queue is empty, so this cannot fail.
        let _ = outbound.try_send(Ok(say(from_worker::Say::Welcome(welcome))));
        info!(%frontend, "a frontend attached");
        let session = Self {
            shared: Arc::clone(shared),
            frontend,
            inbound,
            outbound,
            told,
            teller,
        };
        shared.tasks.spawn(session.run());
        Ok(ReceiverStream::new(stream))
    }

    async fn run(mut self) {
        let reason = self.exchange().await;
        info!(frontend = %self.frontend, reason, "a frontend left");
        let mut sessions = self.shared.sessions.lock();
        let latest = sessions.get(&self.frontend);
        if latest.is_some_and(|teller| teller.same_channel(&self.teller)) {
            sessions.remove(&self.frontend);
            self.shared.leases.lock().leave(self.frontend);
        }
    }

    async fn exchange(&mut self) -> &'static str {
        let (mut beats, mut silence) = (beats(), Silence::new(SILENCE));
        let mut drain_told = false;
        loop {
            tokio::select! {
                message = self.inbound.next() => match message {
                    Some(Ok(message)) => {
                        self.hear(message);
                        silence.heard();
                    }
                    Some(Err(_)) => return "its connection broke",
                    None => return "it closed",
                },
                message = self.told.recv() => if let Some(message) = message
                    && self.outbound.send(Ok(message)).await.is_err()
                {
                    return "it closed";
                },
                _ = beats.tick() => {
                    if silence.is_too_long() {
                        return "it fell silent";
                    }
                    if self.outbound.try_send(Ok(self.beat())).is_err() {
                        return "it does not read";
                    }
                }
                () = self.shared.draining.cancelled(), if !drain_told => {
                    drain_told = true;
                    let draining = say(from_worker::Say::Draining(wire::Draining {}));
                    let _ = self.outbound.try_send(Ok(draining));
                }
                () = self.shared.ended.cancelled() => return "this worker ended",
            }
        }
    }

    fn hear(&self, message: wire::FromFrontend) {
        if let Some(from_frontend::Say::Load(load)) = message.say {
            let load = wire::from_load(&load);
            self.shared.leases.lock().report(self.frontend, load);
        }
    }

    fn beat(&self) -> wire::FromWorker {
        say(from_worker::Say::Beat(wire::Beat {
            epoch: self.shared.config.registration.epoch,
            next_sequence: self.shared.head.load(Ordering::Acquire),
        }))
    }
}

pub(super) fn lease(lease: Lease) -> wire::FromWorker {
    say(from_worker::Say::Lease(wire::Lease {
        number: lease.number,
        slots: lease.slots,
    }))
}

fn say(say: from_worker::Say) -> wire::FromWorker {
    wire::FromWorker { say: Some(say) }
}

fn expected(hello: wire::Hello) -> Expected {
    Expected {
        cluster: hello.cluster,
        model: hello.model,
        block_size: hello.block_size,
        hashing: Hashing {
            version: hello.hash_version,
            lookahead: hello.hash_lookahead,
        },
    }
}
