//! One HTTP request on its way to an answer: admit, read, parse, prepare, serve.
//!
//! Both endpoints walk the same way and differ only in the shape of what comes in and goes
//! out, so the walk is written once.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use contract::{Moment, RequestId};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use openai::{ChatRequest, CompletionRequest, GenerationOptions, Prompt, UnknownFields};
use preprocess::{Prepared, Preprocessor};
use tracing::debug;

use crate::App;
use crate::answer::{Answer, answer_id, one_begins};
use crate::caller::Caller;
use crate::drive::{Common, Permits, Siblings};
use crate::error::ApiError;
use crate::exchange::{Exchange, Served};
use crate::intake::Claim;
use crate::logprobs::Gathered;
use crate::metrics::{Arrival, Endpoint, RequestRecord, Stage};
use crate::{collect, stream};

pub(crate) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static WORKER: HeaderName = HeaderName::from_static("x-homing-worker");
static SIMULATED: HeaderName = HeaderName::from_static("x-homing-simulated");

/// Either kind of request.
enum AnyRequest {
    Chat(ChatRequest),
    Completion(CompletionRequest),
}

impl AnyRequest {
    fn parse(endpoint: Endpoint, body: &[u8], unknown: UnknownFields) -> Result<Self, ApiError> {
        Ok(match endpoint {
            Endpoint::Chat => Self::Chat(ChatRequest::parse(body, unknown)?),
            Endpoint::Completions => Self::Completion(CompletionRequest::parse(body, unknown)?),
        })
    }

    fn endpoint(&self) -> Endpoint {
        match self {
            Self::Chat(_) => Endpoint::Chat,
            Self::Completion(_) => Endpoint::Completions,
        }
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
    let incoming = Incoming {
        endpoint,
        headers,
        body,
        id: &request_id,
    };
    let mut response = match answer(app, incoming).await {
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

/// A request as it came.
struct Incoming<'a> {
    endpoint: Endpoint,
    headers: &'a HeaderMap,
    body: Body,
    id: &'a RequestId,
}

/// A request that was admitted, read and parsed.
struct Admitted {
    asked: AnyRequest,
    caller: Caller,
    /// On the memory of its body.
    claim: Claim,
    permits: Permits,
    arrived: Moment,
}

async fn answer(app: Arc<App>, incoming: Incoming<'_>) -> Result<Response, ApiError> {
    let Incoming {
        endpoint,
        headers,
        body,
        id,
    } = incoming;
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
        let unknown = app.unknown_fields;
        let parse = move || AnyRequest::parse(endpoint, &bytes, unknown);
        let asked = app.intake.work(&body.claim, parse).await??;
        streaming = asked.options().stream;
        if asked.model() != app.model.as_str() {
            return Err(ApiError::unknown_model(asked.model(), app.model.as_str()));
        }
        if asked.options().logprobs.is_some() && !app.dispatch.fleet.reports_logprobs() {
            return Err(ApiError::no_logprobs());
        }
        Ok(Admitted {
            asked,
            caller,
            claim: body.claim,
            permits,
            arrived,
        })
    };
    let admitted = match admitted.await {
        Ok(admitted) => admitted,
        Err(error) => {
            arrival.refused(streaming, error.error_type());
            return Err(error);
        }
    };
    arrival.admitted();
    let record = RequestRecord::begin(&app.metrics, endpoint, streaming, admitted.arrived);
    let answered = async {
        let served = serve(&app, id, admitted, &record).await?;
        let exchange = Exchange::new(Arc::clone(&app), endpoint, Arc::clone(&record), served);
        respond(exchange, streaming).await
    };
    answered
        .await
        .inspect_err(|error| record.fail(error.error_type()))
}

async fn serve(
    app: &Arc<App>,
    id: &RequestId,
    admitted: Admitted,
    record: &Arc<RequestRecord>,
) -> Result<Served, ApiError> {
    let Admitted {
        asked,
        caller,
        claim,
        permits,
        ..
    } = admitted;
    let endpoint = asked.endpoint();
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
        let reply = app.dispatch.serve(id, prepared, caller.urgency, &common);
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

/// Sends what the workers answer, as it comes or in one piece.
async fn respond(mut exchange: Exchange, streaming: bool) -> Result<Response, ApiError> {
    let wholes = match streaming {
        true => None,
        false => Some(collect::wholes(&mut exchange).await?),
    };
    let simulated = exchange.app.simulated();
    let workers = exchange.workers();
    let mut response = match wholes {
        None => stream::response(exchange),
        Some(wholes) => collect::response(exchange, wholes),
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
