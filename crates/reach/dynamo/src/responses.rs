//! Where workers answer: one port, to which they connect once per request.
//!
//! A connection counts only if it begins by naming a request that is waiting. The names are
//! random and told to nobody but the worker that was asked, so whoever else reaches the port
//! can neither answer for a worker nor learn anything; it is shown out and counted. Nor can it
//! keep workers out by connecting and saying nothing: when the door is crowded, the address
//! with most connections that are silent loses its oldest, and a worker speaks at once.

mod door;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tasks::Tasks;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::{debug, warn};
use uuid::Uuid;

use self::door::Door;
use crate::counts::Counts;
use crate::incoming::Incoming;
use crate::wire::control;

/// How long a connection may take to say whom it answers.
const GREETING_PATIENCE: Duration = Duration::from_secs(5);
/// Connections that have not said so yet.
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
        tasks: &Tasks,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let port = listener.local_addr()?.port();
        let waiting = Waiting::default();
        let reception = Reception {
            waiting: Arc::clone(&waiting),
            door: Arc::new(Mutex::new(Door::new(MOST_GREETINGS))),
            counts,
            tasks: tasks.clone(),
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
    door: Arc<Mutex<Door>>,
    counts: Arc<Counts>,
    tasks: Tasks,
}

impl Reception {
    async fn run(self, listener: TcpListener) {
        while let Some(accepted) = self.tasks.stop.run_until_cancelled(listener.accept()).await {
            match accepted {
                Ok((stream, from)) => {
                    let guest = self.clone();
                    let (place, shown_out) = self.door.lock().enter(from.ip());
                    self.tasks.spawn(async move {
                        tokio::select! {
                            () = guest.greet(stream, from) => {}
                            () = shown_out.cancelled() => guest.counts.refused_stream(),
                            () = guest.tasks.stop.cancelled() => {}
                        }
                        guest.door.lock().leave(place);
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::wire::two_part;

    /// Connects, says something, and waits until it is shown out or taken.
    async fn connect(responses: &Responses, header: &str) -> TcpStream {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, responses.port))
            .await
            .expect("it listens");
        let greeting = two_part::encode(header.as_bytes(), b"");
        stream.write_all(&greeting).await.expect("it reads");
        stream
    }

    async fn is_shown_out(mut stream: TcpStream) -> bool {
        stream.read(&mut [0]).await.is_ok_and(|read| read == 0)
    }

    fn greeting(subject: &str, kind: &str) -> String {
        format!(r#"{{"subject":"{subject}","stream_type":"{kind}"}}"#)
    }

    #[tokio::test]
    async fn silent_connections_keep_no_worker_out() {
        let (counts, tasks) = (Arc::new(Counts::default()), Tasks::new());
        let own = IpAddr::from(Ipv4Addr::LOCALHOST);
        let listening = Responses::listen((own, 0).into(), None, Arc::clone(&counts), &tasks);
        let responses = listening.await.unwrap();
        let mut silent = Vec::new();
        for _ in 0..MOST_GREETINGS + 20 {
            let address = (Ipv4Addr::LOCALHOST, responses.port);
            silent.push(TcpStream::connect(address).await.expect("it listens"));
        }
        let mut expected = responses.expect(own);
        let good = greeting(&expected.subject, "response");
        let _worker = connect(&responses, &good).await;
        let answered = timeout(GREETING_PATIENCE / 2, expected.answer()).await;
        assert!(answered.is_ok_and(|answer| answer.is_some()));
        assert!(is_shown_out(silent.swap_remove(0)).await, "the oldest");
        tasks.finish().await;
    }

    #[tokio::test]
    async fn only_a_stream_that_names_a_waiting_request_counts() {
        let (counts, tasks) = (Arc::new(Counts::default()), Tasks::new());
        let own = IpAddr::from(Ipv4Addr::LOCALHOST);
        let listening = Responses::listen((own, 0).into(), None, Arc::clone(&counts), &tasks);
        let responses = listening.await.unwrap();
        let mut expected = responses.expect(own);
        assert_eq!(expected.address, format!("127.0.0.1:{}", responses.port));
        let refused = [
            greeting("00000000-0000-0000-0000-000000000000", "response"),
            greeting(&expected.subject, "request"),
            greeting("", "response"),
            "nonsense".to_owned(),
        ];
        for header in &refused {
            assert!(
                is_shown_out(connect(&responses, header).await).await,
                "{header}"
            );
        }
        assert_eq!(counts.tally().refused_streams, refused.len() as u64);

        let good = greeting(&expected.subject, "response");
        let mut stream = connect(&responses, &good).await;
        let mut incoming = expected.answer().await.expect("it was taken");
        let frame = two_part::encode(b"", b"body");
        stream.write_all(&frame).await.unwrap();
        let body = incoming.frame(100, |frame| frame.body.to_vec()).await;
        assert_eq!(body.unwrap(), b"body");

        // A name is good for one answer, and only while somebody waits for it.
        assert!(is_shown_out(connect(&responses, &good).await).await);
        let given_up = responses.expect(own);
        let late = greeting(&given_up.subject, "response");
        drop(given_up);
        assert!(is_shown_out(connect(&responses, &late).await).await);
        tasks.finish().await;
    }
}
