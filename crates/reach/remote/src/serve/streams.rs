//! What flows out of a worker: answers, snapshots, events.
//!
//! Each is asked when the connection has room, so nothing gathers here beyond what its source
//! holds anyway.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use contract::{BlockHash, KvSnapshot, TokenStream};
use futures_util::Stream;
use futures_util::future::BoxFuture;
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::RequestSlot;
use crate::wire;

/// Chunks in one message. A reader that lags gets many at once.
const MOST_CHUNKS: usize = 256;
/// Names of blocks in one message: half a megabyte.
const MOST_BLOCKS: usize = 1 << 16;

/// One request's answer. Dropping it cancels the request.
#[derive(Debug)]
pub struct Answer {
    stream: TokenStream,
    /// An error that came behind chunks, to be sent after them.
    error: Option<Status>,
    done: bool,
    _place: RequestSlot,
}

impl Answer {
    pub(super) fn new(stream: TokenStream, place: RequestSlot) -> Self {
        Self {
            stream,
            error: None,
            done: false,
            _place: place,
        }
    }
}

impl Stream for Answer {
    type Item = Result<wire::Chunks, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(error) = self.error.take() {
            self.done = true;
            return Poll::Ready(Some(Err(error)));
        }
        if self.done {
            return Poll::Ready(None);
        }
        let mut next = ready!(self.stream.poll_next(context));
        let mut chunks = Vec::new();
        while let Some(item) = next {
            match item {
                Ok(chunk) => {
                    self.done |= chunk.finish.is_some();
                    chunks.push(wire::to_chunk(chunk));
                }
                Err(error) => {
                    self.error = Some(wire::to_grpc(&error));
                    break;
                }
            }
            if self.done || chunks.len() == MOST_CHUNKS {
                break;
            }
            next = self.stream.try_next();
        }
        if !chunks.is_empty() {
            return Poll::Ready(Some(Ok(wire::Chunks { chunks })));
        }
        self.done = true;
        Poll::Ready(self.error.take().map(Err))
    }
}

/// A snapshot in parts.
#[derive(Debug)]
pub struct Parts {
    snapshot: KvSnapshot,
    sent: usize,
    /// Even an empty snapshot has one part: it says as of when.
    begun: bool,
}

impl Parts {
    pub(super) fn new(snapshot: KvSnapshot) -> Self {
        Self {
            snapshot,
            sent: 0,
            begun: false,
        }
    }
}

impl Stream for Parts {
    type Item = Result<wire::SnapshotPart, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let begin = self.sent;
        let end = self.snapshot.blocks.len().min(begin + MOST_BLOCKS);
        if begin == end && self.begun {
            return Poll::Ready(None);
        }
        self.begun = true;
        self.sent = end;
        let blocks = &self.snapshot.blocks[begin..end];
        Poll::Ready(Some(Ok(wire::SnapshotPart {
            epoch: self.snapshot.epoch,
            next_sequence: self.snapshot.next_sequence,
            blocks: blocks.iter().map(|BlockHash(hash)| *hash).collect(),
        })))
    }
}

/// Events for a frontend that listens directly. One that lags misses some, and will notice.
pub struct Packets {
    packets: BroadcastStream<Bytes>,
    ended: BoxFuture<'static, ()>,
}

impl Packets {
    pub(super) fn new(packets: broadcast::Receiver<Bytes>, ended: CancellationToken) -> Self {
        Self {
            packets: BroadcastStream::new(packets),
            ended: Box::pin(ended.cancelled_owned()),
        }
    }
}

impl std::fmt::Debug for Packets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Packets")
    }
}

impl Stream for Packets {
    type Item = Result<wire::Packet, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match Pin::new(&mut self.packets).poll_next(context) {
                Poll::Ready(Some(Ok(envelope))) => {
                    return Poll::Ready(Some(Ok(wire::Packet { envelope })));
                }
                Poll::Ready(Some(Err(BroadcastStreamRecvError::Lagged(_)))) => {}
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => break,
            }
        }
        self.ended.as_mut().poll(context).map(|()| None)
    }
}
