//! How requests reach an endpoint of a worker: over TCP or NATS, as the worker announced.
//!
//! Either way the request says where to answer, and is acknowledged at once.

use bytes::Bytes;
use nats::{Nats, RequestError};
use tokio::time::timeout;
use uuid::Uuid;

use crate::connection::{Connection, Connections, PATIENCE, SendError};
use crate::registration::{Address, Target};
use crate::responses::{PendingAnswer, Responses};
use crate::wire::request::Acknowledgement;
use crate::wire::{Codec, control, request};

/// The way to one endpoint.
#[derive(Debug)]
pub(crate) struct RequestPlane {
    way: Way,
    pub(crate) codec: Codec,
}

#[derive(Debug)]
enum Way {
    Tcp {
        connections: Connections,
        path: String,
    },
    Nats {
        /// `None` if no server was given.
        nats: Option<Nats>,
        subject: String,
    },
}

/// A request that was acknowledged, and the answer that will come if it was taken.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) acknowledgement: Acknowledgement,
    pub(crate) answer: PendingAnswer,
}

impl RequestPlane {
    pub(crate) fn new(address: &Address, nats: Option<&Nats>) -> Self {
        let way = match &address.target {
            Target::Tcp { host, path } => Way::Tcp {
                connections: Connections::new(host),
                path: path.clone(),
            },
            Target::Nats { subject } => Way::Nats {
                nats: nats.cloned(),
                subject: subject.clone(),
            },
        };
        Self {
            way,
            codec: address.codec,
        }
    }

    /// Sends a request until it is acknowledged.
    pub(crate) async fn send(&self, body: &[u8], responses: &Responses) -> Result<Sent, SendError> {
        let question = Question {
            codec: self.codec,
            body,
            responses,
        };
        match &self.way {
            Way::Tcp { connections, path } => {
                let connection = connections.get().await?;
                let used = connection.used;
                match over_tcp(connections, connection, path, &question).await {
                    // A kept connection may have died unnoticed, so a failure on one is no
                    // failure of the worker.
                    Err(SendError::Broken(_)) if used => {
                        let fresh = connections.open().await?;
                        over_tcp(connections, fresh, path, &question).await
                    }
                    sent => sent,
                }
            }
            Way::Nats { nats, subject } => {
                let nats = nats.as_ref().ok_or(RequestError::Disconnected)?;
                over_nats(nats, subject, &question).await
            }
        }
    }
}

/// A request, whichever way it goes.
struct Question<'a> {
    codec: Codec,
    body: &'a [u8],
    responses: &'a Responses,
}

impl Question<'_> {
    fn payload(&self, answer: &PendingAnswer) -> Vec<u8> {
        let answer_to = control::AnswerTo {
            address: &answer.address,
            subject: &answer.subject,
        };
        // An id of ours, because the client's may not be unique.
        let id = Uuid::new_v4().to_string();
        control::request(&id, answer_to, self.codec, self.body)
    }
}

async fn over_tcp(
    connections: &Connections,
    mut connection: Connection,
    path: &str,
    question: &Question<'_>,
) -> Result<Sent, SendError> {
    let answer = question.responses.expect(connection.own_address()?);
    let bytes = request::encode(path, &question.payload(&answer))?;
    let acknowledgement = connection.send(&bytes).await?;
    connections.put(connection);
    Ok(Sent {
        acknowledgement,
        answer,
    })
}

async fn over_nats(nats: &Nats, subject: &str, question: &Question<'_>) -> Result<Sent, SendError> {
    // We have no connection to the worker, so the best guess is where the server sees us.
    let own = nats.own_address().ok_or(RequestError::Disconnected)?;
    let answer = question.responses.expect(own);
    let payload = Bytes::from(question.payload(&answer));
    let acknowledgement = timeout(PATIENCE, nats.request(subject, payload))
        .await
        .map_err(|_| SendError::Silent)??;
    Ok(Sent {
        acknowledgement: Acknowledgement::decode(&acknowledgement),
        answer,
    })
}
