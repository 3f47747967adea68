//! Errors that pages get: the API's error object.

use axum::Json;
use axum::response::{IntoResponse, Response};
use contract::Denied;
use http::StatusCode;
use openai::ErrorBody;

#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    message: String,
    /// The offending field.
    field: Option<String>,
    code: Option<&'static str>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            field: None,
            code: None,
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn field(mut self, field: Option<String>) -> Self {
        self.field = field;
        self
    }

    pub(crate) fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        let status = match denied {
            Denied::Token => StatusCode::UNAUTHORIZED,
            Denied::OtherSite => StatusCode::FORBIDDEN,
            Denied::ForeignHost => StatusCode::MISDIRECTED_REQUEST,
        };
        Self::new(status, denied.to_string()).code(denied.code())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let kind = match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        let body = ErrorBody::new(kind, self.message)
            .with_param(self.field)
            .with_code(self.code);
        (self.status, Json(body)).into_response()
    }
}
