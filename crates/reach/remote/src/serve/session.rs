//! One frontend's session at a worker: hello, then heartbeats and loads until either side ends it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use contract::{BlockFormat, FrontendId, Hashing, Lease};
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use tracing::{info, warn};

use super::{Latest, Shared};
use crate::registration::Expected;
use crate::silence::{Silence, beats};
use crate::wire::{self, from_frontend, from_worker};

/// A frontend that sends nothing for so long is considered gone.
const SILENCE: Duration = Duration::from_secs(3);
/// Time for a frontend that attaches to send its hello.
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
    /// What it is lent.
    lease: watch::Receiver<Lease>,
    /// The other end of `lease`, to know this session from a later one of the same frontend.
    lender: Arc<watch::Sender<Lease>>,
}

/// Messages still to be sent to a frontend, when there is room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Unsaid {
    lease: bool,
    draining: bool,
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
            return Err(Status::invalid_argument("the first message must be hello"));
        };
        let (frontend, attempt) = (FrontendId(hello.frontend), hello.attempt);
        let registration = &shared.config.registration;
        if let Err(mismatch) = registration.check(&expected(hello)) {
            warn!(%frontend, "refused a frontend: {mismatch}");
            return Err(Status::failed_precondition(mismatch.to_string()));
        }
        let (outbound, stream) = mpsc::channel(QUEUE);
        let (lender, lease) = {
            // Under one lock, so that nobody tells the next lease before the first.
            let mut sessions = shared.sessions.lock();
            if sessions
                .get(&frontend)
                .is_some_and(|latest| latest.attempt > attempt)
            {
                return Err(Status::aborted("this frontend has attached again since"));
            }
            let granted = shared.leases.lock().enter(frontend);
            let (lender, lease) = watch::channel(granted);
            let lender = Arc::new(lender);
            let latest = Latest {
                attempt,
                lender: Arc::clone(&lender),
            };
            sessions.insert(frontend, latest);
            (lender, lease)
        };
        let granted = *lease.borrow();
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
            lease,
            lender,
        };
        shared.tasks.spawn(session.run());
        Ok(ReceiverStream::new(stream))
    }

    async fn run(mut self) {
        let reason = self.exchange().await;
        info!(frontend = %self.frontend, reason, "a frontend left");
        let mut sessions = self.shared.sessions.lock();
        let latest = sessions.get(&self.frontend);
        if latest.is_some_and(|latest| Arc::ptr_eq(&latest.lender, &self.lender)) {
            sessions.remove(&self.frontend);
            self.shared.leases.lock().leave(self.frontend);
        }
    }

    async fn exchange(&mut self) -> &'static str {
        let (mut beats, mut silence) = (beats(), Silence::new(SILENCE));
        let (mut unsaid, mut drain_heard) = (Unsaid::default(), false);
        loop {
            tokio::select! {
                message = self.inbound.next() => match message {
                    Some(Ok(message)) => {
                        self.handle(message);
                        silence.heard();
                    }
                    Some(Err(_)) => return "its connection was lost",
                    None => return "it closed",
                },
                Ok(()) = self.lease.changed(), if !unsaid.lease => unsaid.lease = true,
                // One that does not read keeps nobody here waiting, and is found out by the beats.
                room = self.outbound.reserve(), if unsaid != Unsaid::default() => {
                    let Ok(room) = room else {
                        return "it closed";
                    };
                    if std::mem::take(&mut unsaid.draining) {
                        room.send(Ok(say(from_worker::Say::Draining(wire::Draining {}))));
                    } else {
                        unsaid.lease = false;
                        room.send(Ok(lease(*self.lease.borrow_and_update())));
                    }
                }
                _ = beats.tick() => {
                    if silence.is_too_long() {
                        return "it stopped responding";
                    }
                    if self.outbound.try_send(Ok(self.beat())).is_err() {
                        return "it does not read";
                    }
                }
                () = self.shared.draining.cancelled(), if !drain_heard => {
                    (drain_heard, unsaid.draining) = (true, true);
                }
                () = self.shared.ended.cancelled() => return "this worker ended",
            }
        }
    }

    fn handle(&self, message: wire::FromFrontend) {
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

fn lease(lease: Lease) -> wire::FromWorker {
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
        blocks: BlockFormat {
            size: hello.block_size,
            hashing: Hashing {
                version: hello.hash_version,
                lookahead: hello.hash_lookahead,
            },
        },
    }
}
