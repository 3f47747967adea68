//! How a request reaches a Dynamo worker: sent on one connection, answered on another, which
//! the worker opens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use contract::{
    FinishReason, GenerateRequest, HashSeed, KvSnapshot, LinkError, TokenChunk, TokenStream,
    WorkerId, token_stream,
};
use tokio::time::timeout;
use transport::{LinkFuture, WorkerLink};
use uuid::Uuid;

use crate::answer::{Answer, fault};
use crate::cache_feed::CacheFeed;
use crate::connection::{Connection, Connections, SendError};
use crate::directory::Description;
use crate::incoming::{FrameError, Incoming};
use crate::registration::Address;
use crate::responses::{PendingAnswer, Responses};
use crate::source::AnswerSource;
use crate::wire::engine::Answer as Received;
use crate::wire::query::{self, DumpReply};
use crate::wire::request::Acknowledgement;
use crate::wire::{Codec, control, engine, request};

/// From the acknowledgement until the worker has connected back, which it does before it
/// computes anything.
const CALL_BACK_PATIENCE: Duration = Duration::from_secs(10);
/// For a dump of everything.
const DUMP_PATIENCE: Duration = Duration::from_secs(60);

/// A link to one worker.
#[derive(Debug)]
pub(crate) struct DynamoLink {
    worker: WorkerId,
    description: Description,
    serving: Connections,
    recovery: Option<Connections>,
    responses: Arc<Responses>,
    cache: Arc<CacheFeed>,
    gone: AtomicBool,
}

impl DynamoLink {
    pub(crate) fn new(
        description: Description,
        responses: Arc<Responses>,
        cache: Arc<CacheFeed>,
    ) -> Self {
        let connections = |address: &Address| Connections::new(&address.host);
        Self {
            worker: description.card.id,
            serving: connections(&description.serving),
            recovery: description.recovery.as_ref().map(connections),
            description,
            responses,
            cache,
            gone: AtomicBool::new(false),
        }
    }

    /// Refuses new requests. Running ones continue.
    pub(crate) fn leave(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    async fn start(&self, generate: GenerateRequest) -> Result<TokenStream, LinkError> {
        let worker = self.worker;
        if generate.hash_seed != HashSeed::BASE {
            // The worker would share a cache that the client wants to keep apart.
            let detail = "a dynamo worker keeps no separate cache for a salt or an adapter";
            let detail = detail.to_owned();
            return Err(LinkError::Refused { worker, detail });
        }
        if generate.answered.len() >= generate.limits.max_tokens as usize {
            return Ok(complete(worker));
        }
        let answer = Answer::new(&generate, worker, self.held_tokens(&generate));
        let began = tokio::time::Instant::now();
        let Address { path, codec, .. } = &self.description.serving;
        let model = self.description.card.model.as_str();
        let body = engine::request(&generate, model, *codec);
        let incoming = self.ask(&self.serving, path, *codec, &body).await?;
        let source = AnswerSource::new(incoming, *codec, answer, began);
        Ok(TokenStream::from_source(source))
    }

    /// Prompt tokens that the worker holds, according to its events. The last token is always
    /// computed, because the first of the answer follows from it.
    fn held_tokens(&self, generate: &GenerateRequest) -> u32 {
        let blocks = self.description.card.blocks;
        let chain = blocks.chain(&generate.prompt, HashSeed::BASE);
        let held = self.cache.leading_blocks(&chain);
        let most = blocks.reusable(generate.prompt.len());
        u32::try_from(held.min(most) * blocks.size as usize).unwrap_or(u32::MAX)
    }

    /// Sends a request and waits until the worker has begun to answer.
    async fn ask(
        &self,
        connections: &Connections,
        path: &str,
        codec: Codec,
        body: &[u8],
    ) -> Result<Incoming, LinkError> {
        if self.gone.load(Ordering::Relaxed) {
            return Err(self.unreachable("the worker has left"));
        }
        let question = Question { path, codec, body };
        let mut expected = self.send(connections, &question).await?;
        let begin = async {
            let mut incoming = expected.answer().await.ok_or(FrameError::Closed)?;
            let read = |frame: crate::wire::two_part::Frame<'_>| control::prologue(frame.header);
            let refusal = incoming.frame(control::LARGEST_HEADER, read).await??;
            Ok::<_, FrameError>((incoming, refusal))
        };
        match timeout(CALL_BACK_PATIENCE, begin).await {
            Ok(Ok((incoming, None))) => Ok(incoming),
            Ok(Ok((_, Some(refusal)))) => Err(fault(self.worker, "", &refusal)),
            Ok(Err(error)) => Err(self.unreachable(error)),
            Err(_) => {
                let detail = format!(
                    "it accepted the request and did not connect back within {CALL_BACK_PATIENCE:?}; it must be able to reach the address that it was given (--dynamo-listen, --dynamo-advertise)"
                );
                Err(self.unreachable(detail))
            }
        }
    }

    /// Sends a request until it is acknowledged. A kept connection may have died unnoticed,
    /// so a failure on one is no failure of the worker.
    async fn send(
        &self,
        connections: &Connections,
        question: &Question<'_>,
    ) -> Result<PendingAnswer, LinkError> {
        let unreachable = |error: SendError| self.unreachable(error);
        let connection = connections.get().await.map_err(unreachable)?;
        let used = connection.used;
        match self.send_on(connections, connection, question).await {
            Err(SendError::Broken(_)) if used => {
                let fresh = connections.open().await.map_err(unreachable)?;
                let sent = self.send_on(connections, fresh, question).await;
                sent.map_err(unreachable)?
            }
            sent => sent.map_err(unreachable)?,
        }
    }

    async fn send_on(
        &self,
        connections: &Connections,
        mut connection: Connection,
        question: &Question<'_>,
    ) -> Result<Result<PendingAnswer, LinkError>, SendError> {
        let expected = self.responses.expect(connection.own_address()?);
        let answer_to = control::AnswerTo {
            address: &expected.address,
            subject: &expected.subject,
        };
        // An id of ours, because the client's may not be unique.
        let id = Uuid::new_v4().to_string();
        let payload = control::request(&id, answer_to, question.codec, question.body);
        let bytes = request::encode(question.path, &payload)?;
        let acknowledgement = connection.send(&bytes).await?;
        connections.put(connection);
        let worker = self.worker;
        Ok(match acknowledgement {
            Acknowledgement::Taken => Ok(expected),
            Acknowledgement::Overloaded(detail) => Err(LinkError::Overloaded { worker, detail }),
            Acknowledgement::Unavailable(_) => Err(LinkError::Draining { worker }),
            Acknowledgement::Refused(detail) => Err(self.unreachable(detail)),
        })
    }

    /// Asks for everything the worker holds.
    async fn dump(&self) -> Result<KvSnapshot, LinkError> {
        let (Some(address), Some(connections)) = (&self.description.recovery, &self.recovery)
        else {
            // It publishes no events either, so nothing is known about its cache.
            return Ok(self.cache.restore(&[], 0));
        };
        self.cache.await_dump();
        let Description { dp_rank, .. } = self.description;
        let body = query::everything(self.worker.0, dp_rank, address.codec);
        let mut incoming = self
            .ask(connections, &address.path, address.codec, &body)
            .await?;
        loop {
            let read = |frame: crate::wire::two_part::Frame<'_>| {
                query::dump_reply(frame.body, address.codec)
            };
            let frame = incoming.frame(query::LARGEST_DUMP, read).await;
            let reply = match frame.map_err(|error| self.unreachable(error))? {
                Ok(Received::Data(reply)) => reply,
                Ok(Received::Nothing) => continue,
                Ok(Received::End) => return Err(self.unreachable("the worker sent no dump")),
                Ok(Received::Error { message, .. }) => return Err(self.unreachable(message)),
                Err(error) => return Err(self.unreachable(error)),
            };
            let detail = match reply {
                DumpReply::TreeDump {
                    events,
                    last_event_id,
                }
                | DumpReply::Events {
                    events,
                    last_event_id,
                } => return Ok(self.cache.restore(&events, last_event_id)),
                DumpReply::TreeDumpFailed { message } | DumpReply::Error(message) => message,
                DumpReply::TooNew {} | DumpReply::InvalidRange {} => {
                    "the worker has no dump".to_owned()
                }
            };
            return Err(self.unreachable(detail));
        }
    }

    fn unreachable(&self, detail: impl ToString) -> LinkError {
        LinkError::Unreachable {
            worker: self.worker,
            detail: detail.to_string(),
        }
    }
}

/// A request as it is sent.
struct Question<'a> {
    path: &'a str,
    codec: Codec,
    body: &'a [u8],
}

/// The rest of an answer that is already complete.
fn complete(worker: WorkerId) -> TokenStream {
    let (mut sender, stream) = token_stream(worker);
    sender.send(TokenChunk {
        finish: Some(FinishReason::Length),
        ..TokenChunk::default()
    });
    stream
}

impl WorkerLink for DynamoLink {
    fn generate(&self, request: GenerateRequest) -> LinkFuture<'_, TokenStream> {
        Box::pin(self.start(request))
    }

    /// Only the receiver of the feed may ask: batches that are published until the reply are
    /// empty, and only the reply contains what they lack.
    fn snapshot(&self) -> LinkFuture<'_, KvSnapshot> {
        Box::pin(async {
            match timeout(DUMP_PATIENCE, self.dump()).await {
                Ok(dump) => dump,
                Err(_) => Err(self.unreachable(format!("no dump within {DUMP_PATIENCE:?}"))),
            }
        })
    }

    fn reset_cache(&self) -> LinkFuture<'_, ()> {
        let error = self.unreachable("a dynamo worker has no way to clear its cache");
        Box::pin(async { Err(error) })
    }
}
