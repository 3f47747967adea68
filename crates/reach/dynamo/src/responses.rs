//! Where workers answer: one port, to which they connect once per request.
//!
//! A connection counts only if it begins by naming a request that is waiting. The names are
//! random and known only to the worker that was asked, so that nobody else who reaches the port
//! can answer for a worker or learn anything; such a connection is closed and counted. Nor can
//! anybody keep workers out by silent connections: if there are too many, the address with the
//! most of them loses its oldest, and a worker names its request at once.

mod pending;

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

use self::pending::PendingConnections;
use crate::incoming::Incoming;
use crate::metrics::Metrics;
use crate::wire::control;

/// How long a connection may take to name its request.
const GREETING_PATIENCE: Duration = Duration::from_secs(5);
/// The most connections that have not done so yet.
const MOST_GREETINGS: usize = 512;
/// After a failure to accept, which most likely means too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Waiting = Arc<Mutex<HashMap<String, oneshot::Sender<Incoming>>>>;

/// The listening port.
#[derive(Debug)]
pub(crate) struct Responses {
    /// Where we listen.
    bound: SocketAddr,
    /// The host that workers connect to, if it is another.
    advertise: Option<String>,
    waiting: Waiting,
}

impl Responses {
    /// Listens until `tasks` stop.
    pub(crate) async fn listen(
        address: SocketAddr,
        advertise: Option<String>,
        metrics: Metrics,
        tasks: &Tasks,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let bound = listener.local_addr()?;
        let waiting = Waiting::default();
        let acceptor = Acceptor {
            waiting: Arc::clone(&waiting),
            pending: Arc::new(Mutex::new(PendingConnections::new(MOST_GREETINGS))),
            metrics,
            tasks: tasks.clone(),
        };
        tasks.spawn(acceptor.run(listener));
        Ok(Self {
            bound,
            advertise,
            waiting,
        })
    }

    /// Prepares for one answer. `own` is our address on the connection to the worker.
    pub(crate) fn expect(&self, own: IpAddr) -> PendingAnswer {
        let subject = Uuid::new_v4().to_string();
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().insert(subject.clone(), sender);
        let port = self.bound.port();
        let address = match &self.advertise {
            Some(host) => format!("{host}:{port}"),
            // On every address, so on the one that this worker is reached from.
            None if self.bound.ip().is_unspecified() => SocketAddr::new(own, port).to_string(),
            None => self.bound.to_string(),
        };
        PendingAnswer {
            address,
            subject,
            answer,
            waiting: Arc::clone(&self.waiting),
        }
    }
}

/// An answer that has not arrived yet. No longer expected once this is dropped.
#[derive(Debug)]
pub(crate) struct PendingAnswer {
    pub(crate) address: String,
    pub(crate) subject: String,
    answer: oneshot::Receiver<Incoming>,
    waiting: Waiting,
}

impl PendingAnswer {
    /// The connection, once the worker has opened it; `None` if we stopped listening.
    pub(crate) async fn answer(&mut self) -> Option<Incoming> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        self.waiting.lock().remove(&self.subject);
    }
}

#[derive(Clone)]
struct Acceptor {
    waiting: Waiting,
    pending: Arc<Mutex<PendingConnections>>,
    metrics: Metrics,
    tasks: Tasks,
}

impl Acceptor {
    async fn run(self, listener: TcpListener) {
        while let Some(accepted) = self.tasks.stop.run_until_cancelled(listener.accept()).await {
            match accepted {
                Ok((stream, from)) => {
                    let acceptor = self.clone();
                    let (id, evicted) = self.pending.lock().add(from.ip());
                    self.tasks.spawn(async move {
                        tokio::select! {
                            () = acceptor.identify(stream, from) => {}
                            () = evicted.cancelled() => acceptor.metrics.refused_streams.inc(),
                            () = acceptor.tasks.stop.cancelled() => {}
                        }
                        acceptor.pending.lock().remove(id);
                    });
                }
                Err(error) => {
                    warn!(%error, "response port cannot accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Hands the connection to the request that it names, or closes it.
    async fn identify(&self, stream: TcpStream, from: SocketAddr) {
        // Chunks are small and must not wait for more.
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
            self.metrics.refused_streams.inc();
            return;
        };
        // Fails only if the request was cancelled just now.
        let _ = expected.send(incoming);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::wire::two_part;

    /// Connects and sends a header.
    async fn connect(responses: &Responses, header: &str) -> TcpStream {
        let mut stream = TcpStream::connect(responses.bound)
            .await
            .expect("it listens");
        let greeting = two_part::encode(header.as_bytes(), b"");
        stream.write_all(&greeting).await.expect("it reads");
        stream
    }

    async fn is_closed(mut stream: TcpStream) -> bool {
        stream.read(&mut [0]).await.is_ok_and(|read| read == 0)
    }

    fn greeting(subject: &str, kind: &str) -> String {
        format!(r#"{{"subject":"{subject}","stream_type":"{kind}"}}"#)
    }

    #[tokio::test]
    async fn silent_connections_keep_no_worker_out() {
        let (registry, tasks) = (telemetry::Registry::new(), Tasks::new());
        let own = IpAddr::from(Ipv4Addr::LOCALHOST);
        let metrics = Metrics::new(&registry);
        let listening = Responses::listen((own, 0).into(), None, metrics, &tasks);
        let responses = listening.await.unwrap();
        let mut silent = Vec::new();
        for _ in 0..MOST_GREETINGS + 20 {
            let address = responses.bound;
            silent.push(TcpStream::connect(address).await.expect("it listens"));
        }
        let mut expected = responses.expect(own);
        let good = greeting(&expected.subject, "response");
        let _worker = connect(&responses, &good).await;
        let answered = timeout(GREETING_PATIENCE / 2, expected.answer()).await;
        assert!(answered.is_ok_and(|answer| answer.is_some()));
        assert!(is_closed(silent.swap_remove(0)).await, "the oldest");
        tasks.finish().await;
    }

    #[tokio::test]
    async fn workers_are_told_an_address_on_which_it_listens() {
        let own = IpAddr::from([10, 0, 0, 7]);
        for (listen, advertise, host) in [
            ("0.0.0.0:0", None, "10.0.0.7"),
            ("127.0.0.1:0", None, "127.0.0.1"),
            ("127.0.0.1:0", Some("frontend.local"), "frontend.local"),
        ] {
            let (registry, tasks) = (telemetry::Registry::new(), Tasks::new());
            let metrics = Metrics::new(&registry);
            let advertise = advertise.map(str::to_owned);
            let listening = Responses::listen(listen.parse().unwrap(), advertise, metrics, &tasks);
            let responses = listening.await.unwrap();
            let told = format!("{host}:{}", responses.bound.port());
            assert_eq!(responses.expect(own).address, told, "{listen}");
            tasks.finish().await;
        }
    }

    #[tokio::test]
    async fn only_a_stream_that_names_a_waiting_request_counts() {
        let (registry, tasks) = (telemetry::Registry::new(), Tasks::new());
        let own = IpAddr::from(Ipv4Addr::LOCALHOST);
        let metrics = Metrics::new(&registry);
        let listening = Responses::listen((own, 0).into(), None, metrics, &tasks);
        let responses = listening.await.unwrap();
        let mut expected = responses.expect(own);
        assert_eq!(expected.address, responses.bound.to_string());
        let refused = [
            greeting("00000000-0000-0000-0000-000000000000", "response"),
            greeting(&expected.subject, "request"),
            greeting("", "response"),
            "nonsense".to_owned(),
        ];
        for header in &refused {
            assert!(
                is_closed(connect(&responses, header).await).await,
                "{header}"
            );
        }
        let line = format!("homing_dynamo_refused_streams_total {}\n", refused.len());
        let page = registry.render(Duration::ZERO);
        assert!(page.contains(&line), "{page}");

        let good = greeting(&expected.subject, "response");
        let mut stream = connect(&responses, &good).await;
        let mut incoming = expected.answer().await.expect("it was taken");
        let frame = two_part::encode(b"", b"body");
        stream.write_all(&frame).await.unwrap();
        let body = incoming.frame(100, |frame| frame.body.to_vec()).await;
        assert_eq!(body.unwrap(), b"body");

        // A name is good for one answer, and only while somebody waits for it.
        assert!(is_closed(connect(&responses, &good).await).await);
        let given_up = responses.expect(own);
        let late = greeting(&given_up.subject, "response");
        drop(given_up);
        assert!(is_closed(connect(&responses, &late).await).await);
        tasks.finish().await;
    }
}
