//! Asks an engine whether it is healthy, how busy it is and how it is configured.

use std::time::Duration;

use bytes::Bytes;
use contract::ForwardPath;
use http::{Method, StatusCode};

use crate::dialect::{Dialect, Report};
use crate::figures::{self, About, Load};
use crate::http::{HttpError, Limits, Server};

/// The longest document about itself that an engine may serve.
pub(crate) const MOST_BYTES: usize = 8 << 20;
const HEALTH: &str = "/health";
const MODELS: &str = "/v1/models";
/// In the form of OpenAPI.
pub(crate) const DESCRIPTION: &str = "/openapi.json";

/// Why an engine counts as unhealthy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unhealthy {
    #[error("the health check got no response")]
    NoResponse(#[from] HttpError),
    #[error("the health check got status {0}")]
    Status(StatusCode),
}

impl Unhealthy {
    /// Whether the engine took the connection and said nothing: it may be busy.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self, Self::NoResponse(HttpError::Timeout(_)))
    }
}

pub(crate) struct Probe {
    pub(crate) dialect: &'static Dialect,
    pub(crate) server: Server,
    /// For one response.
    pub(crate) patience: Duration,
}

impl Probe {
    async fn get(&self, path: &str) -> Result<(StatusCode, Bytes), HttpError> {
        let limits = Limits {
            time: self.patience,
            bytes: MOST_BYTES,
        };
        self.server.fetch(Method::GET, path, limits).await
    }

    pub(crate) async fn healthy(&self) -> Result<(), Unhealthy> {
        let (mut status, _) = self.get(HEALTH).await?;
        // Not every OpenAI server has it.
        if matches!(
            status,
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED
        ) {
            (status, _) = self.get(MODELS).await?;
        }
        if status.is_success() {
            return Ok(());
        }
        Err(Unhealthy::Status(status))
    }

    /// How busy it is, if it reports that.
    pub(crate) async fn load(&self) -> Option<Load> {
        self.read(self.dialect.load.as_ref()?).await?
    }

    /// How it is configured. A document that is missing leaves its values unknown.
    pub(crate) async fn about(&self) -> About {
        let models = Report {
            paths: &[MODELS],
            read: figures::about_from_models,
        };
        let models = self.read(&models).await.unwrap_or_default();
        let own = match &self.dialect.about {
            Some(report) => self.read(report).await,
            None => None,
        };
        models.or(own.unwrap_or_default())
    }

    /// The endpoints to which requests can be forwarded: those that the engine's description of
    /// itself lists, or those that its kind usually has.
    pub(crate) async fn forwards(&self) -> Vec<ForwardPath> {
        let description = Report {
            paths: &[DESCRIPTION],
            read: figures::described_paths,
        };
        match self.read(&description).await.flatten() {
            Some(paths) => paths,
            None => self.dialect.forwards.to_vec(),
        }
    }

    /// The first of a report's documents that is there.
    async fn read<T>(&self, report: &Report<T>) -> Option<T> {
        for path in report.paths {
            if let Ok((StatusCode::OK, body)) = self.get(path).await {
                return Some((report.read)(&String::from_utf8_lossy(&body)));
            }
        }
        None
    }
}
