//! A bucket at the end of a pipe: lists in pages of two, hands out files, refuses.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio_util::task::TaskTracker;

use super::*;
use http_client::{HttpOptions, Pipe};

/// A server with one bucket, called `texts`.
#[derive(Clone, Debug, Default)]
struct Server {
    files: Arc<BTreeMap<String, Vec<u8>>>,
    /// Refuses everything with this code.
    refusal: Option<(u16, &'static str)>,
    away: bool,
}

impl Server {
    fn holding(files: &[(&str, &[u8])]) -> Self {
        let files = files.iter().map(|(name, bytes)| {
            let bytes = bytes.to_vec();
            ((*name).to_owned(), bytes)
        });
        Self {
            files: Arc::new(files.collect()),
            ..Self::default()
        }
    }

    fn transport(self) -> HttpClient {
        let tasks = TaskTracker::new();
        let connector = tower::service_fn(move |_| {
            let (server, tasks) = (self.clone(), tasks.clone());
            std::future::ready(server.connect(&tasks))
        });
        HttpClient::over(connector, HttpOptions::default())
    }

    fn connect(self, tasks: &TaskTracker) -> io::Result<Pipe<tokio::io::DuplexStream>> {
        if self.away {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = tokio::io::duplex(1 << 16);
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let response = self.answer(&request);
            std::future::ready(Ok::<_, Infallible>(response))
        });
        tasks.spawn(async move {
            let builder = auto::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(TokioIo::new(far), service).await;
        });
        Ok(Pipe::new(near))
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        assert!(request.headers().contains_key("authorization"), "signed");
        if let Some((status, code)) = self.refusal {
            return refuse(status, code);
        }
        let Some(place) = request.uri().path().strip_prefix("/texts") else {
            return refuse(404, "NoSuchBucket");
        };
        match place.trim_start_matches('/') {
            "" => Response::new(Full::from(self.page(request.uri().query().unwrap()))),
            name => match self.files.get(name) {
                Some(bytes) => {
                    let mut response = Response::new(Full::from(bytes.clone()));
                    let modified = "Sat, 01 Aug 2026 00:00:00 GMT".parse().unwrap();
                    response.headers_mut().insert("last-modified", modified);
                    response
                }
                None => refuse(404, "NoSuchKey"),
            },
        }
    }

    fn page(&self, query: &str) -> String {
        let field = |name: &str| {
            let fields = query.split('&').filter_map(|field| field.split_once('='));
            let mut values = fields.filter(|(key, _)| *key == name);
            values.next().map(|(_, value)| value.replace("%2F", "/"))
        };
        let (prefix, after) = (field("prefix"), field("continuation-token"));
        let (prefix, after) = (prefix.unwrap_or_default(), after.unwrap_or_default());
        let all = self
            .files
            .iter()
            .filter(|(name, _)| name.starts_with(&prefix));
        let rest: Vec<_> = all.filter(|(name, _)| **name > after).collect();
        let mut page = String::from("<ListBucketResult>");
        for (name, bytes) in rest.iter().take(2) {
            let size = bytes.len();
            write!(
                page,
                "<Contents><Key>{name}</Key><Size>{size}</Size>\
                 <LastModified>2026-08-01T00:00:00.000Z</LastModified></Contents>"
            )
            .unwrap();
        }
        if rest.len() > 2 {
            let last = rest[1].0;
            write!(
                page,
                "<NextContinuationToken>{last}</NextContinuationToken>"
            )
            .unwrap();
        }
        page + "</ListBucketResult>"
    }
}

fn refuse(status: u16, code: &str) -> Response<Full<Bytes>> {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code></Error>");
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

fn settings() -> Vec<(String, String)> {
    let settings = [
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", "eu-test-1"),
        ("AWS_ENDPOINT_URL", "http://s3.test:9000"),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_SOMETHING_ELSE", "ignored"),
    ];
    let owned = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    owned.into()
}

async fn read(address: &str, server: Server) -> Result<Corpus, CorpusError> {
    let bucket = Bucket::new(address, settings(), server.transport())?;
    bucket.read(|_, _| {}).await
}

#[tokio::test(start_paused = true)]
async fn all_pages_below_the_folder_are_read_in_order() {
    let large = vec![b'a'; LARGEST_FILE as usize + 1];
    let server = Server::holding(&[
        ("docs/b.txt", b"Tides\n\nThe moon."),
        ("docs/a.md", b"# Rivers\n\nThey flow."),
        ("docs/deep/c.txt", b"Winds"),
        ("docs/empty.txt", b""),
        ("docs/image.png", b"\x89PNG\r\n\x1a\n\0"),
        ("docs/large.txt", &large),
        ("other.txt", b"Not below the folder."),
    ]);
    let bucket = Bucket::new("s3://texts/docs/", settings(), server.transport()).unwrap();
    let mut told = Vec::new();
    let corpus = bucket.read(|read, total| told.push((read, total)));
    let corpus = corpus.await.unwrap();
    let titles: Vec<&str> = corpus.starters.iter().map(|one| &*one.title).collect();
    assert_eq!(titles, ["Rivers", "Tides", "Winds"]);
    let left_out: Vec<String> = corpus.left_out.iter().map(ToString::to_string).collect();
    let expected = [
        "docs/empty.txt left out: it is empty",
        "docs/image.png left out: it is not a text file (UTF-8)",
        "docs/large.txt left out: it is larger than 4 MiB",
    ];
    assert_eq!(left_out, expected);
    assert_eq!((told.len(), told[5]), (6, (6, 6)));
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_is_said_in_one_line() {
    let refusing = |status, code| Server {
        refusal: Some((status, code)),
        ..Server::default()
    };
    let away = Server {
        away: true,
        ..Server::default()
    };
    let empty = || Server::holding(&[("docs/empty.txt", b"")]);
    for (address, server, part) in [
        ("s3://texts", refusing(403, "AccessDenied"), "access denied"),
        (
            "s3://texts",
            refusing(403, "InvalidAccessKeyId"),
            "does not know the key in AWS_ACCESS_KEY_ID",
        ),
        (
            "s3://texts",
            refusing(403, "SignatureDoesNotMatch"),
            "AWS_SECRET_ACCESS_KEY does not belong",
        ),
        ("s3://texts", refusing(400, "Strange"), "refused: Strange"),
        ("s3://others", empty(), "there is no such bucket"),
        ("s3://texts", away, "cannot reach s3.test:9000"),
        ("s3://texts/docs", empty(), "has no text files"),
        ("s3://texts/none", empty(), "has no text files"),
        ("s3:///docs", empty(), "not an address such as"),
    ] {
        let error = read(address, server).await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        assert!(!error.contains('\n') && error.len() < 200, "{error}");
    }
}

#[tokio::test]
async fn a_bucket_needs_a_key() {
    let error = Bucket::new("s3://texts", [], Server::default().transport()).unwrap_err();
    assert!(error.to_string().contains("AWS_ACCESS_KEY_ID"), "{error}");
}

#[tokio::test]
async fn a_bucket_is_read_in_the_clear_only_on_request() {
    for (allowed, fine) in [("true", true), ("false", false)] {
        let mut settings = settings();
        settings[4].1 = allowed.to_owned();
        let bucket = Bucket::new("s3://texts", settings, Server::default().transport());
        assert_eq!(bucket.is_ok(), fine);
    }
}
