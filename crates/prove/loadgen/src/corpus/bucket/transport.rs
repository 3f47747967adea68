//! Carries the requests of `object_store` over our transport.

use std::time::Duration;

use async_trait::async_trait;
use http_body_util::{BodyExt as _, Full};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use tokio::time::timeout;

use http_client::reason;

#[derive(Clone, Debug)]
pub(super) struct StoreTransport {
    transport: http_client::HttpClient,
    /// For the head of an answer.
    patience: Duration,
}

impl StoreTransport {
    pub(super) fn new(transport: http_client::HttpClient, patience: Duration) -> Self {
        Self {
            transport,
            patience,
        }
    }
}

impl HttpConnector for StoreTransport {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[derive(Debug, thiserror::Error)]
enum StoreError {
    #[error("cannot reach {place}: {reason}")]
    Unreachable { place: String, reason: String },
    #[error("{place} does not answer")]
    Silent { place: String },
}

#[async_trait]
impl HttpService for StoreTransport {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let place = request.uri().authority().map(ToString::to_string);
        let place = place.unwrap_or_default();
        // Nothing is ever stored from here, so bodies are small and in one piece.
        let request = request.map(|body| Full::new(body.as_bytes().cloned().unwrap_or_default()));
        match timeout(self.patience, self.transport.send(request)).await {
            Ok(Ok(response)) => Ok(response.map(|body| {
                let broken = |error| HttpError::new(HttpErrorKind::Interrupted, error);
                HttpResponseBody::new(body.map_err(broken))
            })),
            Ok(Err(error)) => {
                let kind = match error.is_connect() {
                    true => HttpErrorKind::Connect,
                    false => HttpErrorKind::Request,
                };
                let reason = reason(&error);
                Err(HttpError::new(
                    kind,
                    StoreError::Unreachable { place, reason },
                ))
            }
            Err(_) => Err(HttpError::new(
                HttpErrorKind::Timeout,
                StoreError::Silent { place },
            )),
        }
    }
}
