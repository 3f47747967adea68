//! Sends requests to a worker on another machine.
//!
//! A link lives as long as its connection's session: once the worker is known to be gone,
//! every stream of it ends with an error, also those whose connection has not noticed yet.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use contract::{
    BlockHash, ChunkSource, FrontendId, FrontendLoad, GenerateRequest, KvSnapshot, LinkError,
    TokenChunk, TokenStream, WorkerId,
};
use tokio::sync::watch;
use tokio_stream::Stream as _;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use transport::{LinkFuture, WorkerLink};

use crate::wire;
use crate::wire::worker_client::WorkerClient;

/// Blocks that a snapshot may name. More than any worker's memory holds.
const MOST_BLOCKS: usize = 1 << 26;

#[derive(Debug)]
pub(crate) struct GrpcLink {
    pub(crate) worker: WorkerId,
    pub(crate) frontend: FrontendId,
    pub(crate) client: WorkerClient<Channel>,
    /// What the session tells the worker next.
    pub(crate) load: watch::Sender<FrontendLoad>,
    /// Fires when the worker is gone.
    pub(crate) gone: CancellationToken,
}

impl GrpcLink {
    fn lost(&self) -> LinkError {
        LinkError::Lost {
            worker: self.worker,
        }
    }

    /// Waits for an answer, but not for a worker that is gone.
    async fn call<T>(
        &self,
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Result<T, LinkError> {
        match self.gone.run_until_cancelled(call).await {
            Some(Ok(response)) => Ok(response.into_inner()),
            Some(Err(status)) => Err(wire::from_grpc(self.worker, &status)),
            None => Err(self.lost()),
        }
    }

    async fn collect(&self) -> Result<KvSnapshot, LinkError> {
        let mut client = self.client.clone();
        let mut parts = self.call(client.snapshot(wire::SnapshotRequest {})).await?;
        let mut snapshot = KvSnapshot::default();
        loop {
            let part = self.gone.run_until_cancelled(parts.message()).await;
            let part = part.ok_or_else(|| self.lost())?;
            let Some(part) = part.map_err(|status| wire::from_grpc(self.worker, &status))? else {
                return Ok(snapshot);
            };
            snapshot.epoch = part.epoch;
            snapshot.next_sequence = part.next_sequence;
            let blocks = part.blocks.into_iter().map(BlockHash);
            snapshot.blocks.extend(blocks);
            if snapshot.blocks.len() > MOST_BLOCKS {
                return Err(LinkError::Unreachable {
                    worker: self.worker,
                    detail: "its snapshot does not end".to_owned(),
                });
            }
        }
    }
}

impl WorkerLink for GrpcLink {
    fn generate(&self, request: GenerateRequest) -> LinkFuture<'_, TokenStream> {
        Box::pin(async move {
            let mut call = tonic::Request::new(wire::to_request(&request, self.frontend.0));
            if let Some(trace) = &request.trace {
                wire::write_trace(trace, call.metadata_mut());
            }
            let mut client = self.client.clone();
            let stream = self.call(client.generate(call)).await?;
            Ok(TokenStream::from_source(RemoteChunks {
                worker: self.worker,
                stream,
                arrived: VecDeque::new(),
                gone: Box::pin(self.gone.clone().cancelled_owned()),
            }))
        })
    }

    fn snapshot(&self) -> LinkFuture<'_, KvSnapshot> {
        Box::pin(self.collect())
    }

    fn reset_cache(&self) -> LinkFuture<'_, ()> {
        Box::pin(async {
            let mut client = self.client.clone();
            let reset = client.reset_cache(wire::ResetCacheRequest {});
            self.call(reset).await.map(|wire::ResetCacheReply {}| ())
        })
    }

    fn tell_load(&self, load: FrontendLoad) {
        self.load.send_replace(load);
    }
}

/// A request's chunks as they come over the network.
#[derive(Debug)]
struct RemoteChunks {
    worker: WorkerId,
    stream: Streaming<wire::Chunks>,
    arrived: VecDeque<wire::Chunk>,
    gone: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl RemoteChunks {
    fn interrupted(&self, detail: &str) -> LinkError {
        LinkError::Interrupted {
            worker: self.worker,
            detail: detail.to_owned(),
        }
    }
}

impl ChunkSource for RemoteChunks {
    fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<TokenChunk, LinkError>>> {
        loop {
            if let Some(chunk) = self.arrived.pop_front() {
                let chunk = wire::from_chunk(chunk);
                let chunk = chunk.ok_or_else(|| self.interrupted("an end that is not known"));
                return Poll::Ready(Some(chunk));
            }
            match Pin::new(&mut self.stream).poll_next(context) {
                Poll::Ready(Some(Ok(chunks))) => self.arrived.extend(chunks.chunks),
                Poll::Ready(Some(Err(status))) => {
                    let mut error = wire::from_grpc(self.worker, &status);
                    // It was reached: the answer had begun.
                    if let LinkError::Unreachable { worker, detail } = error {
                        error = LinkError::Interrupted { worker, detail };
                    }
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => {
                    let error = self.interrupted("the stream ended before the answer");
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Pending => {
                    if self.gone.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    let error = self.interrupted("the connection is lost");
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}
