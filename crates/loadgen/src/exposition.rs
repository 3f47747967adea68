//! The load generator's own `/metrics`, for runs that Prometheus watches.
//!
//! One page and nothing else, so it is hyper without a router. Where the load generator runs
//! inside the server, the server's page shows these metrics too.

use std::convert::Infallible;

use bytes::Bytes;
use contract::{Clock, Moment};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use telemetry::Registry;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

/// Answers `GET /metrics` on `listener` for ever. Connections live on `tasks`.
pub async fn serve(listener: TcpListener, registry: Registry, clock: Clock, tasks: TaskTracker) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, say: they come back when streams end.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        let registry = registry.clone();
        let service = service_fn(move |request| {
            std::future::ready(Ok::<_, Infallible>(page(&request, &registry, clock)))
        });
        tasks.spawn(async move {
            let builder = auto::Builder::new(TokioExecutor::new());
            // Ends with an error when a scraper hangs up, which is its right.
            let _ = builder
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn page(request: &Request<Incoming>, registry: &Registry, clock: Clock) -> Response<Full<Bytes>> {
    if request.uri().path() != "/metrics" {
        let mut response = Response::new(Full::from("There is only /metrics here.\n"));
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    }
    let text = registry.render(clock.now() - Moment::ZERO);
    let mut response = Response::new(Full::from(text));
    let kind = HeaderValue::from_static(telemetry::CONTENT_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
