//! Where workers answer: one port, to which they connect once per request.
//!
//! A connection counts only if it begins by naming a request that is waiting. The names are
//! random and told to nobody but the worker that was asked, so whoever else reaches the port
//! can neither answer for a worker nor learn anything; it is shown out and counted.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};
use uuid::Uuid;

use crate::counts::Counts;
use crate::incoming::Incoming;
use crate::wire::control;

/// How long a connection may take to say whom it answers.
const GREETING_PATIENCE: Duration = Duration::from_secs(5);
/// Connections that have not said so yet. More have to wait at the door.
const MOST_GREETINGS: usize = 512;
/// After a failure to accept: out of file handles, most likely.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Waiting = Arc<Mutex<HashMap<String, oneshot::Sender<Incoming>>>>;

/// The listening port.
#[derive(Debug)]
pub(crate) struct Responses {
    port: u16,
    /// The host that workers are told; `None` for the one by which we reach them.
    advertise: Option<String>,
    waiting: Waiting,
}

impl Responses {
    /// Listens until `stop`.
    pub(crate) async fn listen(
        address: SocketAddr,
        advertise: Option<String>,
        counts: Arc<Counts>,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let port = listener.local_addr()?.port();
        let waiting = Waiting::default();
        let reception = Reception {
            waiting: Arc::clone(&waiting),
            counts,
            tasks: tasks.clone(),
            stop,
        };
        tasks.spawn(reception.run(listener));
        Ok(Self {
            port,
            advertise,
            waiting,
        })
    }

    /// A place for one answer. `own` is the address by which the worker is reached.
    pub(crate) fn expect(&self, own: IpAddr) -> Expected {
        let subject = Uuid::new_v4().to_string();
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().insert(subject.clone(), sender);
        let address = match (&self.advertise, own) {
            (Some(host), _) => format!("{host}:{}", self.port),
            (None, own) => SocketAddr::new(own, self.port).to_string(),
        };
        Expected {
            address,
            subject,
            answer,
            waiting: Arc::clone(&self.waiting),
        }
    }
}

/// An answer that has not come yet. Dropped, it is not expected any more.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) address: String,
    pub(crate) subject: String,
    answer: oneshot::Receiver<Incoming>,
    waiting: Waiting,
}

impl Expected {
    /// The connection, once the worker has opened it; `None` if we stopped listening.
    pub(crate) async fn answer(&mut self) -> Option<Incoming> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.waiting.lock().remove(&self.subject);
    }
}

#[derive(Clone)]
struct Reception {
    waiting: Waiting,
    counts: Arc<Counts>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Reception {
    async fn run(self, listener: TcpListener) {
        let door = Arc::new(Semaphore::new(MOST_GREETINGS));
        while let Some(Ok(place)) = self
            .stop
            .run_until_cancelled(Arc::clone(&door).acquire_owned())
            .await
        {
            let Some(accepted) = self.stop.run_until_cancelled(listener.accept()).await else {
                return;
            };
            match accepted {
                Ok((stream, from)) => {
                    let guest = self.clone();
                    self.tasks.spawn(async move {
                        let greeting = guest.greet(stream, from);
                        guest.stop.run_until_cancelled(greeting).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    warn!(%error, "response port cannot accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn greet(&self, stream: TcpStream, from: SocketAddr) {
        // Chunks are small and wanted at once.
        let _ = stream.set_nodelay(true);
        let mut incoming = Incoming::new(stream);
        let greeting = incoming.frame(control::LARGEST_HEADER, |frame| {
            control::subject(frame.header)
        });
        let subject = match timeout(GREETING_PATIENCE, greeting).await {
            Ok(Ok(Ok(subject))) => Some(subject),
            Ok(Ok(Err(_)) | Err(_)) | Err(_) => None,
        };
        let expected = subject.and_then(|subject| self.waiting.lock().remove(&subject));
        let Some(expected) = expected else {
            debug!(%from, "connection to the response port answers no request");
            self.counts.refused_stream();
            return;
        };
        // Fails only if the request was given up just now.
        let _ = expected.send(incoming);
    }
}
