//! One request of a connection: whether it is accepted, and whether the connection then closes.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use contract::{Denied, Visitors};
use http::{HeaderMap, HeaderValue, Method, Request, Version, header};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;
use tower::Service as _;

use super::arriving::{Arriving, Ended};
use super::crowd::Rank;
use super::pulse::{self, Pulse};
use crate::error::ApiError;

/// What is answered under any name and in any crowd.
const PROBES: [&str; 4] = ["/live", "/health", "/ready", "/metrics"];

/// Takes the requests of one connection.
#[derive(Clone)]
pub(super) struct Visit {
    pub(super) routes: Router,
    pub(super) visitors: Visitors,
    pub(super) rank: Rank,
    pub(super) pulse: Arc<Pulse>,
}

type Answered = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

impl Service<Request<Incoming>> for Visit {
    type Response = Response;
    type Error = Infallible;
    type Future = Answered;

    fn call(&self, request: Request<Incoming>) -> Answered {
        let visit = self.clone();
        // Counted from here, not from when the future is first polled.
        let held = self.pulse.request();
        Box::pin(async move { Ok(visit.answer(request, held).await) })
    }
}

impl Visit {
    async fn answer(self, request: Request<Incoming>, held: pulse::Request) -> Response {
        let closable = request.version() <= Version::HTTP_11;
        let ended = Ended::default();
        let whole = request.body().is_end_stream();
        let request = request.map(|body| match whole {
            true => Body::empty(),
            false => {
                let pulse = Arc::clone(&self.pulse);
                Body::new(Arriving::new(body, pulse, ended.clone()))
            }
        });
        let mut response = match self.check(&request) {
            Ok(()) => {
                let Ok(response) = self.routes.clone().call(request).await;
                response
            }
            Err(error) => error.into_response(),
        };
        let unread = !whole && !ended.get();
        if unread {
            self.pulse.leave_unread();
        }
        if closable && (unread || self.rank == Rank::Reserve) {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        response.map(|body| Body::new(Answering { body, _held: held }))
    }

    fn check<B>(&self, request: &Request<B>) -> Result<(), ApiError> {
        if PROBES.contains(&request.uri().path()) {
            return Ok(());
        }
        check_visitor(&self.visitors, request)?;
        match self.rank {
            Rank::Ordinary => Ok(()),
            Rank::Reserve => Err(ApiError::no_connection()),
        }
    }
}

/// Whether a request comes under a name of ours and from a page of ours, if from a page.
fn check_visitor<B>(visitors: &Visitors, request: &Request<B>) -> Result<(), Denied> {
    let headers = request.headers();
    let value = |name| headers.get(name).map(HeaderValue::as_bytes);
    // HTTP/2 says it in the address. Where both say it, both must be ours.
    let authority = request
        .uri()
        .authority()
        .map(|host| host.as_str().as_bytes());
    let hosts = [value(header::HOST), authority];
    let origin = value(header::ORIGIN);
    let looks = matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    );
    let acts = !looks || is_websocket(headers);
    for host in hosts.into_iter().flatten() {
        visitors.check(Some(host), None, acts)?;
    }
    visitors.check(hosts.into_iter().flatten().next(), origin, acts)
}

fn is_websocket(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(header::UPGRADE);
    upgrade.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// An answer's body, which keeps its request counted until it ends.
struct Answering {
    body: Body,
    _held: pulse::Request,
}

impl http_body::Body for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
