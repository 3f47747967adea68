//! How a request reaches a Dynamo worker: sent over its request plane, answered on a connection
//! that the worker opens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use contract::{
    FinishReason, GenerateRequest, HashSeed, KvSnapshot, LinkError, TokenChunk, TokenStream,
    WorkerId, token_stream,
};
use nats::{Nats, RequestError};
use tasks::Backoff;
use tokio::time::timeout;
use tracing::warn;
use transport::{LinkFuture, WorkerLink};

use crate::answer::{Answer, fault};
use crate::cache_feed::CacheFeed;
use crate::connection::SendError;
use crate::directory::Description;
use crate::incoming::{FrameError, Incoming};
use crate::request_plane::{RequestPlane, Sent};
use crate::responses::{PendingAnswer, Responses};
use crate::source::AnswerSource;
use crate::wire::engine::Answer as Received;
use crate::wire::query::{self, Dump, DumpReply, Range};
use crate::wire::request::Acknowledgement;
use crate::wire::{control, engine};

/// From the acknowledgement until the worker has connected back, which it does before it
/// computes anything.
const CALL_BACK_PATIENCE: Duration = Duration::from_secs(10);
/// For a dump of everything.
const DUMP_PATIENCE: Duration = Duration::from_secs(60);
/// Between attempts to get one.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A link to one worker.
#[derive(Debug)]
pub(crate) struct DynamoLink {
    worker: WorkerId,
    description: Description,
    serving: RequestPlane,
    recovery: Option<RequestPlane>,
    responses: Arc<Responses>,
    cache: Arc<CacheFeed>,
    gone: AtomicBool,
}

impl DynamoLink {
    pub(crate) fn new(
        description: Description,
        responses: Arc<Responses>,
        cache: Arc<CacheFeed>,
        nats: Option<&Nats>,
    ) -> Self {
        let recovery = description.recovery.as_ref();
        Self {
            worker: description.card.id,
            serving: RequestPlane::new(&description.serving, nats),
            recovery: recovery.map(|address| RequestPlane::new(address, nats)),
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

    fn has_left(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
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
        let codec = self.serving.codec;
        let model = self.description.card.model.as_str();
        let body = engine::request(&generate, model, codec);
        let incoming = self.ask(&self.serving, &body).await?;
        let source = AnswerSource::new(incoming, codec, answer, began);
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
    async fn ask(&self, plane: &RequestPlane, body: &[u8]) -> Result<Incoming, LinkError> {
        if self.has_left() {
            return Err(self.unreachable("the worker has left"));
        }
        let mut expected = self.send(plane, body).await?;
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
                    "it accepted the request and did not connect back within {CALL_BACK_PATIENCE:?}; it must be able to reach {}, the address that it was given (--dynamo-listen, --dynamo-advertise)",
                    expected.address
                );
                Err(self.unreachable(detail))
            }
        }
    }

    /// Sends a request until it is taken.
    async fn send(&self, plane: &RequestPlane, body: &[u8]) -> Result<PendingAnswer, LinkError> {
        let worker = self.worker;
        let Sent {
            acknowledgement,
            answer,
        } = match plane.send(body, &self.responses).await {
            Ok(sent) => sent,
            Err(SendError::Nats(error @ RequestError::TooLarge { .. })) => {
                let detail = error.to_string();
                return Err(LinkError::TooLarge { worker, detail });
            }
            Err(error) => return Err(self.unreachable(error)),
        };
        match acknowledgement {
            Acknowledgement::Taken => Ok(answer),
            Acknowledgement::Overloaded(detail) => Err(LinkError::Overloaded { worker, detail }),
            Acknowledgement::Unavailable(_) => Err(LinkError::Draining { worker }),
            Acknowledgement::Refused(detail) => Err(self.unreachable(detail)),
        }
    }

    /// Asks for everything the worker holds.
    async fn dump(&self) -> Result<KvSnapshot, LinkError> {
        let Some(recovery) = &self.recovery else {
            // It publishes no events either, so nothing is known about its cache.
            return Ok(self.cache.restore(&[], 1));
        };
        self.cache.await_dump();
        let reply = self.query(recovery, Range::Everything).await?;
        let Dump {
            events,
            last_event_id,
        } = self.events(reply)?;
        let (dump, next) = match last_event_id {
            Some(last) => (events, last.saturating_add(1)),
            // An old version does not say which events its dump contains. One that is asked for
            // afterwards contains all that were published before.
            None => {
                drop(events);
                let beyond = self.query(recovery, Range::Beyond).await?;
                let next = if let DumpReply::TooNew { newest_available } = beyond {
                    newest_available.saturating_add(1)
                } else {
                    // Nothing has been published.
                    self.events(beyond)?;
                    0
                };
                let dump = self.query(recovery, Range::Everything).await?;
                (self.events(dump)?.events, next)
            }
        };
        Ok(self.cache.restore(&dump, next))
    }

    fn events(&self, reply: DumpReply) -> Result<Dump, LinkError> {
        match reply {
            DumpReply::TreeDump(dump) | DumpReply::Events(dump) => Ok(dump),
            DumpReply::TreeDumpFailed { message } | DumpReply::Error(message) => {
                Err(self.unreachable(message))
            }
            DumpReply::TooNew { .. } | DumpReply::InvalidRange {} => {
                Err(self.unreachable("the worker has no dump"))
            }
        }
    }

    /// Asks about the worker's cache.
    async fn query(&self, plane: &RequestPlane, range: Range) -> Result<DumpReply, LinkError> {
        let codec = plane.codec;
        let body = query::request(self.worker.0, self.description.dp_rank, range, codec);
        let mut incoming = self.ask(plane, &body).await?;
        loop {
            let read =
                |frame: crate::wire::two_part::Frame<'_>| query::dump_reply(frame.body, codec);
            let frame = incoming.frame(query::LARGEST_DUMP, read).await;
            match frame.map_err(|error| self.unreachable(error))? {
                Ok(Received::Data(reply)) => return Ok(reply),
                Ok(Received::Nothing) => {}
                Ok(Received::End) => return Err(self.unreachable("the worker sent no dump")),
                Ok(Received::Error { message, .. }) => return Err(self.unreachable(message)),
                Err(error) => return Err(self.unreachable(error)),
            }
        }
    }

    fn unreachable(&self, detail: impl ToString) -> LinkError {
        LinkError::Unreachable {
            worker: self.worker,
            detail: detail.to_string(),
        }
    }
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
    ///
    /// Asks until the worker answers or has left. Whether it exists says the registry, which does
    /// not name it again: a receiver that gave up while NATS was away would never see it again.
    fn snapshot(&self) -> LinkFuture<'_, KvSnapshot> {
        Box::pin(async {
            let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
            let mut failed = false;
            loop {
                let error = match timeout(DUMP_PATIENCE, self.dump()).await {
                    Ok(Ok(dump)) => return Ok(dump),
                    Ok(Err(error)) => error,
                    Err(_) => self.unreachable(format!("no dump within {DUMP_PATIENCE:?}")),
                };
                if self.has_left() {
                    return Err(error);
                }
                if !std::mem::replace(&mut failed, true) {
                    warn!(worker = %self.worker, %error, "its cache is not known yet; asking again");
                }
                backoff.wait().await;
            }
        })
    }

    fn reset_cache(&self) -> LinkFuture<'_, ()> {
        let error = self.unreachable("a dynamo worker has no way to clear its cache");
        Box::pin(async { Err(error) })
    }
}
