//! One HTTP request on its way to an answer: read, parse, admit, prepare, serve.
//!
//! Both endpoints walk the same way and differ only in the shape of what comes in and goes
//! out, so the walk is written once. Everything that a request holds (its place inside, its
//! record, its workers) hangs on the [`Exchange`] and goes with it.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use contract::RequestId;
use futures_util::future::try_join_all;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use openai::{ChatRequest, CompletionRequest, Extensions, GenerationOptions, Prompt};
use preprocess::{Prepared, Preprocessor};
use tracing::debug;

use crate::App;
use crate::admission::Permit;
use crate::answer::{Answer, answer_id};
use crate::caller::Caller;
use crate::error::ApiError;
use crate::keys::KeyPermit;
use crate::metrics::{Endpoint, RequestRecord, Stage};
use crate::{collect, stream};

/// Bodies above this size are tokenised off the event loop: they take milliseconds.
const LARGE_BODY: usize = 256 << 10;

pub(crate) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static WORKER: HeaderName = HeaderName::from_static("x-homing-worker");
static SIMULATED: HeaderName = HeaderName::from_static("x-homing-simulated");

/// A request that has been let in and is being answered.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) app: Arc<App>,
    pub(crate) endpoint: Endpoint,
    pub(crate) record: RequestRecord,
    pub(crate) answers: Vec<Answer>,
    /// What to write before each answer: prompts that are to be echoed.
    pub(crate) echoes: Vec<String>,
    pub(crate) include_usage: bool,
    pub(crate) continuous_usage: bool,
    pub(crate) extensions: Extensions,
    pub(crate) id: String,
    pub(crate) created: u64,
    _permits: Permits,
}

/// A place inside, and one among the requests of its key.
type Permits = (Permit, Option<KeyPermit>);

/// Either kind of request.
enum Asked {
    Chat(ChatRequest),
    Completion(CompletionRequest),
}

impl Asked {
    fn parse(endpoint: Endpoint, body: &[u8]) -> Result<Self, ApiError> {
        Ok(match endpoint {
            Endpoint::Chat => Self::Chat(ChatRequest::parse(body)?),
            Endpoint::Completions => Self::Completion(CompletionRequest::parse(body)?),
        })
    }

    fn model(&self) -> &str {
        match self {
            Self::Chat(request) => &request.model,
            Self::Completion(request) => &request.model,
        }
    }

    fn options(&self) -> &GenerationOptions {
        match self {
            Self::Chat(request) => &request.options,
            Self::Completion(request) => &request.options,
        }
    }

    fn prepare(&self, preprocessor: &Preprocessor) -> Result<Vec<Prepared>, ApiError> {
        Ok(match self {
            Self::Chat(request) => vec![preprocessor.chat(request)?],
            Self::Completion(request) => preprocessor.completion(request)?,
        })
    }

    fn echoes(&self, preprocessor: &Preprocessor) -> Vec<String> {
        match self {
            Self::Completion(request) if request.echo => {
                let text = |prompt: &Prompt| match prompt {
                    Prompt::Text(text) => text.clone(),
                    Prompt::Tokens(tokens) => preprocessor.tokenizer().decode(tokens),
                };
                request.prompts.iter().map(text).collect()
            }
            Self::Completion(_) | Self::Chat(_) => Vec::new(),
        }
    }
}

/// Handles one request to either endpoint.
pub(crate) async fn handle(
    app: Arc<App>,
    endpoint: Endpoint,
    headers: &HeaderMap,
    body: Body,
) -> Response {
    let request_id = request_id(headers);
    let mut response = match answer(app, endpoint, headers, (body, &request_id)).await {
        Ok(response) => response,
        Err(error) => {
            debug!(request = %request_id, ?error, "request refused");
            error.into_response()
        }
    };
    if let Ok(value) = HeaderValue::from_str(request_id.as_str()) {
        response.headers_mut().insert(REQUEST_ID.clone(), value);
    }
    response
}

async fn answer(
    app: Arc<App>,
    endpoint: Endpoint,
    headers: &HeaderMap,
    (body, request_id): (Body, &RequestId),
) -> Result<Response, ApiError> {
    let arrived = app.clock.now();
    let mut streaming = false;
    let admitted = async {
        let caller = Caller::of(&app, headers)?;
        check_media_type(headers)?;
        let body = read(body, app.max_body_bytes).await?;
        let asked = Asked::parse(endpoint, &body)?;
        streaming = asked.options().stream;
        if asked.model() != app.model.as_str() {
            return Err(ApiError::unknown_model(asked.model(), app.model.as_str()));
        }
        let permits = (app.admission.admit()?, caller.enter(&app)?);
        Ok(((asked, caller), body.len(), permits))
    };
    let (asked, size, permits) = match admitted.await {
        Ok(admitted) => admitted,
        Err(error) => {
            app.metrics.refused(endpoint, streaming, error.error_type());
            return Err(error);
        }
    };
    let record = RequestRecord::begin(&app.metrics, endpoint, streaming, arrived);
    match serve(&app, asked, size, request_id).await {
        Ok(served) => {
            let exchange = Exchange::new(app, endpoint, (record, permits), served);
            Ok(exchange.respond(streaming).await)
        }
        Err(error) => {
            record.fail(error.error_type());
            Err(error)
        }
    }
}

/// What the walk to the workers yields.
struct Served {
    options: GenerationOptions,
    echoes: Vec<String>,
    answers: Vec<Answer>,
}

async fn serve(
    app: &Arc<App>,
    (asked, caller): (Asked, Caller),
    size: usize,
    request_id: &RequestId,
) -> Result<Served, ApiError> {
    let began = app.clock.now();
    let (asked, prepared) = if size > LARGE_BODY {
        let app = Arc::clone(app);
        let work = move || {
            let prepared = asked.prepare(&app.preprocessor);
            (asked, prepared)
        };
        tokio::task::spawn_blocking(work)
            .await
            .expect("preparing a request does not panic")
    } else {
        let prepared = asked.prepare(&app.preprocessor);
        (asked, prepared)
    };
    app.metrics.stage(Stage::Prepare, app.clock.now() - began);
    let replies = prepared?.into_iter().map(|mut prepared| {
        prepared.hash_seed = caller.seed(prepared.hash_seed);
        app.pipeline.serve(request_id, prepared, caller.urgency)
    });
    let answers = (0..)
        .zip(try_join_all(replies).await?)
        .map(|(index, reply)| {
            let options = asked.options();
            let text = app.preprocessor.text_stream(&options.stop);
            Answer::new(index, reply, text, &options.extensions)
        })
        .collect();
    let echoes = asked.echoes(&app.preprocessor);
    let options = match asked {
        Asked::Chat(request) => request.options,
        Asked::Completion(request) => request.options,
    };
    Ok(Served {
        options,
        echoes,
        answers,
    })
}

impl Exchange {
    fn new(
        app: Arc<App>,
        endpoint: Endpoint,
        (record, permits): (RequestRecord, Permits),
        served: Served,
    ) -> Self {
        for answer in &served.answers {
            record.prompt(answer.usage.prompt_tokens, answer.started);
        }
        let prefix = match endpoint {
            Endpoint::Chat => "chatcmpl-",
            Endpoint::Completions => "cmpl-",
        };
        Self {
            created: app.unix_now(),
            id: answer_id(prefix),
            app,
            endpoint,
            record,
            answers: served.answers,
            echoes: served.echoes,
            include_usage: served.options.include_usage,
            continuous_usage: served.options.continuous_usage_stats,
            extensions: served.options.extensions,
            _permits: permits,
        }
    }

    async fn respond(self, streaming: bool) -> Response {
        let simulated = self.app.simulated();
        let workers: Vec<String> = self
            .answers
            .iter()
            .map(|answer| answer.worker.to_string())
            .collect();
        let mut response = if streaming {
            stream::response(self)
        } else {
            match collect::response(self).await {
                Ok(response) => response,
                Err(error) => error.into_response(),
            }
        };
        let headers = response.headers_mut();
        if let Ok(value) = HeaderValue::from_str(&workers.join(",")) {
            headers.insert(WORKER.clone(), value);
        }
        if simulated {
            headers.insert(SIMULATED.clone(), HeaderValue::from_static("true"));
        }
        response
    }
}

/// The client's own id, or a fresh one.
fn request_id(headers: &HeaderMap) -> RequestId {
    match headers
        .get(&REQUEST_ID)
        .and_then(|value| value.to_str().ok())
    {
        Some(id) if !id.is_empty() && id.len() <= 256 => RequestId::new(id),
        _ => RequestId::new(&answer_id("req-")),
    }
}

/// A body without a declared type is taken for JSON, as curl-minded people expect.
fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        return Ok(());
    };
    let value = value.to_str().unwrap_or("(unreadable)");
    let essence = value.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") || essence.ends_with("+json") {
        return Ok(());
    }
    Err(ApiError::unsupported_media(value))
}

async fn read(body: Body, limit: usize) -> Result<Bytes, ApiError> {
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large(limit)),
        Err(error) => {
            let message = format!("The request body could not be read: {error}.");
            Err(ApiError::new(StatusCode::BAD_REQUEST, message))
        }
    }
}
