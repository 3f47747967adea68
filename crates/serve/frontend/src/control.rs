//! Endpoints that inspect and change the server.
//!
//! What changes something (router mode, cache, workers) goes through [`Access`]: open on loopback
//! without API keys, by token elsewhere. Reading is free, and takes a key or the token where
//! clients must have keys: it reports other clients' requests.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use contract::{Access, WorkerId};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use router::{Decision, RouterChange, RouterState, WorkerView};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tracing::info;

use crate::App;
use crate::error::ApiError;
use crate::fleet_command::{FleetCommand, FleetError};
use crate::model::ServedModel;

/// A page of decisions ends with the one that reaches this: some milliseconds of writing.
const PAGE_BYTES: usize = 1 << 20;

/// Lets a request that changes something pass.
fn check(access: &Access, headers: &HeaderMap) -> Result<(), ApiError> {
    let header = |name: &str| headers.get(name).map(|value| value.as_bytes());
    Ok(access.check(header)?)
}

/// Lets a request that looks into the server pass.
pub(crate) async fn check_reader(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if let Some(keys) = &app.api_keys {
        let headers = request.headers();
        let sent = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        if !keys.allow(sent) && check(&app.access, headers).is_err() {
            return Err(ApiError::unauthorized());
        }
    }
    Ok(next.run(request).await)
}

/// A control token that cannot be guessed.
pub fn random_token() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Which of several models: all of them, or the first where there can be only one.
#[derive(Debug, Deserialize)]
pub(crate) struct ModelQuery {
    model: Option<String>,
}

impl ModelQuery {
    fn one(&self, app: &App) -> Result<Arc<ServedModel>, ApiError> {
        match &self.model {
            Some(name) => Ok(app.models.find(name)?.model),
            None => app.models.first().ok_or_else(ApiError::no_models),
        }
    }

    fn all(&self, app: &App) -> Result<Vec<Arc<ServedModel>>, ApiError> {
        match &self.model {
            Some(name) => Ok(vec![app.models.find(name)?.model]),
            None => Ok(app.models.all()),
        }
    }
}

pub(crate) async fn router(
    State(app): State<Arc<App>>,
    Query(query): Query<ModelQuery>,
) -> Result<Json<RouterState>, ApiError> {
    Ok(Json(query.one(&app)?.dispatch.router.mode().state()))
}

/// Changes the mode of all models, unless one is named.
pub(crate) async fn set_router(
    State(app): State<Arc<App>>,
    Query(query): Query<ModelQuery>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<RouterState>, ApiError> {
    check(&app.access, &headers)?;
    let change: RouterChange =
        serde_json::from_slice(&body).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let mut states = Vec::new();
    for model in query.all(&app)? {
        states.push(change.apply(&model.dispatch.router)?);
    }
    let first = states.into_iter().next();
    Ok(Json(first.ok_or_else(ApiError::no_models)?))
}

/// Each says which model it serves.
pub(crate) async fn workers(
    State(app): State<Arc<App>>,
    Query(query): Query<ModelQuery>,
) -> Result<Json<Value>, ApiError> {
    let models = query.all(&app)?;
    let workers: Vec<WorkerView> = models
        .iter()
        .flat_map(|model| model.dispatch.router.workers())
        .collect();
    let simulated = workers.iter().any(|worker| worker.card.simulated);
    Ok(Json(json!({ "simulated": simulated, "workers": workers })))
}

pub(crate) async fn add_worker(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    check(&app.access, &headers)?;
    let (reply, answer) = oneshot::channel();
    let card = ask(&app, FleetCommand::Add { reply }, answer).await?;
    Ok((StatusCode::CREATED, Json(card)).into_response())
}

/// What the workers are to be instead.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Replacement {
    profile: String,
}

/// New workers join, and then the old ones finish what they run and leave.
pub(crate) async fn replace_workers(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    check(&app.access, &headers)?;
    let Replacement { profile } =
        serde_json::from_slice(&body).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let (reply, answer) = oneshot::channel();
    let cards = ask(&app, FleetCommand::Replace { profile, reply }, answer).await?;
    Ok(Json(json!({ "workers": cards })))
}

pub(crate) async fn remove_worker(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(worker): Path<String>,
) -> Result<Response, ApiError> {
    check(&app.access, &headers)?;
    let id = worker.parse().map(WorkerId).map_err(|_| {
        let message = format!("`{worker}` is not a worker id; GET /workers lists them.");
        ApiError::bad_request(message).param("id")
    })?;
    let (reply, answer) = oneshot::channel();
    ask(&app, FleetCommand::Remove { worker: id, reply }, answer).await?;
    let state = json!({ "worker": id, "state": "draining" });
    Ok((StatusCode::ACCEPTED, Json(state)).into_response())
}

async fn ask<T>(
    app: &App,
    command: FleetCommand,
    answer: oneshot::Receiver<Result<T, FleetError>>,
) -> Result<T, ApiError> {
    let Some(commands) = &app.fleet_commands else {
        return Err(ApiError::no_fleet_commands());
    };
    let gone = ApiError::shutting_down;
    commands.send(command).await.map_err(|_| gone())?;
    Ok(answer.await.map_err(|_| gone())??)
}

/// Which decisions: the newest `limit` of those older than `before`.
#[derive(Debug, Deserialize)]
pub(crate) struct DecisionsQuery {
    #[serde(default = "default_limit")]
    limit: usize,
    before: Option<u64>,
    /// The first, unless one is named: numbers are a model's own.
    model: Option<String>,
}

fn default_limit() -> usize {
    100
}

/// The newest decisions first. Where they do not fit a page, `next` is the `before` of the rest.
pub(crate) async fn decisions(
    State(app): State<Arc<App>>,
    query: Result<Query<DecisionsQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(query) = query.map_err(|error| {
        // The parser does not say which; only one of them is usual.
        ApiError::bad_request(error.body_text()).param("limit")
    })?;
    let named = ModelQuery { model: query.model };
    let router = named.one(&app)?.dispatch.router.clone();
    let kept = match query.before {
        None => router.decisions(query.limit.saturating_add(1)),
        Some(_) => router.decisions(usize::MAX),
    };
    let older =
        |decision: &&Arc<Decision>| query.before.is_none_or(|before| decision.number < before);
    let page = page(kept.iter().filter(older), query.limit).map_err(|error| {
        tracing::error!(%error, "cannot serialise decisions");
        ApiError::internal()
    })?;
    Ok(([(CONTENT_TYPE, "application/json")], page).into_response())
}

/// At most `limit` decisions, and no more than fit [`PAGE_BYTES`], but always one.
fn page<'a>(
    decisions: impl Iterator<Item = &'a Arc<Decision>>,
    limit: usize,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut page = br#"{"decisions":["#.to_vec();
    let mut last = None;
    let mut more = false;
    for (count, decision) in decisions.enumerate() {
        if count == limit || page.len() > PAGE_BYTES {
            more = true;
            break;
        }
        if count > 0 {
            page.push(b',');
        }
        serde_json::to_writer(&mut page, decision)?;
        last = Some(decision.number);
    }
    page.extend_from_slice(b"],\"next\":");
    serde_json::to_writer(&mut page, &last.filter(|_| more))?;
    page.push(b'}');
    Ok(page)
}

/// Forgets every cached block that no running request uses, on every worker.
pub(crate) async fn reset_prefix_cache(
    State(app): State<Arc<App>>,
    Query(query): Query<ModelQuery>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    check(&app.access, &headers)?;
    let mut reset = Vec::new();
    let mut failed = Vec::new();
    let models = query.all(&app)?;
    let links = models.iter().flat_map(|model| model.dispatch.fleet.links());
    for (worker, link) in links {
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
