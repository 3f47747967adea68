//! gRPC's health checks: whether requests can be sent somewhere, and whether the process lives.

use std::pin::Pin;
use std::time::Duration;

use frontend::Frontend;
use futures_util::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::wire::health::health_server;
use crate::wire::health::{HealthCheckRequest, HealthCheckResponse, ServingStatus};

/// How often a level is looked at for those who watch it.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Names under which readiness is asked for; the empty one is the server as a whole.
const READINESS: [&str; 3] = [
    "",
    "readiness",
    "envoy.service.ext_proc.v3.ExternalProcessor",
];
const LIVENESS: &str = "liveness";

#[derive(Clone)]
pub(crate) struct Health {
    frontend: Frontend,
    stop: CancellationToken,
}

impl Health {
    /// Ready until `stop` fires.
    pub(crate) fn new(frontend: Frontend, stop: CancellationToken) -> Self {
        Self { frontend, stop }
    }

    fn status(&self, service: &str) -> ServingStatus {
        let ready = || !self.stop.is_cancelled() && self.frontend.is_serving();
        match service {
            LIVENESS => ServingStatus::Serving,
            name if READINESS.contains(&name) => match ready() {
                true => ServingStatus::Serving,
                false => ServingStatus::NotServing,
            },
            _ => ServingStatus::ServiceUnknown,
        }
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status.into(),
    }
}

#[tonic::async_trait]
impl health_server::Health for Health {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match self.status(&request.get_ref().service) {
            ServingStatus::ServiceUnknown => Err(Status::not_found("unknown service")),
            status @ (ServingStatus::Unknown
            | ServingStatus::Serving
            | ServingStatus::NotServing) => Ok(Response::new(response(status))),
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let service = request.into_inner().service;
        let (health, told) = (self.clone(), None);
        let changes = futures_util::stream::unfold(told, move |told| {
            let (health, service) = (health.clone(), service.clone());
            async move {
                loop {
                    let status = health.status(&service);
                    if told != Some(status) {
                        return Some((Ok(response(status)), Some(status)));
                    }
                    // A server that stops has said so, and hangs up.
                    let look = tokio::time::sleep(LOOK_EVERY);
                    health.stop.run_until_cancelled(look).await?;
                }
            }
        });
        Ok(Response::new(Box::pin(changes)))
    }
}
