//! Paths and handlers.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get, patch, post, put};
use axum::{Json, Router};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, StatusCode, Uri};
use loadgen::baseline::Baseline;
use loadgen::snapshot::Snapshot;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tracing::info;

use crate::baseline::BaselineStatus;
use crate::conversations::{self, ConversationList};
use crate::dashboards::DashboardList;
use crate::error::Problem;
use crate::history::History;
use crate::load::Load;
use crate::prometheus::{self, Prometheus};
use crate::state::RouterState;
use crate::{Console, stream};

/// What people change is small.
const BODY_BYTES: usize = 64 << 10;

/// A stream's client has nothing to say but that it is there.
const STREAM_MESSAGE_BYTES: usize = 4 << 10;

pub(crate) fn routes(console: Console) -> Router {
    let config = &console.inner.config;
    let pages = config.assets.routes(&config.status_page);
    Router::new()
        .route("/api/state", get(state))
        .route("/api/stream", any(open_stream))
        .route("/api/history", get(history))
        .route("/api/baseline", get(baseline))
        .route("/api/conversations", get(list))
        .route("/api/conversations/{id}", get(conversation))
        .route("/api/dashboards", get(dashboards))
        .route("/api/dashboards/{uid}", get(dashboard))
        .route("/api/prometheus/query", get(query))
        .route("/api/prometheus/query_range", get(query_range))
        .route("/api/load/{action}", post(drive))
        .route("/api/load/settings", patch(change_settings))
        .route("/api/router", put(change_router))
        .route("/api", any(unknown_path))
        .route("/api/{*path}", any(unknown_path))
        .merge(pages)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .with_state(console)
}

impl Console {
    fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let header = |name: &str| headers.get(name).map(|value| value.as_bytes());
        Ok(self.inner.config.access.check(header)?)
    }

    fn prometheus(&self) -> Result<&Prometheus, Problem> {
        self.inner.config.prometheus.as_ref().ok_or_else(|| {
            let message = "This server knows no Prometheus: start it with --prometheus-url URL, \
                 or `homing demo` with --observability.";
            Problem::new(StatusCode::NOT_FOUND, message).code("no_prometheus")
        })
    }
}

/// JSON that is passed on as it came.
fn json(body: Bytes) -> Response {
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

async fn state(State(console): State<Console>, headers: HeaderMap) -> Json<crate::State> {
    let load = console.inner.load.snapshot();
    let granted = console.check(&headers).is_ok();
    Json(console.state(load, granted))
}

async fn open_stream(
    State(console): State<Console>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = upgrade.map_err(|error| {
        let message = format!("{}: /api/stream is a WebSocket", error.body_text());
        Problem::new(error.status(), message)
    })?;
    let Ok(place) = console.inner.streams.clone().try_acquire_owned() else {
        let message = "Too many pages are open.";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, message).code("too_many_streams"));
    };
    let granted = stream::is_granted(&console.inner.config.access, &headers);
    let upgrade = upgrade
        .protocols([stream::PROTOCOL])
        .max_message_size(STREAM_MESSAGE_BYTES)
        .write_buffer_size(0);
    Ok(upgrade.on_upgrade(async move |socket| {
        stream::run(console, socket, granted).await;
        drop(place);
    }))
}

async fn history(State(console): State<Console>) -> Json<History> {
    let history = console.inner.history.lock().copy();
    Json(history)
}

async fn baseline(State(console): State<Console>) -> Result<Json<Arc<Baseline>>, Problem> {
    let board = &console.inner.config.baseline;
    board.get().map(Json).ok_or_else(|| {
        let message = match board.status() {
            BaselineStatus::Computing { done, total } => {
                format!("The baseline is being computed: {done} of {total} runs are done.")
            }
            BaselineStatus::Failed { message } => format!("There is no baseline: {message}."),
            BaselineStatus::None | BaselineStatus::Ready { .. } => {
                "This server has no baseline.".to_owned()
            }
        };
        Problem::new(StatusCode::NOT_FOUND, message).code("no_baseline")
    })
}

async fn list(
    State(console): State<Console>,
    headers: HeaderMap,
    uri: Uri,
    query: Result<Query<conversations::Query>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|error| Problem::bad_request(error.body_text()))?;
    console.inner.load.check_circle(&headers)?;
    match &console.inner.load {
        Load::None => Err(Problem::no_load()),
        Load::Here(load) => {
            let chosen: ConversationList = conversations::choose(load.conversations(), &query);
            Ok(Json(chosen).into_response())
        }
        Load::Elsewhere(load) => load.forward(&path_and_query(&uri)).await,
    }
}

async fn conversation(
    State(console): State<Console>,
    headers: HeaderMap,
    uri: Uri,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    console.inner.load.check_circle(&headers)?;
    match &console.inner.load {
        Load::None => Err(Problem::no_load()),
        Load::Here(load) => {
            let found = load.conversation(&id).map(|one| Json(one).into_response());
            found.ok_or_else(|| {
                let message =
                    format!("The log has no conversation `{id}`; it keeps the latest ones.");
                Problem::new(StatusCode::NOT_FOUND, message).code("unknown_conversation")
            })
        }
        Load::Elsewhere(load) => load.forward(&path_and_query(&uri)).await,
    }
}

/// As the client wrote it, so that what it encoded stays encoded.
fn path_and_query(uri: &Uri) -> String {
    uri.path_and_query()
        .map_or_else(String::new, ToString::to_string)
}

async fn dashboards(State(console): State<Console>) -> Json<DashboardList> {
    let config = &console.inner.config;
    let names = config.dashboards.iter().map(|board| board.name.clone());
    let prometheus = config.prometheus.as_ref();
    Json(DashboardList {
        dashboards: names.collect(),
        prometheus: prometheus.map(|prometheus| prometheus.url().to_owned()),
    })
}

async fn dashboard(
    State(console): State<Console>,
    Path(uid): Path<String>,
) -> Result<Response, Problem> {
    let mut all = console.inner.config.dashboards.iter();
    let found = all.find(|board| board.name.uid == uid);
    found.map(|board| json(board.json.clone())).ok_or_else(|| {
        let message = format!("There is no dashboard `{uid}`.");
        Problem::new(StatusCode::NOT_FOUND, message).code("unknown_dashboard")
    })
}

async fn query(
    State(console): State<Console>,
    query: Result<Query<prometheus::At>, QueryRejection>,
) -> Result<Response, Problem> {
    let prometheus = console.prometheus()?;
    let Query(at) = query.map_err(|error| Problem::bad_request(error.body_text()))?;
    prometheus.at(&at).await.map(json)
}

async fn query_range(
    State(console): State<Console>,
    query: Result<Query<prometheus::Over>, QueryRejection>,
) -> Result<Response, Problem> {
    let prometheus = console.prometheus()?;
    let Query(over) = query.map_err(|error| Problem::bad_request(error.body_text()))?;
    prometheus.over(&over).await.map(json)
}

async fn drive(
    State(console): State<Console>,
    headers: HeaderMap,
    Path(action): Path<String>,
) -> Result<Json<Snapshot>, Problem> {
    console.check(&headers)?;
    console.inner.load.check_circle(&headers)?;
    let snapshot = console.inner.load.drive(&action).await?;
    info!(action, "load");
    Ok(Json(snapshot))
}

async fn change_settings(
    State(console): State<Console>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Snapshot>, Problem> {
    console.check(&headers)?;
    console.inner.load.check_circle(&headers)?;
    let change: Map<String, Value> = parse(&body)?;
    let snapshot = console.inner.load.change(change).await?;
    info!(settings = ?snapshot.settings, "load settings");
    Ok(Json(snapshot))
}

/// Which of several models.
#[derive(Debug, Deserialize)]
struct ModelQuery {
    model: Option<String>,
}

async fn change_router(
    State(console): State<Console>,
    Query(query): Query<ModelQuery>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<RouterState>, Problem> {
    console.check(&headers)?;
    let system = &console.inner.system;
    let changed = system.change_router(query.model.as_deref(), parse(&body)?);
    Ok(Json(changed.await?))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| Problem::bad_request(error.to_string()))
}

async fn unknown_path(method: Method, uri: Uri) -> Problem {
    let message = format!("There is no {method} {}.", uri.path());
    Problem::new(StatusCode::NOT_FOUND, message).code("unknown_path")
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    let message = format!("{} does not support {method}.", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, message).code("method_not_allowed")
}
