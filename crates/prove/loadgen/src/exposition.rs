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

/// Answers `GET /metrics` on `listener` forever. Connections live on `tasks`.
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

#[cfg(test)]
mod tests {
    use telemetry::catalog;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    async fn get(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn there_is_one_page() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (registry, tasks) = (Registry::new(), TaskTracker::new());
        let gauge = registry.gauge(&catalog::LOADGEN_ACTIVE_CONVERSATIONS, &[]);
        gauge.set(7.0);
        tasks.spawn(serve(listener, registry, Clock::start(), tasks.clone()));
        let page = get(address, "/metrics").await;
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        assert!(page.contains("loadgen_active_conversations 7\n"), "{page}");
        assert!(get(address, "/").await.starts_with("HTTP/1.1 404"));
    }
}
