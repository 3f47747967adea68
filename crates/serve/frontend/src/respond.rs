//! One HTTP request on its way to an answer: admit, read, parse, prepare, serve.
//!
//! Both endpoints walk the same way and differ only in the shape of what comes in and goes
//! out, so the walk is written once.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use contract::{Moment, RequestId};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use openai::messages::CountTokensResponse;
use openai::{ChatRequest, CompletionRequest, GenerationOptions, Prompt, messages, responses};
use preprocess::{Prepared, Preprocessor};
use tracing::debug;

use crate::App;
use crate::answer::{Answer, answer_id, one_begins};
use crate::caller::Caller;
use crate::drive::{Common, Permits, Siblings};
use crate::error::ApiError;
use crate::exchange::{Exchange, Served};
use crate::fleet::Abilities;
use crate::intake::Claim;
use crate::logprobs::Gathered;
use crate::metrics::{Arrival, Endpoint, RequestRecord, Stage};
use crate::shape::{Responded, Shape};
use crate::{collect, stream};

pub(crate) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static WORKER: HeaderName = HeaderName::from_static("x-homing-worker");
/// What was removed from a request so that its prefix stays the same.
static NORMALIZED: HeaderName = HeaderName::from_static("x-homing-normalized");
static SIMULATED: HeaderName = HeaderName::from_static("x-homing-simulated");

/// A request of any of the APIs.
struct AnyRequest {
    asked: Asked,
    shape: Shape,
}

enum Asked {
    Chat(Box<ChatRequest>),
    Completion(Box<CompletionRequest>),
}

impl AnyRequest {
    /// `owner` is whose stored conversations it may continue.
    fn parse(app: &App, endpoint: Endpoint, body: &[u8], owner: &str) -> Result<Self, ApiError> {
        let unknown = app.unknown_fields;
        let chat = |chat| Asked::Chat(Box::new(chat));
        Ok(match endpoint {
            Endpoint::Chat => Self {
                asked: chat(ChatRequest::parse(body, unknown)?),
                shape: Shape::Chat,
            },
            Endpoint::Completions => Self {
                asked: Asked::Completion(Box::new(CompletionRequest::parse(body, unknown)?)),
                shape: Shape::Completions,
            },
            Endpoint::Responses => {
                let request = responses::parse(body, unknown)?;
                let earlier = match request.previous_response_id() {
                    None => Vec::new(),
                    Some(id) => {
                        let known = app.responses.lock().conversation(owner, id);
                        known.ok_or_else(|| ApiError::unknown_response(id))?
                    }
                };
                let turn = request.with_history(earlier);
                Self {
                    asked: chat(turn.chat),
                    shape: Shape::Responses(Box::new(Responded {
                        echo: turn.echo,
                        owner: owner.to_owned(),
                        added: turn.added,
                    })),
                }
            }
            Endpoint::Messages => {
                let request = messages::parse(body, unknown, app.normalize_agents)?;
                Self {
                    asked: chat(request.chat),
                    shape: Shape::Messages {
                        omit_thinking: request.omit_thinking,
                        normalized: request.normalized,
                    },
                }
            }
        })
    }

    fn model(&self) -> &str {
        match &self.asked {
            Asked::Chat(request) => &request.model,
            Asked::Completion(request) => &request.model,
        }
    }

    fn options(&self) -> &GenerationOptions {
        match &self.asked {
            Asked::Chat(request) => &request.options,
            Asked::Completion(request) => &request.options,
        }
    }

    /// The prompts in tokens, and what else is needed from here on. What was sent may be large
    /// and goes with `self`.
    fn prepare(self, preprocessor: &Preprocessor) -> Result<Ready, ApiError> {
        let echoes = self.echoes(preprocessor);
        let (prepared, options) = match self.asked {
            Asked::Chat(request) => (vec![preprocessor.chat(&request)?], request.options),
            Asked::Completion(request) => (preprocessor.completion(&request)?, request.options),
        };
        Ok(Ready {
            prepared,
            options,
            echoes,
            shape: self.shape,
        })
    }

    fn echoes(&self, preprocessor: &Preprocessor) -> Vec<String> {
        match &self.asked {
            Asked::Completion(request) if request.echo => {
                let text = |prompt: &Prompt| match prompt {
                    Prompt::Text(text) => text.clone(),
                    Prompt::Tokens(tokens) => preprocessor.tokenizer().decode(tokens),
                };
                request.prompts.iter().map(text).collect()
            }
            Asked::Completion(_) | Asked::Chat(_) => Vec::new(),
        }
    }
}

/// A request in tokens.
struct Ready {
    prepared: Vec<Prepared>,
    options: GenerationOptions,
    echoes: Vec<String>,
    shape: Shape,
}

/// Handles one request for an answer.
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
            match endpoint {
                Endpoint::Messages => error.into_messages_response(Some(request_id.as_str())),
                Endpoint::Chat | Endpoint::Completions | Endpoint::Responses => {
                    error.into_response()
                }
            }
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

/// How many tokens the prompt of a Messages request has.
pub(crate) async fn count_tokens(app: &Arc<App>, headers: &HeaderMap, body: Body) -> Response {
    let counted = async {
        let caller = Caller::of(app, headers)?;
        check_media_type(headers)?;
        let _permits = (app.admission.admit()?, caller.enter(app)?);
        let body = app.intake.read(body).await?;
        let (shared, bytes) = (Arc::clone(app), body.bytes);
        let count = move || -> Result<u32, ApiError> {
            let request =
                messages::parse_count(&bytes, shared.unknown_fields, shared.normalize_agents)?;
            check_model(&shared, &request.chat.model)?;
            let prepared = shared.preprocessor.chat(&request.chat)?;
            Ok(prepared.prompt.len() as u32)
        };
        app.intake.work(&body.claim, count).await?
    };
    match counted.await {
        Ok(input_tokens) => axum::Json(CountTokensResponse { input_tokens }).into_response(),
        Err(error) => error.into_messages_response(None),
    }
}

fn check_model(app: &App, asked: &str) -> Result<(), ApiError> {
    match asked == app.model.as_str() {
        true => Ok(()),
        false => Err(ApiError::unknown_model(asked, app.model.as_str())),
    }
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
        let (shared, owner) = (Arc::clone(&app), caller.owner().to_owned());
        let parse = move || AnyRequest::parse(&shared, endpoint, &bytes, &owner);
        let asked = app.intake.work(&body.claim, parse).await??;
        streaming = asked.options().stream;
        check_model(&app, asked.model())?;
        check_abilities(asked.options(), app.dispatch.fleet.abilities())?;
        Ok::<_, ApiError>(Admitted {
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
        let exchange = Exchange::new(Arc::clone(&app), Arc::clone(&record), served);
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
    let began = app.clock.now();
    let shared = Arc::clone(app);
    let prepare = move || asked.prepare(&shared.preprocessor);
    let ready = app.intake.work(&claim, prepare).await?;
    drop(claim);
    app.metrics.stage(Stage::Prepare, app.clock.now() - began);
    let Ready {
        mut prepared,
        options,
        echoes,
        shape,
    } = ready?;
    let endpoint = shape.endpoint();
    if !app.dispatch.fleet.abilities().grammars {
        for prepared in &mut prepared {
            if prepared.grammar_required {
                return Err(ApiError::engine_cannot(
                    "tool_choice",
                    "cannot be held to a call",
                ));
            }
            // The model may still call a tool; it is only not held to the format.
            prepared.grammar = None;
        }
    }
    let common = Arc::new(Common {
        record: Arc::clone(record),
        explain: options.extensions.routing,
        siblings: Siblings::default(),
        _permits: permits,
    });
    let echo = !echoes.is_empty();
    let begin = |(index, mut prepared): Placed| {
        prepared.hash_seed = caller.seed(prepared.hash_seed);
        let (format, tool_names) = (prepared.format, Arc::clone(&prepared.tool_names));
        let tokenizer = app.preprocessor.tokenizer();
        let prompt = echo.then(|| Arc::clone(&prepared.prompt));
        let logprobs = Gathered::new(endpoint, tokenizer, prompt);
        let text = app.preprocessor.text_stream(&options.stop, format);
        let reply = app.dispatch.serve(id, prepared, caller.urgency, &common);
        Answer::new(index, reply, text, logprobs).parsed(format, &tool_names)
    };
    let echoed = |text: String| std::iter::repeat_n(text, options.n as usize);
    let echoes: Vec<String> = echoes.into_iter().flat_map(echoed).collect();
    let (firsts, others) = several(prepared, options.n);
    let mut answers: Vec<Answer> = firsts.into_iter().map(&begin).collect();
    one_begins(&mut answers).await?;
    // A router that knows caches finds the prompt computed where the first answer began.
    answers.extend(others.into_iter().map(begin));
    answers.sort_by_key(|answer| answer.index);
    Ok(Served {
        options,
        echoes,
        answers,
        shape,
    })
}

/// A prompt, and the place of its answer.
type Placed = (u32, Prepared);

/// Each prompt's first answer, and the others that were asked for. Equal seeds would give equal
/// answers.
fn several(prepared: Vec<Prepared>, n: u32) -> (Vec<Placed>, Vec<Placed>) {
    let (mut firsts, mut others) = (Vec::new(), Vec::new());
    for (prompt, prepared) in (0..).zip(prepared) {
        for answer in 1..n {
            let mut another = prepared.clone();
            if let Some(seed) = &mut another.sampling.seed {
                *seed = seed.wrapping_add(u64::from(answer));
            }
            others.push((prompt * n + answer, another));
        }
        firsts.push((prompt * n, prepared));
    }
    (firsts, others)
}

/// Refuses what the workers' engines cannot do.
fn check_abilities(options: &GenerationOptions, can: Abilities) -> Result<(), ApiError> {
    if options.logprobs.is_some() && !can.logprobs {
        let what = "do not report log-probabilities";
        return Err(ApiError::engine_cannot("logprobs", what));
    }
    if !options.logit_bias.is_empty() && !can.logit_bias {
        let what = "do not take a bias of single tokens";
        return Err(ApiError::engine_cannot("logit_bias", what));
    }
    match &options.constraint {
        Some(constraint) if !can.grammars => {
            let what = "cannot be held to a grammar";
            Err(ApiError::engine_cannot(constraint.param, what))
        }
        Some(_) | None => Ok(()),
    }
}

/// Sends what the workers answer, as it comes or in one piece.
async fn respond(mut exchange: Exchange, streaming: bool) -> Result<Response, ApiError> {
    let wholes = match streaming {
        true => None,
        false => Some(collect::wholes(&mut exchange).await?),
    };
    let simulated = exchange.app.simulated();
    let normalized = matches!(
        exchange.shape,
        Shape::Messages {
            normalized: true,
            ..
        }
    );
    let workers = exchange.workers();
    let mut response = match wholes {
        None => stream::response(exchange),
        Some(wholes) => collect::response(exchange, wholes),
    };
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&workers) {
        headers.insert(WORKER.clone(), value);
    }
    if normalized {
        headers.insert(NORMALIZED.clone(), HeaderValue::from_static("system"));
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
