//! Small requests with small answers, over the same connections.

use bytes::Bytes;
use http::request::Builder;
use http::{Request, StatusCode};
use http_body_util::Full;

use crate::{BodyError, HttpClient, read, reason};

/// Why a GET request failed.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    #[error("invalid request: {0}")]
    Address(String),
    #[error("{0}")]
    Unreachable(String),
    #[error(transparent)]
    Body(#[from] BodyError),
}

impl HttpClient {
    /// The status and the body of an address, if the body has at most so many bytes.
    pub async fn get(
        &self,
        address: &str,
        most_bytes: usize,
    ) -> Result<(StatusCode, Bytes), GetError> {
        self.exchange(Request::get(address), Bytes::new(), most_bytes)
            .await
    }

    /// The same for a request that carries a body.
    pub async fn exchange(
        &self,
        request: Builder,
        body: Bytes,
        most_bytes: usize,
    ) -> Result<(StatusCode, Bytes), GetError> {
        let request = request
            .body(Full::new(body))
            .map_err(|error| GetError::Address(error.to_string()))?;
        let answer = self.send(request).await;
        let answer = answer.map_err(|error| GetError::Unreachable(reason(&error)))?;
        let status = answer.status();
        Ok((status, read(answer, most_bytes).await?))
    }
}
