//! One gRPC stream: carries out what the [`Exchange`] orders.
//!
//! Everything that a request holds hangs on the task of its stream and goes with it: when Envoy closes
//! the stream, resets it or is gone, the place on the endpoint is free. A body that drips is not waited
//! for until Envoy loses patience.

use frontend::{Incoming, Pick, Picker, Refused};
use tokio::sync::mpsc;
use tonic::{Status, Streaming};
use tracing::debug;

use crate::exchange::{Event, Exchange, Order};
use crate::wire::{ProcessingRequest, ProcessingResponse};

/// Replies that may wait for Envoy to take them.
const REPLIES: usize = 16;

pub(crate) type Reply = Result<ProcessingResponse, Status>;

/// Why a stream ends before Envoy closes it.
enum Ended {
    /// Nobody listens any more.
    Gone,
    /// The request has its answer.
    Refused,
    Broken(Status),
}

pub(crate) struct Stream {
    picker: Picker,
    messages: Streaming<ProcessingRequest>,
    replies: mpsc::Sender<Reply>,
    exchange: Exchange,
    incoming: Option<Incoming>,
    pick: Option<Pick>,
}

impl Stream {
    /// A stream, and where its replies come from.
    pub(crate) fn new(
        picker: Picker,
        messages: Streaming<ProcessingRequest>,
    ) -> (Self, mpsc::Receiver<Reply>) {
        let (replies, receiver) = mpsc::channel(REPLIES);
        let stream = Self {
            picker,
            messages,
            replies,
            exchange: Exchange::default(),
            incoming: None,
            pick: None,
        };
        (stream, receiver)
    }

    pub(crate) async fn run(mut self) {
        let Err(ended) = self.converse().await else {
            return;
        };
        if let Ended::Broken(status) = ended {
            debug!(%status, "stream ended");
            // Whether anyone still listens does not matter.
            let _ = self.replies.send(Err(status)).await;
        }
    }

    async fn converse(&mut self) -> Result<(), Ended> {
        let mut next = None;
        loop {
            let message = match next.take() {
                Some(message) => message,
                None => match self.receive().await? {
                    Ok(Some(message)) => message,
                    Ok(None) => return Ok(()),
                    Err(_) => return Err(Ended::Gone),
                },
            };
            let Some(event) = Event::read(message) else {
                continue;
            };
            let orders = self.exchange.step(event);
            let orders = orders
                .map_err(|error| Ended::Broken(Status::invalid_argument(error.to_string())))?;
            for order in orders {
                next = self.carry_out(order).await?.or(next);
            }
        }
    }

    /// Waits for what Envoy says next: not for ever while a request is coming in.
    async fn receive(&mut self) -> Result<Result<Option<ProcessingRequest>, Status>, Ended> {
        let message = self.messages.message();
        let Some(incoming) = &mut self.incoming else {
            return Ok(message.await);
        };
        match incoming.wait(message).await {
            Ok(message) => Ok(message),
            Err(refused) => Err(self.refuse(refused).await),
        }
    }

    /// Returns a message that came while something else was waited for.
    async fn carry_out(&mut self, order: Order) -> Result<Option<ProcessingRequest>, Ended> {
        match order {
            Order::Open(call) => match self.picker.open(*call) {
                Ok(incoming) => self.incoming = Some(incoming),
                Err(refused) => return Err(self.refuse(refused).await),
            },
            Order::Gather(bytes) => {
                if let Some(incoming) = &mut self.incoming
                    && let Err(refused) = incoming.add(&bytes).await
                {
                    return Err(self.refuse(refused).await);
                }
            }
            Order::Pick => return self.choose().await,
            Order::Send(reply) => self.send(reply).await?,
            Order::Begins { status, served } => {
                // Whoever answers before a pick does not wait for the body.
                self.incoming = None;
                if let Some(pick) = &mut self.pick {
                    pick.begins(status, served);
                }
            }
            Order::Read(bytes) => {
                if let Some(pick) = &mut self.pick {
                    pick.read(&bytes);
                }
            }
            Order::Completes => {
                if let Some(pick) = self.pick.take() {
                    pick.completes();
                }
            }
        }
        Ok(None)
    }

    /// Picks. All that can come meanwhile is the answer of another filter, which ends the matter, or
    /// the end.
    async fn choose(&mut self) -> Result<Option<ProcessingRequest>, Ended> {
        let Some(incoming) = self.incoming.take() else {
            return Ok(None);
        };
        let picked = tokio::select! {
            picked = Box::pin(incoming.pick()) => picked,
            message = self.messages.message() => return match message {
                Ok(Some(message)) => Ok(Some(message)),
                Ok(None) | Err(_) => Err(Ended::Gone),
            },
        };
        match picked {
            Ok((pick, body)) => {
                let replies =
                    self.exchange
                        .picked(pick.endpoints(), &body.bytes, pick.asks().as_ref());
                self.pick = Some(pick);
                for reply in replies {
                    self.send(reply).await?;
                }
                Ok(None)
            }
            Err(refused) => Err(self.refuse(refused).await),
        }
    }

    async fn refuse(&mut self, refused: Refused) -> Ended {
        let reply = self.exchange.refused(refused);
        match self.send(reply).await {
            Ok(()) => Ended::Refused,
            Err(ended) => ended,
        }
    }

    async fn send(&mut self, reply: ProcessingResponse) -> Result<(), Ended> {
        let sent = self.replies.send(Ok(reply)).await;
        sent.map_err(|_| Ended::Gone)
    }
}
