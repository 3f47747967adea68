//! One HTTP request on its way to an answer: admit, read, parse, prepare, serve.
//!
//! Both endpoints walk the same way and differ only in the shape of what comes in and goes
//! out, so the walk is written once.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use contract::{GenerateRequest, Moment, RequestId};
use http::{HeaderMap, HeaderValue, Method, header};
use openai::messages;
use openai::messages::CountTokensResponse;
use preprocess::Prepared;
use router::Handling;
use spans::RequestTrace;
use tracing::debug;

use crate::App;
use crate::answer::{Answer, answer_id, one_begins};
use crate::asked::{AnyRequest, ReadBody, Ready};
use crate::caller::Caller;
use crate::drive::{Common, Permits, Siblings};
use crate::error::ApiError;
use crate::exchange::{Exchange, Holding, Served};
use crate::headers::{NORMALIZED, REQUEST_ID, SIMULATED, WORKER};
use crate::intake::Claim;
use crate::journey::Errand;
use crate::logprobs::Gathered;
use crate::metrics::{Arrival, Endpoint, RequestRecord, Stage};
use crate::model::ServedModel;
use crate::way::{Chosen, Way};
use crate::{collect, forward, stream, traced};

/// Handles one request for an answer.
pub(crate) async fn handle(
    app: Arc<App>,
    endpoint: Endpoint,
    headers: &HeaderMap,
    body: Body,
) -> Response {
    let request_id = request_id(headers);
    let name = || traced::name(&Method::POST, Some(endpoint));
    let trace = app.tracer.begin(traced::sent(headers), name);
    traced::came(&trace, &Method::POST, Some(endpoint), &request_id);
    let incoming = Incoming {
        endpoint,
        headers,
        body,
        id: &request_id,
        trace: &trace,
    };
    let mut response = match answer(app, incoming).await {
        Ok(response) => response,
        Err(error) => {
            let trace_id = traced::logged(&trace);
            debug!(request = %request_id, trace_id, ?error, "request refused");
            trace.end(|| Some(traced::failure(error.error_type())));
            match endpoint == Endpoint::Messages {
                true => error.into_messages_response(Some(request_id.as_str())),
                false => error.into_response(),
            }
        }
    };
    traced::responded(&trace, response.status().as_u16());
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
    trace: &'a RequestTrace,
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
            let found = shared.models.find(&request.chat.model)?;
            let prepared = found.model.preprocessor.chat(&request.chat)?;
            Ok(prepared.prompt.len() as u32)
        };
        app.intake.work(&body.claim, count).await?
    };
    match counted.await {
        Ok(input_tokens) => axum::Json(CountTokensResponse { input_tokens }).into_response(),
        Err(error) => error.into_messages_response(None),
    }
}

/// A request that was admitted, read and parsed.
struct Admitted {
    way: Way,
    holding: Holding,
    arrived: Moment,
}

async fn answer(app: Arc<App>, incoming: Incoming<'_>) -> Result<Response, ApiError> {
    let Incoming {
        endpoint, trace, ..
    } = incoming;
    let first = app.models.first().map(|model| Arc::clone(&model.metrics));
    let mut arrival = Arrival::begin(first, endpoint);
    let mut streaming = false;
    let admitted = match admit(&app, incoming, &mut arrival, &mut streaming).await {
        Ok(admitted) => admitted,
        Err(error) => {
            arrival.refused(streaming, error.error_type());
            return Err(error);
        }
    };
    arrival.admitted();
    let Admitted {
        way,
        holding,
        arrived,
    } = admitted;
    let model = Arc::clone(&holding.model);
    let record = RequestRecord::begin(&model.metrics, endpoint, streaming, arrived, trace.clone());
    let answered = async {
        match way {
            Way::Engine(plan) => forward::answer(&app, plan, holding, &record).await,
            Way::Tokens(asked) => {
                let served = serve(&app, asked, holding, &record).await?;
                let exchange = Exchange::new(Arc::clone(&app), model, Arc::clone(&record), served);
                respond(exchange, streaming).await
            }
        }
    };
    answered
        .await
        .inspect_err(|error| record.fail(error.error_type()))
}

/// Up to the choice of who answers. Leaves in `arrival` whose request it is, and in `streaming`
/// how it is to be answered, as soon as that is known.
async fn admit(
    app: &Arc<App>,
    incoming: Incoming<'_>,
    arrival: &mut Arrival,
    streaming: &mut bool,
) -> Result<Admitted, ApiError> {
    let Incoming {
        endpoint,
        headers,
        body,
        id,
        trace,
    } = incoming;
    // Before the body: reading it is what costs memory.
    let (caller, permits) = enter(app, headers, trace)?;
    let reading = trace.stage(traced::READ);
    let body = app.intake.read(body).await?;
    // How long the client took to send it is not our time.
    let arrived = app.clock.now();
    let bytes = body.bytes;
    let (shared, owner) = (Arc::clone(app), caller.owner().to_owned());
    let choose = move || {
        let read = ReadBody {
            endpoint,
            bytes: &bytes,
        };
        Chosen::new(&shared, &read, &owner)
    };
    let Chosen { found, way } = app.intake.work(&body.claim, choose).await??;
    drop(reading);
    arrival.metrics = Some(Arc::clone(&found.model.metrics));
    let way = way?;
    *streaming = way.stream();
    Ok(Admitted {
        way,
        holding: Holding {
            id: id.clone(),
            model: found.model,
            caller,
            claim: body.claim,
            permits,
        },
        arrived,
    })
}

/// Checks who asks, and takes a place inside.
fn enter(
    app: &Arc<App>,
    headers: &HeaderMap,
    trace: &RequestTrace,
) -> Result<(Caller, Permits), ApiError> {
    let mut stage = trace.stage(traced::ADMISSION);
    let entered = Caller::of(app, headers).and_then(|caller| {
        check_media_type(headers)?;
        let permits = (app.admission.admit()?, caller.enter(app)?);
        Ok((caller, permits))
    });
    entered.inspect_err(|error| stage.fail(|| traced::failure(error.error_type())))
}

async fn serve(
    app: &App,
    asked: AnyRequest,
    holding: Holding,
    record: &Arc<RequestRecord>,
) -> Result<Served, ApiError> {
    let Holding {
        id,
        model,
        caller,
        claim,
        permits,
    } = holding;
    let Ready {
        mut prepared,
        options,
        echoes,
        shape,
    } = prepare(app, &model, asked, claim, &record.trace).await?;
    let endpoint = shape.endpoint();
    if !model.dispatch.fleet.served().abilities.grammars {
        without_grammars(&mut prepared)?;
    }
    if let Some(longest) = model.dispatch.fleet.longest_context() {
        for prepared in &prepared {
            prepared.need.fits(longest)?;
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
        let context_tokens = prepared.need.tokens();
        let (format, tool_names) = (prepared.format, Arc::clone(&prepared.tool_names));
        let tokenizer = model.preprocessor.tokenizer();
        let prompt = echo.then(|| Arc::clone(&prepared.prompt));
        let logprobs = Gathered::new(endpoint, tokenizer, prompt);
        let text = model.preprocessor.text_stream(&options.stop, format);
        let errand = Errand {
            request: generate_request(&id, prepared),
            handling: Handling {
                forwarded: None,
                normalized: shape.is_normalized(),
            },
            forward: None,
            context_tokens,
            trace: record.trace.clone(),
        };
        let reply = model.dispatch.serve(errand, caller.urgency, &common);
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

/// Makes a request's text into tokens.
async fn prepare(
    app: &App,
    model: &Arc<ServedModel>,
    asked: AnyRequest,
    claim: Claim,
    trace: &RequestTrace,
) -> Result<Ready, ApiError> {
    let began = app.clock.now();
    let mut stage = trace.stage(traced::PREPARE);
    let shared = Arc::clone(model);
    let prepare = move || asked.prepare(&shared.preprocessor);
    let ready = app.intake.work(&claim, prepare).await?;
    model.metrics.stage(Stage::Prepare, app.clock.now() - began);
    match &ready {
        Ok(ready) => {
            let prompts = ready.prepared.iter();
            traced::input(trace, || prompts.map(|one| one.prompt.len()).sum());
        }
        Err(error) => stage.fail(|| traced::failure(error.error_type())),
    }
    ready
}

/// For engines that cannot be held to a grammar: the model may still call a tool, but nothing
/// makes it.
fn without_grammars(prepared: &mut [Prepared]) -> Result<(), ApiError> {
    for prepared in prepared {
        if prepared.grammar_required {
            let what = "cannot be held to a call";
            return Err(ApiError::engine_cannot("tool_choice", what));
        }
        prepared.grammar = None;
    }
    Ok(())
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

fn generate_request(id: &RequestId, prepared: Prepared) -> GenerateRequest {
    GenerateRequest {
        id: id.clone(),
        nonce: uuid::Uuid::new_v4().as_u64_pair().1,
        trace: None,
        prompt: prepared.prompt,
        answered: Arc::default(),
        hash_seed: prepared.hash_seed,
        limits: prepared.limits,
        sampling: prepared.sampling,
        logprobs: prepared.logprobs,
        grammar: prepared.grammar,
    }
}

/// Sends what the workers answer, as it comes or in one piece.
async fn respond(mut exchange: Exchange, streaming: bool) -> Result<Response, ApiError> {
    let wholes = match streaming {
        true => None,
        false => Some(collect::wholes(&mut exchange).await?),
    };
    let simulated = exchange.model.simulated();
    let normalized = exchange.shape.is_normalized();
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
pub(crate) fn request_id(headers: &HeaderMap) -> RequestId {
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
