//! The side that others connect to.

use std::sync::Arc;

use tasks::Tasks;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use super::Exchange;
use crate::silence::{PING_EVERY, PING_TIMEOUT};
use crate::wire;
use crate::wire::peers_server::{Peers, PeersServer};

/// What is sent to the side that connected.
type Outgoing = Result<wire::PeerReport, Status>;

pub(super) async fn serve(
    exchange: Arc<Exchange>,
    listener: TcpListener,
    tasks: Tasks,
) -> Result<(), tonic::transport::Error> {
    let mut server = Server::builder()
        .http2_keepalive_interval(Some(PING_EVERY))
        .http2_keepalive_timeout(Some(PING_TIMEOUT));
    if let Some(tls) = &exchange.tls {
        server = server.tls_config(tls.server())?;
    }
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    server
        .add_service(PeersServer::new(Incoming { exchange, tasks }))
        .serve_with_incoming(incoming)
        .await
}

/// Connections that others open.
struct Incoming {
    exchange: Arc<Exchange>,
    tasks: Tasks,
}

#[tonic::async_trait]
impl Peers for Incoming {
    type ExchangeStream = ReceiverStream<Outgoing>;

    async fn exchange(
        &self,
        request: Request<Streaming<wire::PeerReport>>,
    ) -> Result<Response<Self::ExchangeStream>, Status> {
        let (outbound, stream) = mpsc::channel(1);
        let (exchange, inbound) = (Arc::clone(&self.exchange), request.into_inner());
        self.tasks.spawn_until_stop(async move {
            exchange.converse(inbound, outbound, Ok, &mut None).await;
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}
