//! Looking into the server, and changing it.
//!
//! Reading is free. What changes something (router mode, cache, workers) goes through
//! [`Access`]: open on loopback, by token beyond it.

use std::fmt;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use contract::{WorkerCard, WorkerId};
use http::{HeaderMap, StatusCode, header};
use router::{BlockWeights, Mode, ModeError, ModeName};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tracing::info;

use crate::App;
use crate::error::ApiError;

/// Who may change the server.
#[derive(Clone)]
pub enum Access {
    /// Anyone who can connect.
    Open,
    /// Whoever sends this as a bearer token.
    Token(String),
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "Open",
            Self::Token(_) => "Token(..)",
        })
    }
}

impl Access {
    fn check(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let Self::Token(token) = self else {
            return Ok(());
        };
        let sent = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        if sent.is_some_and(|sent| equal_in_constant_time(sent, token.as_bytes())) {
            return Ok(());
        }
        let message = "This operation needs the control token: `Authorization: Bearer TOKEN`.";
        Err(ApiError::new(StatusCode::UNAUTHORIZED, message).code("control_token_required"))
    }
}

/// Takes the same time wherever the first difference is; only the length can be learned.
fn equal_in_constant_time(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right)
            .fold(0, |difference, (l, r)| difference | (l ^ r))
            == 0
}

/// A control token that cannot be guessed.
pub fn random_token() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// What the API asks of whoever owns the workers.
#[derive(Debug)]
pub enum FleetCommand {
    Add {
        reply: oneshot::Sender<Result<WorkerCard, FleetError>>,
    },
    Remove {
        worker: WorkerId,
        reply: oneshot::Sender<Result<(), FleetError>>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    #[error("there is no such worker")]
    UnknownWorker,
}

pub(crate) async fn router(State(app): State<Arc<App>>) -> Json<Value> {
    Json(describe(app.pipeline.router.mode()))
}

fn describe(mode: Mode) -> Value {
    let mut description = serde_json::to_value(mode).unwrap_or_default();
    description["modes"] = json!(ModeName::ALL);
    description
}

/// What `PUT /router` takes; weights that are left out keep their value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RouterChange {
    mode: Option<String>,
    overlap_score_weight: Option<f64>,
    router_temperature: Option<f64>,
}

pub(crate) async fn set_router(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    app.access.check(&headers)?;
    let change: RouterChange = serde_json::from_slice(&body)
        .map_err(|error| ApiError::new(StatusCode::BAD_REQUEST, error.to_string()))?;
    let mode = changed(app.pipeline.router.mode(), &change).map_err(|error| {
        let param = match error {
            ModeError::Unknown { .. } => "mode",
            ModeError::OutOfRange { parameter, .. } => parameter,
        };
        ApiError::new(StatusCode::BAD_REQUEST, error.to_string()).param(param)
    })?;
    info!(?mode, "router mode switched");
    app.pipeline.router.set_mode(mode);
    Ok(Json(describe(mode)))
}

fn changed(current: Mode, change: &RouterChange) -> Result<Mode, ModeError> {
    let name = change
        .mode
        .as_deref()
        .map_or(Ok(current.name()), str::parse)?;
    let weights = match current {
        Mode::KvBlocks(weights) => weights,
        Mode::RoundRobin | Mode::Random | Mode::LeastLoaded | Mode::PowerOfTwo | Mode::Kv => {
            BlockWeights::default()
        }
    };
    let weights = BlockWeights::new(
        change
            .overlap_score_weight
            .unwrap_or(weights.overlap_score_weight()),
        change
            .router_temperature
            .unwrap_or(weights.router_temperature()),
    )?;
    Ok(Mode::new(name, weights))
}

pub(crate) async fn workers(State(app): State<Arc<App>>) -> Json<Value> {
    let workers = app.pipeline.router.workers();
    let simulated = workers.iter().any(|worker| worker.card.simulated);
    Json(json!({ "simulated": simulated, "workers": workers }))
}

pub(crate) async fn add_worker(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    app.access.check(&headers)?;
    let (reply, answer) = oneshot::channel();
    let card = ask(&app, FleetCommand::Add { reply }, answer).await?;
    Ok((StatusCode::CREATED, Json(card)).into_response())
}

pub(crate) async fn remove_worker(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(worker): Path<String>,
) -> Result<Response, ApiError> {
    app.access.check(&headers)?;
    let id = worker.parse().map_err(|_| {
        let message = format!("`{worker}` is not a worker id; GET /workers lists them.");
        ApiError::new(StatusCode::BAD_REQUEST, message).param("id")
    })?;
    let (reply, answer) = oneshot::channel();
    ask(
        &app,
        FleetCommand::Remove {
            worker: WorkerId(id),
            reply,
        },
        answer,
    )
    .await?;
    let state = json!({ "worker": id, "state": "draining" });
    Ok((StatusCode::ACCEPTED, Json(state)).into_response())
}

async fn ask<T>(
    app: &App,
    command: FleetCommand,
    answer: oneshot::Receiver<Result<T, FleetError>>,
) -> Result<T, ApiError> {
    let Some(commands) = &app.fleet_commands else {
        let message = "This frontend does not start or stop workers itself.";
        return Err(ApiError::new(StatusCode::NOT_IMPLEMENTED, message));
    };
    let gone = || {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "The server is shutting down.",
        )
    };
    commands.send(command).await.map_err(|_| gone())?;
    answer
        .await
        .map_err(|_| gone())?
        .map_err(|error| match error {
            FleetError::UnknownWorker => ApiError::new(StatusCode::NOT_FOUND, error.to_string()),
        })
}

#[derive(Debug, Deserialize)]
pub(crate) struct DecisionsQuery {
    #[serde(default = "default_limit")]
    limit: usize,
}

fn default_limit() -> usize {
    100
}

/// The newest decisions first.
pub(crate) async fn decisions(
    State(app): State<Arc<App>>,
    query: Result<Query<DecisionsQuery>, QueryRejection>,
) -> Result<Json<Value>, ApiError> {
    let Query(query) = query.map_err(|error| {
        ApiError::new(StatusCode::BAD_REQUEST, error.body_text()).param("limit")
    })?;
    let decisions = app.pipeline.router.decisions(query.limit);
    Ok(Json(json!({ "decisions": decisions })))
}

/// Forgets every cached block that no running request uses, on every worker.
pub(crate) async fn reset_prefix_cache(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    app.access.check(&headers)?;
    let mut reset = Vec::new();
    let mut failed = Vec::new();
    for (worker, link) in app.pipeline.fleet.links() {
        match link.reset_cache().await {
            Ok(()) => reset.push(worker),
            Err(error) => failed.push(json!({ "worker": worker, "error": error.to_string() })),
        }
    }
    info!(
        workers = reset.len(),
        failed = failed.len(),
        "prefix caches reset"
    );
    Ok(Json(json!({ "reset": reset, "failed": failed })))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(authorization: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::AUTHORIZATION,
            HeaderValue::from_str(authorization).unwrap(),
        );
        headers
    }

    #[test]
    fn a_token_is_asked_for_and_compared_whole() {
        let access = Access::Token("secret".to_owned());
        assert!(access.check(&headers("Bearer secret")).is_ok());
        for wrong in [
            "Bearer secre",
            "Bearer secret1",
            "Bearer Secret",
            "secret",
            "Bearer ",
        ] {
            assert!(access.check(&headers(wrong)).is_err(), "{wrong}");
        }
        assert!(access.check(&HeaderMap::new()).is_err());
        assert!(Access::Open.check(&HeaderMap::new()).is_ok());
    }

    #[test]
    fn a_token_is_never_shown() {
        assert!(!format!("{:?}", Access::Token("secret".to_owned())).contains("secret"));
    }
}
