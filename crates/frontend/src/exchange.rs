//! One HTTP request on its way to an answer: admit, read, parse, prepare, serve.
//!
//! Both endpoints walk the same way and differ only in the shape of what comes in and goes
//! out, so the walk is written once. Everything that a request holds (its place inside, its
//! record, its workers) hangs on the [`Exchange`] and goes with it.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use contract::RequestId;
use futures_util::future::try_join_all;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use openai::{ChatRequest, CompletionRequest, Extensions, GenerationOptions, Prompt};
use preprocess::{Prepared, Preprocessor};
use tracing::debug;

use crate::App;
use crate::admission::Permit;
use crate::answer::{Answer, answer_id};
use crate::error::ApiError;
use crate::intake::Claim;
use crate::metrics::{Arrival, Endpoint, RequestRecord, Stage};
use crate::pipeline::Urgency;
use crate::{collect, stream};

pub(crate) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static PRIORITY: HeaderName = HeaderName::from_static("x-request-priority");
static TIMEOUT: HeaderName = HeaderName::from_static("x-request-timeout-ms");
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
    _permit: Permit,
}

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

    /// The prompts in tokens, and what else is needed from here on. What was sent may be large
    /// and goes with `self`.
    fn prepare(self, preprocessor: &Preprocessor) -> Result<Ready, ApiError> {
        let echoes = self.echoes(preprocessor);
        let (prepared, options) = match self {
            Self::Chat(request) => (vec![preprocessor.chat(&request)?], request.options),
            Self::Completion(request) => (preprocessor.completion(&request)?, request.options),
        };
        Ok(Ready {
            prepared,
            options,
            echoes,
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

/// A request in tokens.
struct Ready {
    prepared: Vec<Prepared>,
    options: GenerationOptions,
    echoes: Vec<String>,
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
    let arrival = Arrival::begin(&app.metrics, endpoint);
    let mut streaming = false;
    let admitted = async {
        let urgency = urgency(headers, app.max_queue_wait)?;
        check_media_type(headers)?;
        // Before the body: reading it is what costs memory.
        let permit = app.admission.admit()?;
        let body = app.intake.read(body).await?;
        // How long the client took to send it is not our time.
        let arrived = app.clock.now();
        let bytes = body.bytes;
        let parse = move || Asked::parse(endpoint, &bytes);
        let asked = app.intake.work(&body.claim, parse).await??;
        streaming = asked.options().stream;
        if asked.model() != app.model.as_str() {
            return Err(ApiError::unknown_model(asked.model(), app.model.as_str()));
        }
        Ok(((asked, urgency), body.claim, (permit, arrived)))
    };
    let (asked, claim, (permit, arrived)) = match admitted.await {
        Ok(admitted) => admitted,
        Err(error) => {
            arrival.refused(streaming, error.error_type());
            return Err(error);
        }
    };
    arrival.admitted();
    let record = RequestRecord::begin(&app.metrics, endpoint, streaming, arrived);
    match serve(&app, asked, claim, request_id).await {
        Ok(served) => {
            let exchange = Exchange::new(app, endpoint, (record, permit), served);
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
    (asked, urgency): (Asked, Urgency),
    claim: Claim,
    request_id: &RequestId,
) -> Result<Served, ApiError> {
    let began = app.clock.now();
    let shared = Arc::clone(app);
    let prepare = move || asked.prepare(&shared.preprocessor);
    let ready = app.intake.work(&claim, prepare).await?;
    drop(claim);
    app.metrics.stage(Stage::Prepare, app.clock.now() - began);
    let Ready {
        prepared,
        options,
        echoes,
    } = ready?;
    let replies = prepared
        .into_iter()
        .map(|prepared| app.pipeline.serve(request_id, prepared, urgency));
    let answers = (0..)
        .zip(try_join_all(replies).await?)
        .map(|(index, reply)| {
            let text = app.preprocessor.text_stream(&options.stop);
            Answer::new(index, reply, text, &options.extensions)
        })
        .collect();
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
        (record, permit): (RequestRecord, Permit),
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
            _permit: permit,
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

/// What the client says about waiting, over what the server allows by default.
fn urgency(headers: &HeaderMap, max_wait: Option<Duration>) -> Result<Urgency, ApiError> {
    let timeout: Option<u64> = number(headers, &TIMEOUT)?;
    Ok(Urgency {
        priority: number(headers, &PRIORITY)?.unwrap_or(0),
        deadline: timeout.map(Duration::from_millis).or(max_wait),
    })
}

fn number<T: FromStr>(headers: &HeaderMap, name: &HeaderName) -> Result<Option<T>, ApiError> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    let parsed = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let Some(parsed) = parsed else {
        let message = format!("The header `{name}` must be a whole number, not {value:?}.");
        return Err(ApiError::new(StatusCode::BAD_REQUEST, message).param(name.as_str()));
    };
    Ok(Some(parsed))
}

/// A body without a declared type is taken for JSON, as curl-minded people expect, except from
/// a page: browsers ask before they send JSON to another site, and do not without a type.
fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        return match headers.contains_key(header::ORIGIN) {
            true => Err(ApiError::unsupported_media("(nothing)")),
            false => Ok(()),
        };
    };
    let value = value.to_str().unwrap_or("(unreadable)");
    let essence = value.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") || essence.ends_with("+json") {
        return Ok(());
    }
    Err(ApiError::unsupported_media(value))
}
