//! Turns errors into responses.
//!
//! The only place with HTTP status codes for failures. Every error leaves as the OpenAI
//! error object, with a message a person can act on and, where there is one, the name of the
//! offending field. Causes that are the operator's business are logged here, not sent.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use contract::{Denied, LinkError, WorkerId};
use http::{HeaderValue, Method, StatusCode, header};
use openai::messages::MessagesError;
use openai::{ErrorBody, RequestError, RequestErrorKind};
use preprocess::PrepareError;
use router::{ModeError, RouteError};
use tracing::error;

use crate::admission::Refusal;
use crate::dispatch::DispatchError;
use crate::fleet_command::FleetError;
use crate::metrics::ErrorType;
use crate::reply::ReplyError;

/// How soon a client that was turned away for want of a place should come back, when
/// nothing better is known.
const RETRY_SOON: Duration = Duration::from_secs(1);

pub(crate) struct ApiError {
    status: StatusCode,
    message: String,
    param: Option<String>,
    code: Option<&'static str>,
    retry_after: Option<Duration>,
    /// Under which label it is counted, where the status does not say.
    counted: Option<ErrorType>,
}

/// What of a request is not done here, though it may be sound: the name of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmet<'a> {
    Unsupported(&'a str),
    /// Nobody here knows the field.
    Unknown(&'a str),
}

/// Without the message: it may quote what a user wrote, and this is what logs show.
impl fmt::Debug for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiError")
            .field("status", &self.status)
            .field("param", &self.param)
            .field("code", &self.code)
            .finish_non_exhaustive()
    }
}

impl ApiError {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            param: None,
            code: None,
            retry_after: None,
            counted: None,
        }
    }

    pub(crate) fn param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    pub(crate) fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn unknown_path(method: &Method, path: &str) -> Self {
        let message =
            format!("There is no {method} {path}; GET /openapi.json lists what there is.");
        Self::new(StatusCode::NOT_FOUND, message).code("unknown_path")
    }

    pub(crate) fn wrong_method(method: &Method, path: &str) -> Self {
        let message = format!("{path} does not support {method}.");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, message).code("method_not_allowed")
    }

    pub(crate) fn no_fleet_commands() -> Self {
        let message = "This frontend does not start or stop workers itself.";
        Self::new(StatusCode::NOT_IMPLEMENTED, message)
    }

    pub(crate) fn shutting_down() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "The server is shutting down.",
        )
    }

    /// For clients that came when all connections were taken.
    pub(crate) fn no_connection() -> Self {
        let message = "The server has as many connections as it can hold; try again shortly.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
            .code("too_many_connections")
            .retry_after(RETRY_SOON)
    }

    pub(crate) fn unknown_model(asked: &str, served: &[String]) -> Self {
        let asked = abridged(asked);
        let served: Vec<String> = served.iter().map(|name| format!("`{name}`")).collect();
        let served = match &served[..] {
            [] => "no model now".to_owned(),
            served => served.join(", "),
        };
        let message = format!("The model `{asked}` does not exist. This server serves {served}.");
        Self::new(StatusCode::NOT_FOUND, message)
            .param("model")
            .code("model_not_found")
    }

    /// A field that the engines of this model's workers cannot honour.
    pub(crate) fn engine_cannot(param: &str, what: &str) -> Self {
        let message = format!("`{param}`: the workers of this model {what}.");
        Self::new(StatusCode::BAD_REQUEST, message)
            .param(param)
            .code("unsupported_parameter")
    }

    /// Whether the request might be served by someone who can do more.
    pub(crate) fn unmet(&self) -> Option<Unmet<'_>> {
        let param = self.param.as_deref()?;
        match self.code? {
            "unsupported_value" | "unsupported_parameter" => Some(Unmet::Unsupported(param)),
            "unknown_parameter" => Some(Unmet::Unknown(param)),
            _ => None,
        }
    }

    /// A field that only we could honour, in a request that an engine's own server answers.
    pub(crate) fn not_forwardable(param: &str, needed: &str) -> Self {
        let message = format!(
            "`{param}` cannot be combined with `{needed}`, for which the engine's own server writes \
             the answer: the header `x-homing-worker` and `GET /decisions` say the same."
        );
        Self::bad_request(message)
            .param(param)
            .code("unsupported_parameter")
    }

    /// The proxy offers no endpoint that could serve the request.
    pub(crate) fn none_offered() -> Self {
        let message = "None of the endpoints that the gateway offers can serve this request now.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
            .code("no_endpoint")
            .retry_after(RETRY_SOON)
    }

    pub(crate) fn no_models() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "No model is served now.").code("no_model")
    }

    /// An adapter that no worker can switch to for this request.
    pub(crate) fn adapter_not_served(name: &str) -> Self {
        let name = abridged(name);
        let message = format!(
            "The adapter `{name}` is served only where every worker of its model is an engine \
             with a server of its own, and by the endpoints of that server."
        );
        Self::bad_request(message)
            .param("model")
            .code("unsupported_value")
    }

    /// An endpoint that only engines with a server of their own have.
    pub(crate) fn no_endpoint(path: &str) -> Self {
        let message = format!("The engines of this model's workers do not serve {path}.");
        Self::new(StatusCode::NOT_FOUND, message).code("unknown_path")
    }

    pub(crate) fn unauthorized() -> Self {
        let message = "This server requires an API key: `Authorization: Bearer KEY`.";
        Self::new(StatusCode::UNAUTHORIZED, message).code("invalid_api_key")
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("The request body is larger than {limit} bytes.");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, message).code("request_too_large")
    }

    pub(crate) fn too_slow() -> Self {
        let message = "The request body arrived too slowly.";
        Self::new(StatusCode::REQUEST_TIMEOUT, message).code("request_timeout")
    }

    /// Only for the metrics: the client is gone.
    pub(crate) fn hung_up(cause: &dyn fmt::Display) -> Self {
        let message = format!("The request body could not be read: {cause}.");
        Self {
            counted: Some(ErrorType::Cancelled),
            ..Self::new(StatusCode::BAD_REQUEST, message)
        }
    }

    /// Something of ours failed, and the log says what.
    pub(crate) fn internal() -> Self {
        let message = "The server failed to process this request.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message).code("internal_error")
    }

    pub(crate) fn unsupported_media(found: &str) -> Self {
        let found = abridged(found);
        let message = format!("The request body must be `application/json`, not `{found}`.");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message).code("unsupported_media_type")
    }

    /// The label under which the failure is counted.
    pub(crate) fn error_type(&self) -> ErrorType {
        let counted = self.counted;
        counted.unwrap_or_else(|| counted_as(self.status))
    }

    #[cfg(test)]
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn body(&self) -> ErrorBody {
        let kind = match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        ErrorBody::new(kind, &self.message)
            .with_param(self.param.clone())
            .with_code(self.code)
    }
}

impl ApiError {
    /// As Anthropic's clients expect it.
    pub(crate) fn into_messages_response(self, request_id: Option<&str>) -> Response {
        let status = self.status;
        let body = MessagesError::new(status.as_u16(), &self.body(), request_id);
        let retry_after = self.retry_after;
        with_retry((status, axum::Json(body)).into_response(), retry_after)
    }

    /// The status, for events that name it.
    pub(crate) fn status_number(&self) -> u16 {
        self.status.as_u16()
    }

    pub(crate) fn unknown_response(id: &str) -> Self {
        let id = abridged(id);
        let message = format!("Previous response with id `{id}` not found.");
        Self::bad_request(message)
            .param("previous_response_id")
            .code("previous_response_not_found")
    }
}

/// In whole seconds, and never "at once".
fn retry_seconds(wait: Duration) -> u64 {
    wait.as_secs_f64().ceil().max(1.0) as u64
}

fn with_retry(mut response: Response, retry_after: Option<Duration>) -> Response {
    if let Some(wait) = retry_after {
        let seconds = HeaderValue::from(retry_seconds(wait));
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

/// The label under which a failure with this status is counted.
pub(crate) fn counted_as(status: StatusCode) -> ErrorType {
    match status {
        StatusCode::NOT_FOUND => ErrorType::NotFound,
        StatusCode::TOO_MANY_REQUESTS => ErrorType::Overload,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_GATEWAY => ErrorType::Unavailable,
        StatusCode::NOT_IMPLEMENTED => ErrorType::NotImplemented,
        status if status.is_server_error() => ErrorType::Internal,
        _ => ErrorType::Validation,
    }
}

/// What the status of an answer that a proxy got says of the worker.
pub(crate) fn blamed(worker: WorkerId, status: StatusCode) -> LinkError {
    let detail = status.to_string();
    match status {
        StatusCode::TOO_MANY_REQUESTS => LinkError::Overloaded { worker, detail },
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            LinkError::Unreachable { worker, detail }
        }
        status if status.is_server_error() => LinkError::Failed { worker, detail },
        _ => LinkError::Refused { worker, detail },
    }
}

/// An answer that refuses a request, for whoever writes it to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub status: StatusCode,
    /// Why, in a word that programs know.
    pub code: Option<&'static str>,
    /// When it is worth another try.
    pub retry_after_seconds: Option<u64>,
    /// In JSON.
    pub body: Vec<u8>,
}

impl ApiError {
    /// `messages`: as Anthropic's clients expect it.
    pub(crate) fn refused(self, messages: bool) -> Refused {
        let body = self.body();
        let body = match messages {
            true => serde_json::to_vec(&MessagesError::new(self.status.as_u16(), &body, None)),
            false => serde_json::to_vec(&body),
        };
        Refused {
            status: self.status,
            code: self.code,
            retry_after_seconds: self.retry_after.map(retry_seconds),
            body: body.unwrap_or_default(),
        }
    }
}

/// Of a health check: whether requests can be served now.
pub(crate) fn health_status(serving: bool) -> StatusCode {
    match serving {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// What a client wrote, as far as it helps to read it again.
fn abridged(text: &str) -> Cow<'_, str> {
    const QUOTED: usize = 80;
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let response = (self.status, axum::Json(self.body())).into_response();
        with_retry(response, self.retry_after)
    }
}

impl From<FleetError> for ApiError {
    fn from(error: FleetError) -> Self {
        let status = match error {
            FleetError::UnknownWorker => StatusCode::NOT_FOUND,
            FleetError::Profile { .. } => StatusCode::BAD_REQUEST,
            FleetError::Full { .. } => StatusCode::CONFLICT,
            FleetError::Start { .. } => StatusCode::INSUFFICIENT_STORAGE,
        };
        Self::new(status, error.to_string())
    }
}

impl From<ModeError> for ApiError {
    fn from(error: ModeError) -> Self {
        Self::bad_request(error.to_string()).param(error.field())
    }
}

impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        let status = match error.kind {
            RequestErrorKind::Malformed
            | RequestErrorKind::Invalid
            | RequestErrorKind::Unsupported => StatusCode::BAD_REQUEST,
        };
        Self {
            param: error.param,
            code: error.code,
            ..Self::new(status, error.message)
        }
    }
}

impl From<PrepareError> for ApiError {
    fn from(error: PrepareError) -> Self {
        Self {
            param: error.param().map(str::to_owned),
            code: error.code(),
            ..Self::new(StatusCode::BAD_REQUEST, error.to_string())
        }
    }
}

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> Self {
        let status = match denied {
            Denied::Token => StatusCode::UNAUTHORIZED,
            Denied::OtherSite => StatusCode::FORBIDDEN,
            Denied::ForeignHost => StatusCode::MISDIRECTED_REQUEST,
        };
        Self::new(status, denied.to_string()).code(denied.code())
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let message = format!("{refusal}; try again shortly");
        match refusal {
            Refusal::Draining => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, message).code("draining")
            }
            Refusal::Full { .. } | Refusal::NoMemory => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, message).code("server_full")
            }
            Refusal::KeyFull { .. } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, message).code("key_limit")
            }
        }
        .retry_after(RETRY_SOON)
    }
}

impl From<DispatchError> for ApiError {
    fn from(error: DispatchError) -> Self {
        match error {
            DispatchError::Route(RouteError::NoWorker) => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "No worker serves this model now.",
            )
            .code("no_worker")
            .retry_after(RETRY_SOON),
            DispatchError::Route(RouteError::Saturated { retry_after }) => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "All workers and their queues are full.",
            )
            .code("workers_full")
            .retry_after(retry_after),
            DispatchError::Route(RouteError::QueueTimeout { retry_after }) => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "No worker had a free slot within the time that the request may wait.",
            )
            .code("queue_timeout")
            .retry_after(retry_after),
            DispatchError::Failed {
                source: LinkError::TooLarge { detail, .. },
                ..
            } => {
                let message = format!("The request does not fit any worker: {detail}.");
                // The code by which clients know that they must shorten what they send.
                Self::new(StatusCode::BAD_REQUEST, message).code("context_length_exceeded")
            }
            DispatchError::Failed {
                source: LinkError::Refused { detail, .. },
                ..
            } => {
                let message = format!("The engine rejected this request: {detail}.");
                Self::new(StatusCode::BAD_REQUEST, message)
            }
            DispatchError::Failed { attempts, source } => {
                error!(attempts, error = %source, "request failed on every worker tried");
                let message = format!("No worker answered in {attempts} attempts.");
                Self::new(StatusCode::BAD_GATEWAY, message).code("worker_failed")
            }
        }
    }
}

impl From<ReplyError> for ApiError {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::Dispatch(error) => error.into(),
            ReplyError::BrokeOff(_) => {
                Self::new(StatusCode::BAD_GATEWAY, "The worker broke off the answer.")
                    .code("stream_interrupted")
            }
            ReplyError::NotRead(lag) => {
                let lag = lag.as_secs_f64();
                let message =
                    format!("The answer was cancelled: the client did not read for {lag} s.");
                Self::new(StatusCode::REQUEST_TIMEOUT, message).code("client_too_slow")
            }
        }
    }
}
