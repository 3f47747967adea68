//! Requests that the engine's own server answers, in the client's words.
//!
//! Engines such as vLLM have an OpenAI server of their own, with parsers, structured output and
//! inputs that the way over tokens does not have. A request that needs one of these goes there as
//! it came. It is routed, queued, counted and explained like any other: its prompt is made into
//! tokens for that alone. What it cannot do is move to another worker in the midst of its answer:
//! nobody else could go on with a call that is half written.
//!
//! ```text
//! needs (what of the request only the engine can do?) ──► plan ──► start ──► drive ──► worker
//!                                          client ◄── relay: bytes as they come ◄── reply
//! ```

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use contract::{
    ForwardPath, ForwardRequest, GenerateRequest, HashSeed, OutputLimits, RequestId, Sampling,
    TokenId,
};
use http::{HeaderValue, header};
use http_body::Frame;
use openai::{ToolChoice, UnknownFields, forward};
use preprocess::Preprocessor;
use tracing::warn;

use crate::App;
use crate::asked::{AnyRequest, Asked, ReadBody};
use crate::drive::{Common, Siblings};
use crate::error::{ApiError, Unmet};
use crate::exchange::Holding;
use crate::headers::{FORWARDED, NORMALIZED, WORKER};
use crate::journey::Errand;
use crate::metrics::{Endpoint, RequestRecord, Stage};
use crate::model::{Found, ServedModel};
use crate::reply::{Reply, ReplyError};
use crate::traced;

/// Characters of a field's name that are kept.
const LONGEST_NAME: usize = 80;

/// When requests go to the engine's own server, where it has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardMode {
    /// When they need something that the way over tokens does not have.
    #[default]
    Auto,
    Always,
    Never,
}

/// What is forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardPolicy {
    pub mode: ForwardMode,
    /// Whether fields that nobody here knows are for the engine to judge.
    pub unknown_fields: bool,
}

/// A request that is to be forwarded.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) request: ForwardRequest,
    /// What made it necessary.
    needed: String,
    normalized: bool,
    cache_salt: Option<String>,
    /// What it asks, as far as it is understood; for routing.
    asked: Option<Asked>,
}

/// What of a request only the engine's own server can do, if anything: the name of a field.
pub(crate) fn need(
    policy: ForwardPolicy,
    path: ForwardPath,
    understood: &Result<AnyRequest, ApiError>,
) -> Option<String> {
    match (policy.mode, understood) {
        (ForwardMode::Never, _) => None,
        (ForwardMode::Auto | ForwardMode::Always, _) if !path.generates() => {
            Some(path.as_str().to_owned())
        }
        (_, Ok(request)) if request.continues_ours() => None,
        (ForwardMode::Always, Ok(_)) => Some("always".to_owned()),
        (ForwardMode::Auto, Ok(request)) => match &request.asked {
            Asked::Chat(chat) if !chat.tools.is_empty() && chat.tool_choice != ToolChoice::None => {
                Some("tools".to_owned())
            }
            Asked::Chat(_) | Asked::Completion(_) => None,
        },
        (ForwardMode::Auto | ForwardMode::Always, Err(error)) => match error.unmet()? {
            Unmet::Unsupported(param) => Some(param.to_owned()),
            Unmet::Unknown(param) => policy.unknown_fields.then(|| param.to_owned()),
        },
    }
}

/// Why a request is forwarded, and what was understood of it.
pub(crate) struct Needed {
    pub(crate) needed: String,
    pub(crate) asked: Option<Asked>,
}

/// The model that a body which is not understood asks for; `None` if that is not known either.
pub(crate) fn model_of(app: &App, read: &ReadBody<'_>) -> Option<Result<Found, ApiError>> {
    let named = forward::read(read.bytes).ok()?.model;
    match named {
        Some(name) => Some(app.models.find(&name)),
        // Not every endpoint needs a name.
        None if !read.endpoint.engine_path().generates() => {
            let first = app.models.first();
            let found = first.map(|model| Found {
                model,
                adapter: None,
            });
            Some(found.ok_or_else(ApiError::no_models))
        }
        None => None,
    }
}

impl Plan {
    pub(crate) fn new(
        app: &App,
        found: &Found,
        read: &ReadBody<'_>,
        needed: Needed,
    ) -> Result<Self, ApiError> {
        let ReadBody {
            endpoint,
            bytes: body,
        } = *read;
        let Needed { mut needed, asked } = needed;
        // A client chooses the names of unknown fields, and decisions are kept.
        needed = needed.chars().take(LONGEST_NAME).collect();
        let path = endpoint.engine_path();
        let read = forward::read(body)?;
        if read.extra_fields {
            return Err(ApiError::not_forwardable("nvext.extra_fields", &needed));
        }
        let stable = match endpoint == Endpoint::Messages && app.normalize_agents {
            true => forward::with_stable_system(body),
            false => None,
        };
        let normalized = stable.is_some();
        let body = stable.map_or_else(|| body.clone(), Bytes::from);
        let asked = match asked {
            None if path.generates() => gist(app, endpoint, &body),
            asked => asked,
        };
        Ok(Self {
            request: ForwardRequest {
                path,
                model: found.model.name.to_string(),
                body,
                stream: read.stream,
                include_usage: read.include_usage,
                adapter: found.adapter.clone(),
            },
            needed,
            normalized,
            cache_salt: read.cache_salt,
            asked,
        })
    }

    /// The prompt as the engine will render it; empty if that is not known.
    fn prompt(&self, preprocessor: &Preprocessor) -> Vec<TokenId> {
        let asked = self.asked.as_ref();
        asked.map_or_else(Vec::new, |asked| prompt_of(asked, preprocessor))
    }
}

/// The prompt as an engine will render it; empty if that is not known.
pub(crate) fn prompt_of(asked: &Asked, preprocessor: &Preprocessor) -> Vec<TokenId> {
    let prompt = match asked {
        Asked::Chat(request) => preprocessor.prompt_of_chat(request),
        Asked::Completion(request) => preprocessor.prompt_of_completion(request),
    };
    prompt.unwrap_or_default()
}

/// What can be understood of a body that is not understood as a whole.
pub(crate) fn gist(app: &App, endpoint: Endpoint, body: &[u8]) -> Option<Asked> {
    forward::gists(body).iter().find_map(|gist| {
        let parsed = AnyRequest::parse(app, endpoint, gist, "", UnknownFields::Ignore);
        Some(parsed.ok()?.asked)
    })
}

/// Sends a request on, and waits until an engine answers it.
pub(crate) async fn answer(
    app: &App,
    plan: Plan,
    holding: Holding,
    record: &Arc<RequestRecord>,
) -> Result<Response, ApiError> {
    let Holding {
        id,
        model,
        caller,
        claim,
        permits,
    } = holding;
    let began = app.clock.now();
    let stage = record.trace.stage(traced::PREPARE);
    let shared = Arc::clone(&model);
    let prepare = move || (plan.prompt(&shared.preprocessor), plan);
    let (prompt, plan) = app.intake.work(&claim, prepare).await?;
    drop(stage);
    model.metrics.stage(Stage::Prepare, app.clock.now() - began);
    if !prompt.is_empty() {
        traced::input(&record.trace, || prompt.len());
    }
    let seed = HashSeed::new(
        plan.request.adapter.as_deref().unwrap_or(""),
        plan.cache_salt.as_deref().unwrap_or(""),
    );
    let request = GenerateRequest {
        prompt: prompt.into(),
        hash_seed: caller.seed(seed),
        ..empty_request(&id)
    };
    let common = Arc::new(Common {
        record: Arc::clone(record),
        explain: false,
        siblings: Siblings::default(),
        _permits: permits,
    });
    let needed = HeaderValue::from_str(&plan.needed).ok();
    let (path, stream) = (plan.request.path, plan.request.stream);
    let normalized = plan.normalized;
    let errand = Errand {
        request,
        handling: router::Handling {
            forwarded: Some(plan.needed),
            normalized: plan.normalized,
        },
        forward: Some(plan.request),
        context_tokens: 0,
        trace: record.trace.clone(),
    };
    let mut reply = model.dispatch.serve(errand, caller.urgency, &common);
    let begun = poll_fn(|context| reply.poll_begun(context)).await?;
    // The body was held until now, should another engine have to get it.
    drop(claim);
    let relay = Relay {
        reply: Some(reply),
        record: Arc::clone(record),
        path,
        _model: model,
    };
    let mut response = relay.response(stream).await?;
    let headers = response.headers_mut();
    if let Ok(worker) = HeaderValue::from_str(&begun.worker.to_string()) {
        headers.insert(WORKER.clone(), worker);
    }
    if let Some(needed) = needed {
        headers.insert(FORWARDED.clone(), needed);
    }
    if normalized {
        headers.insert(NORMALIZED.clone(), HeaderValue::from_static("system"));
    }
    Ok(response)
}

/// A request of which only the identity counts: the body says the rest.
pub(crate) fn empty_request(id: &RequestId) -> GenerateRequest {
    GenerateRequest {
        id: id.clone(),
        nonce: uuid::Uuid::new_v4().as_u64_pair().1,
        trace: None,
        prompt: Arc::default(),
        answered: Arc::default(),
        hash_seed: HashSeed::BASE,
        limits: OutputLimits {
            max_tokens: 1,
            min_tokens: 0,
            ignore_eos: false,
            eos_tokens: Arc::default(),
        },
        sampling: Sampling::default(),
        logprobs: None,
        grammar: None,
    }
}

/// Hands an engine's bytes to the client.
struct Relay {
    /// Gone after the end.
    reply: Option<Reply>,
    record: Arc<RequestRecord>,
    path: ForwardPath,
    /// Served until the answer has been read.
    _model: Arc<ServedModel>,
}

impl Relay {
    /// As a stream of events, or in one piece.
    async fn response(self, stream: bool) -> Result<Response, ApiError> {
        if !stream {
            let kind = [(header::CONTENT_TYPE, "application/json")];
            return Ok((kind, self.collect().await?).into_response());
        }
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache"),
        ];
        Ok((headers, Body::new(self)).into_response())
    }

    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, ReplyError>>> {
        loop {
            let Some(reply) = &mut self.reply else {
                return Poll::Ready(None);
            };
            let chunk = match ready!(reply.poll_chunk(context)) {
                Some(Ok(chunk)) => chunk,
                Some(Err(error)) => {
                    self.reply = None;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    self.reply = None;
                    return Poll::Ready(None);
                }
            };
            if chunk.finish.is_some() {
                self.reply = None;
                self.record.finish();
            }
            if let Some(written) = chunk.written.filter(|written| !written.bytes.is_empty()) {
                return Poll::Ready(Some(Ok(written.bytes.into())));
            }
        }
    }

    async fn collect(mut self) -> Result<Bytes, ReplyError> {
        let mut whole = Vec::new();
        while let Some(part) = poll_fn(|context| self.poll_bytes(context)).await {
            whole.extend_from_slice(&part?);
        }
        Ok(whole.into())
    }

    /// How a stream of this API says that it broke off.
    fn error_event(&self, error: ReplyError) -> Bytes {
        let trace_id = traced::logged(&self.record.trace);
        warn!(trace_id, %error, "forwarded stream broke off");
        let error = ApiError::from(error);
        self.record.fail(error.error_type());
        let mut out = Vec::new();
        match self.path {
            ForwardPath::Messages => {
                forward::messages_error(&mut out, error.status_number(), &error.body());
            }
            ForwardPath::Responses => forward::responses_error(&mut out, &error.body()),
            ForwardPath::ChatCompletions
            | ForwardPath::Completions
            | ForwardPath::Embeddings
            | ForwardPath::Rerank
            | ForwardPath::Tokenize
            | ForwardPath::Detokenize => forward::chat_error(&mut out, &error.body()),
        }
        out.into()
    }
}

impl http_body::Body for Relay {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match ready!(self.poll_bytes(context)) {
            None => return Poll::Ready(None),
            Some(Ok(bytes)) => bytes,
            Some(Err(error)) => self.error_event(error),
        };
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}
