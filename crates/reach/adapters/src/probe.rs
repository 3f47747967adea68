//! Asks an engine how it is and what it is.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};

use crate::figures::{self, About, Load};
use crate::http::Server;
use crate::spec::EngineKind;

/// Longest answer about itself that an engine may give.
const MOST_BYTES: usize = 8 << 20;

pub(crate) struct Probe {
    pub(crate) kind: EngineKind,
    pub(crate) server: Server,
    pub(crate) patience: Duration,
}

impl Probe {
    async fn get(&self, path: &str) -> Result<(StatusCode, Bytes), String> {
        let patience = self.patience;
        let answer = self
            .server
            .ask((Method::GET, path), patience, MOST_BYTES)
            .await;
        answer.map_err(|error| error.to_string())
    }

    /// Whether it is well.
    pub(crate) async fn healthy(&self) -> Result<(), String> {
        let (mut status, _) = self.get("/health").await?;
        if matches!(
            status,
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED
        ) {
            (status, _) = self.get("/v1/models").await?;
        }
        if status.is_success() {
            return Ok(());
        }
        Err(format!("it answered {status}"))
    }

    /// How busy it is, if it says.
    pub(crate) async fn load(&self) -> Option<Load> {
        if self.kind == EngineKind::Openai {
            return None;
        }
        let (status, body) = self.get("/metrics").await.ok()?;
        let body = std::str::from_utf8(&body).ok()?;
        figures::load(self.kind, body).filter(|_| status.is_success())
    }

    /// What the engine says about itself. A question without an answer costs nothing.
    pub(crate) async fn about(&self) -> About {
        let mut about = About::default();
        if let Ok((StatusCode::OK, body)) = self.get("/v1/models").await {
            about = about.or(figures::about_from_models(&body));
        }
        match self.kind {
            EngineKind::Vllm | EngineKind::Trtllm => {
                if let Ok((StatusCode::OK, body)) = self.get("/metrics").await {
                    let body = String::from_utf8_lossy(&body);
                    about = about.or(figures::about_from_metrics(self.kind, &body));
                }
            }
            EngineKind::Sglang => {
                for path in ["/server_info", "/get_server_info"] {
                    if let Ok((StatusCode::OK, body)) = self.get(path).await {
                        about = about.or(figures::about_from_server_info(&body));
                        break;
                    }
                }
            }
            EngineKind::Openai => {}
        }
        about
    }
}
