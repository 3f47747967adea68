//! Routes and the small endpoints.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use contract::ModelName;
use http::{HeaderMap, Method, Uri, header};
use openai::{Model, ModelList, ObjectKind};
use router::{ModeName, WorkerView};
use serde_json::{Value, json};

use crate::App;
use crate::caller::credential;
use crate::control;
use crate::error::{ApiError, health_status};
use crate::metrics::Endpoint;
use crate::model::ServedModel;
use crate::respond;

/// Control requests are tiny.
const CONTROL_BODY_BYTES: usize = 64 << 10;

pub(crate) fn routes(app: Arc<App>) -> Router {
    let api = Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completions))
        .route("/v1/responses", post(responses))
        .route("/v1/messages", post(messages))
        .route("/v1/messages/count_tokens", post(count_tokens))
        .route("/v1/embeddings", post(embeddings))
        .route("/v1/rerank", post(rerank))
        .route("/tokenize", post(tokenize))
        .route("/detokenize", post(detokenize))
        .route("/v1/models", get(models))
        .route("/v1/models/{*model}", get(model))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&app), check_key));
    Router::new()
        .merge(api)
        .merge(control_routes(&app))
        .route("/openapi.json", get(openapi))
        .route("/", get(status_page))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(CONTROL_BODY_BYTES))
        .with_state(app)
}

/// All but the API itself, where others carry the requests.
pub(crate) fn inside(app: Arc<App>) -> Router {
    control_routes(&app)
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(CONTROL_BODY_BYTES))
        .with_state(app)
}

/// What looks into the server or changes it.
fn control_routes(app: &Arc<App>) -> Router<Arc<App>> {
    let readable = Router::new()
        .route("/router", get(control::router))
        .route("/workers", get(control::workers))
        .route("/decisions", get(control::decisions))
        .route_layer(middleware::from_fn_with_state(
            Arc::clone(app),
            control::check_reader,
        ));
    readable
        .route("/health", get(health))
        .route("/live", get(live))
        .route("/ready", get(health))
        .route("/metrics", get(metrics))
        .route("/router", put(control::set_router))
        .route(
            "/workers",
            post(control::add_worker).put(control::replace_workers),
        )
        .route("/workers/{id}", delete(control::remove_worker))
        .route("/reset_prefix_cache", post(control::reset_prefix_cache))
}

/// Rejects requests without a valid key, if keys are required.
async fn check_key(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if let Some(keys) = &app.api_keys
        && !keys.allow(credential(request.headers()).as_deref())
    {
        let error = ApiError::unauthorized();
        return Ok(match request.uri().path().starts_with("/v1/messages") {
            true => error.into_messages_response(None),
            false => error.into_response(),
        });
    }
    Ok(next.run(request).await)
}

async fn chat(State(app): State<Arc<App>>, headers: HeaderMap, body: Body) -> Response {
    respond::handle(app, Endpoint::Chat, &headers, body).await
}

async fn completions(State(app): State<Arc<App>>, headers: HeaderMap, body: Body) -> Response {
    respond::handle(app, Endpoint::Completions, &headers, body).await
}

async fn responses(State(app): State<Arc<App>>, headers: HeaderMap, body: Body) -> Response {
    respond::handle(app, Endpoint::Responses, &headers, body).await
}

async fn messages(State(app): State<Arc<App>>, headers: HeaderMap, body: Body) -> Response {
    respond::handle(app, Endpoint::Messages, &headers, body).await
}

async fn embeddings(State(app): State<Arc<App>>, headers: HeaderMap, body: Body) -> Response {
    respond::handle(app, Endpoint::Embeddings, &headers, body).await
}

async fn rerank(State(app): State<Arc<App>>, headers: HeaderMap, body: Body) -> Response {
    respond::handle(app, Endpoint::Rerank, &headers, body).await
}

async fn tokenize(State(app): State<Arc<App>>, headers: HeaderMap, body: Body) -> Response {
    respond::handle(app, Endpoint::Tokenize, &headers, body).await
}

async fn detokenize(State(app): State<Arc<App>>, headers: HeaderMap, body: Body) -> Response {
    respond::handle(app, Endpoint::Detokenize, &headers, body).await
}

async fn count_tokens(State(app): State<Arc<App>>, headers: HeaderMap, body: Body) -> Response {
    respond::count_tokens(&app, &headers, body).await
}

async fn models(State(app): State<Arc<App>>) -> Json<ModelList> {
    Json(ModelList {
        object: ObjectKind::List,
        data: app.models.describe(began(&app)),
    })
}

async fn model(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Json<Model>, ApiError> {
    app.models.find(&name)?;
    let mut listed = app.models.describe(began(&app)).into_iter();
    let model = listed.find(|model| model.id == name);
    Ok(Json(model.ok_or_else(ApiError::internal)?))
}

fn began(app: &App) -> u64 {
    app.clock.unix(contract::Moment::ZERO).as_secs()
}

/// 200 while there is a worker to send requests to, whatever the model; readiness probes ask the
/// same.
async fn health(State(app): State<Arc<App>>) -> Response {
    let models = app.models.all();
    let workers = workers(&models);
    let serving = workers.iter().filter(|worker| !worker.draining).count();
    let word = match (app.admission.is_closed(), serving) {
        (true, _) => "draining",
        (false, 0) => "no worker",
        (false, _) => "healthy",
    };
    let status = health_status(word == "healthy");
    let names: Vec<&str> = workers
        .iter()
        .map(|worker| worker.card.name.as_str())
        .collect();
    let served: Vec<&ModelName> = models.iter().map(|model| &model.name).collect();
    let body: Value = json!({
        "status": word,
        "model": served.first(),
        "models": served,
        "workers": names,
        "in_flight": app.admission.inside(),
    });
    (status, Json(body)).into_response()
}

fn workers(models: &[Arc<ServedModel>]) -> Vec<WorkerView> {
    let workers = models
        .iter()
        .flat_map(|model| model.dispatch.router.workers());
    workers.collect()
}

/// Whether there is a worker to send requests to, whatever the model.
pub(crate) fn is_serving(app: &App) -> bool {
    let workers = workers(&app.models.all());
    !app.admission.is_closed() && workers.iter().any(|worker| !worker.draining)
}

/// 200 while the process answers at all.
async fn live() -> Json<Value> {
    Json(json!({ "status": "live" }))
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    for model in app.models.all() {
        let queued = model.dispatch.router.total_queued();
        model.metrics.set_queued(queued);
        let stats = model.preprocessor.cache_stats();
        model.metrics.set_tokenizer_cache(stats);
    }
    let text = app
        .shared
        .registry
        .render(app.clock.now() - contract::Moment::ZERO);
    ([(header::CONTENT_TYPE, telemetry::CONTENT_TYPE)], text).into_response()
}

async fn openapi() -> Json<Value> {
    Json(openai::openapi::document(
        env!("CARGO_PKG_VERSION"),
        &ModeName::ALL.map(ModeName::as_str),
    ))
}

async fn status_page() -> Html<&'static str> {
    Html(include_str!("status_page.html"))
}

async fn unknown_path(method: Method, uri: Uri) -> ApiError {
    ApiError::unknown_path(&method, uri.path())
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    ApiError::wrong_method(&method, uri.path())
}
