//! One HTTP request on its way to an answer: admit, read, parse, prepare, serve.
//!
//! Both endpoints walk the same way and differ only in the shape of what comes in and goes
//! out, so the walk is written once. Everything that a request holds (its place inside, its
//! record, its workers) hangs on the [`Exchange`] and goes with it.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use contract::RequestId;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use openai::{ChatRequest, CompletionRequest, Extensions, GenerationOptions, Prompt};
use preprocess::{Prepared, Preprocessor};
use tracing::debug;

use crate::App;
use crate::answer::{Answer, answer_id, one_begins};
use crate::caller::Caller;
use crate::drive::{Common, Permits, Siblings};
use crate::error::ApiError;
use crate::intake::Claim;
use crate::logprobs::Gathered;
use crate::metrics::{Arrival, Endpoint, RequestRecord, Stage};
use crate::{collect, stream};

pub(crate) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static WORKER: HeaderName = HeaderName::from_static("x-homing-worker");
static SIMULATED: HeaderName = HeaderName::from_static("x-homing-simulated");

/// A request that has been let in and is being answered.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) app: Arc<App>,
    pub(crate) endpoint: Endpoint,
    pub(crate) record: Arc<RequestRecord>,
    pub(crate) answers: Vec<Answer>,
    /// What to write before each answer: prompts that are to be echoed.
    pub(crate) echoes: Vec<String>,
    pub(crate) include_usage: bool,
    pub(crate) continuous_usage: bool,
    pub(crate) extensions: Extensions,
    pub(crate) id: String,
    pub(crate) created: u64,
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
        let caller = Caller::of(&app, headers)?;
        check_media_type(headers)?;
        // Before the body: reading it is what costs memory.
        let permits = (app.admission.admit()?, caller.enter(&app)?);
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
        Ok(((asked, caller), body.claim, (permits, arrived)))
    };
    let (asked, claim, (permits, arrived)) = match admitted.await {
        Ok(admitted) => admitted,
        Err(error) => {
            arrival.refused(streaming, error.error_type());
            return Err(error);
        }
    };
    arrival.admitted();
    let record = RequestRecord::begin(&app.metrics, endpoint, streaming, arrived);
    let answered = async {
        let served = serve(
            &app,
            endpoint,
            asked,
            (claim, request_id),
            (&record, permits),
        )
        .await?;
        let exchange = Exchange::new(Arc::clone(&app), endpoint, Arc::clone(&record), served);
        exchange.respond(streaming).await
    };
    answered
        .await
        .inspect_err(|error| record.fail(error.error_type()))
}

/// What the walk to the workers yields.
struct Served {
    options: GenerationOptions,
    echoes: Vec<String>,
    answers: Vec<Answer>,
}

async fn serve(
    app: &Arc<App>,
    endpoint: Endpoint,
    (asked, caller): (Asked, Caller),
    (claim, request_id): (Claim, &RequestId),
    (record, permits): (&Arc<RequestRecord>, Permits),
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
    let common = Arc::new(Common {
        record: Arc::clone(record),
        explain: options.extensions.routing,
        siblings: Siblings::default(),
        _permits: permits,
    });
    let begin = |(index, mut prepared): (u32, Prepared)| {
        prepared.hash_seed = caller.seed(prepared.hash_seed);
        let tokenizer = app.preprocessor.tokenizer();
        let prompt = (!echoes.is_empty()).then(|| Arc::clone(&prepared.prompt));
        let logprobs = Gathered::new(endpoint, tokenizer, prompt);
        let text = app.preprocessor.text_stream(&options.stop);
        let reply = app
            .pipeline
            .serve(request_id, prepared, caller.urgency, &common);
        Answer::new(index, reply, text, logprobs)
    };
    let mut answers: Vec<Answer> = (0..).zip(prepared).map(begin).collect();
    one_begins(&mut answers).await?;
    Ok(Served {
        options,
        echoes,
        answers,
    })
}

impl Exchange {
    fn new(app: Arc<App>, endpoint: Endpoint, record: Arc<RequestRecord>, served: Served) -> Self {
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
        }
    }

    async fn respond(mut self, streaming: bool) -> Result<Response, ApiError> {
        let wholes = match streaming {
            true => None,
            false => Some(collect::wholes(&mut self).await?),
        };
        let simulated = self.app.simulated();
        let workers = self.workers();
        let mut response = match wholes {
            None => stream::response(self),
            Some(wholes) => collect::response(self, wholes),
        };
        let headers = response.headers_mut();
        if let Ok(value) = HeaderValue::from_str(&workers) {
            headers.insert(WORKER.clone(), value);
        }
        if simulated {
            headers.insert(SIMULATED.clone(), HeaderValue::from_static("true"));
        }
        Ok(response)
    }

    /// Those that answer, in the order of the prompts; of a stream, those that do by now.
    fn workers(&self) -> String {
        let workers = self.answers.iter().filter_map(Answer::worker);
        let workers: Vec<String> = workers.map(|worker| worker.to_string()).collect();
        workers.join(",")
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
