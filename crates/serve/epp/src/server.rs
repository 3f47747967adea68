//! The gRPC server: listeners, limits, and a task for each stream.

use std::time::Duration;

use frontend::{Frontend, Picker};
use tokio::net::TcpListener;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::health::Health;
use crate::identity::Identity;
use crate::stream::{Reply, Stream};
use crate::wire::ProcessingRequest;
use crate::wire::external_processor_server::{ExternalProcessor, ExternalProcessorServer};
use crate::wire::health::health_server::HealthServer;

/// Every request of a gateway is a stream for as long as its answer takes, and they share few
/// connections: hyper's 200 would queue them.
const MOST_STREAMS: u32 = 1 << 16;
/// Bytes that a stream, and a connection, may send before we have read: with 64 KiB, a body of
/// megabytes waits for a round trip after each of its parts.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
/// What a message may have besides a body.
const AROUND_A_BODY: usize = 1 << 20;
/// A gateway that is gone without a word is noticed by then, and its requests give their places back.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// What is served.
#[derive(Clone, Debug)]
pub struct Service {
    pub picker: Picker,
    /// Whose health it is.
    pub frontend: Frontend,
    /// On which streams run.
    pub streams: TaskTracker,
    /// Fires when no new streams are taken.
    pub stop: CancellationToken,
}

impl Service {
    fn health(&self) -> HealthServer<Health> {
        HealthServer::new(Health::new(self.frontend.clone(), self.stop.clone()))
    }
}

/// The server could not be set up, or a listener failed.
#[derive(Debug, thiserror::Error)]
#[error("the gRPC server failed")]
pub struct ServeError(#[from] tonic::transport::Error);

/// Serves picks and health until the service stops and the streams that run have ended; in the clear
/// without an identity.
pub async fn serve(
    service: Service,
    listener: TcpListener,
    identity: Option<&Identity>,
) -> Result<(), ServeError> {
    let most = service.picker.max_body_bytes() + AROUND_A_BODY;
    let stop = service.stop.clone();
    let health = service.health();
    let picks = ExternalProcessorServer::new(Picks(service)).max_decoding_message_size(most);
    server(identity)?
        .add_service(picks)
        .add_service(health)
        .serve_with_incoming_shutdown(incoming(listener), stop.cancelled_owned())
        .await?;
    Ok(())
}

/// Serves health alone, in the clear, as probes ask for it.
pub async fn serve_health(service: Service, listener: TcpListener) -> Result<(), ServeError> {
    let health = service.health();
    server(None)?
        .add_service(health)
        .serve_with_incoming_shutdown(incoming(listener), service.stop.cancelled_owned())
        .await?;
    Ok(())
}

fn server(identity: Option<&Identity>) -> Result<Server, ServeError> {
    let mut server = Server::builder()
        .max_concurrent_streams(MOST_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keepalive_interval(Some(PING_EVERY))
        .http2_keepalive_timeout(Some(PING_TIMEOUT));
    if let Some(identity) = identity {
        server = server.tls_config(identity.server())?;
    }
    Ok(server)
}

fn incoming(listener: TcpListener) -> TcpIncoming {
    TcpIncoming::from(listener).with_nodelay(Some(true))
}

struct Picks(Service);

#[tonic::async_trait]
impl ExternalProcessor for Picks {
    type ProcessStream = ReceiverStream<Reply>;

    async fn process(
        &self,
        request: Request<Streaming<ProcessingRequest>>,
    ) -> Result<Response<Self::ProcessStream>, Status> {
        let (stream, replies) = Stream::new(self.0.picker.clone(), request.into_inner());
        self.0.streams.spawn(stream.run());
        Ok(Response::new(ReceiverStream::new(replies)))
    }
}

#[cfg(test)]
mod tests;
