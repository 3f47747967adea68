//! Pages as a browser gets them, from files that the test invents.

use http::Request;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::*;

const SCRIPT: &str = "assets/main-1a2b.js";

fn file(name: &str, content: &'static str, mark: u8) -> Asset {
    Asset {
        name: name.to_owned(),
        content: Cow::Borrowed(content.as_bytes()),
        sha256: [mark; 32],
    }
}

fn built() -> Assets {
    Assets::new([
        file(INDEX, "<title>Pages</title>", 1),
        file(SCRIPT, "let it = 1;", 2),
        file("assets/main-1a2b.js.gz", "packed", 3),
        file("icon.svg", "<svg/>", 4),
    ])
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

async fn ask(assets: &Assets, call: &str, headers: &[(&str, &str)]) -> Answer {
    let (method, path) = call.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let routes: Router = assets.routes("http://api/");
    let answer = routes.oneshot(request.body(Body::empty()).unwrap()).await;
    let answer = answer.unwrap();
    let (status, headers) = (answer.status(), answer.headers().clone());
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    Answer {
        status,
        headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

#[tokio::test]
async fn the_first_page_is_asked_for_again_and_hashed_files_are_kept() {
    let assets = built();
    for path in ["GET /", "GET /index.html"] {
        let page = ask(&assets, path, &[]).await;
        assert_eq!(page.body, "<title>Pages</title>");
        assert_eq!(
            page.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        assert_eq!(page.header("cache-control"), Some("no-cache"));
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    }
    let script = ask(&assets, &format!("GET /{SCRIPT}"), &[]).await;
    let kept = script.header("cache-control").unwrap();
    assert!(kept.contains("immutable"), "{kept}");
    let kind = script.header("content-type");
    assert_eq!(kind, Some("text/javascript; charset=utf-8"));
    let icon = ask(&assets, "GET /icon.svg", &[]).await;
    assert_eq!(icon.header("content-type"), Some("image/svg+xml"));
    assert_eq!(icon.header("vary"), None, "it has one form only");
}

#[tokio::test]
async fn what_the_browser_has_is_not_sent_again() {
    let assets = built();
    let first = ask(&assets, "GET /", &[]).await;
    let tag = first.header("etag").unwrap();
    for known in [tag, "*", &format!("\"other\", W/{tag}")] {
        let again = ask(&assets, "GET /", &[("if-none-match", known)]).await;
        assert_eq!(
            (again.status, again.body.as_str()),
            (StatusCode::NOT_MODIFIED, "")
        );
        assert_eq!(again.header("etag"), Some(tag));
        assert_eq!(again.header("content-type"), None);
    }
    let other = ask(&assets, "GET /", &[("if-none-match", "\"other\"")]).await;
    assert_eq!(other.status, StatusCode::OK);
}

#[tokio::test]
async fn packed_copies_go_to_those_that_take_them() {
    let assets = built();
    let call = format!("GET /{SCRIPT}");
    for (accepted, body) in [
        ("gzip", "packed"),
        ("br, GZIP;q=0.5", "packed"),
        ("gzip;q=0", "let it = 1;"),
        ("br", "let it = 1;"),
        ("identity", "let it = 1;"),
    ] {
        let answer = ask(&assets, &call, &[("accept-encoding", accepted)]).await;
        assert_eq!(answer.body, body, "{accepted}");
        let encoding = (body == "packed").then_some("gzip");
        assert_eq!(answer.header("content-encoding"), encoding, "{accepted}");
        assert_eq!(answer.header("vary"), Some("accept-encoding"));
    }
    let tags = [("accept-encoding", "gzip"), ("accept-encoding", "br")];
    let [packed, plain] = [
        ask(&assets, &call, &tags[..1]).await,
        ask(&assets, &call, &tags[1..]).await,
    ];
    assert_ne!(packed.header("etag"), plain.header("etag"));
    // No file of its own.
    let packed = ask(&assets, &format!("{call}.gz"), &[]).await;
    assert_eq!(packed.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn without_pages_it_is_said_what_to_do() {
    let page = ask(&Assets::default(), "GET /", &[]).await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(
        page.body.contains("install Node 20 or later"),
        "{}",
        page.body
    );
    assert!(page.body.contains("href=\"/api/state\""), "{}", page.body);
    assert!(page.body.contains("href=\"http://api/\""), "{}", page.body);
    assert!(page.header("content-security-policy").is_some());
    let head = ask(&Assets::default(), "HEAD /", &[]).await;
    assert_eq!((head.status, head.body.as_str()), (StatusCode::OK, ""));
}
