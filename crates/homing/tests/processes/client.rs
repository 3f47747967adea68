//! A client that reads streams and notices pauses.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::system::MODEL;

/// A streamed answer, complete or not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streamed {
    pub(crate) status: u16,
    pub(crate) text: String,
    /// `Some` when the answer was ended properly.
    pub(crate) finish: Option<String>,
    pub(crate) done: bool,
    pub(crate) error: Option<Value>,
    pub(crate) cached_tokens: u64,
    pub(crate) first: Duration,
    pub(crate) longest_gap: Duration,
}

impl Streamed {
    pub(crate) fn is_complete(&self) -> bool {
        self.status == 200 && self.done && self.finish.is_some() && self.error.is_none()
    }
}

pub(crate) async fn get(url: &str) -> String {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let response = client.get(url.parse().expect("an address")).await;
    let body = response.expect("it answers").into_body().collect().await;
    String::from_utf8(body.expect("it is sent whole").to_bytes().to_vec()).expect("text")
}

/// Sends a body and reads the answer in one piece.
pub(crate) async fn post(url: &str, body: &Value) -> Value {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let response = client.request(posted(url, body)).await;
    let body = response.expect("it answers").into_body().collect().await;
    serde_json::from_slice(&body.expect("it is sent whole").to_bytes()).expect("JSON")
}

/// Sends a request with a control token, and reads the status and the answer.
pub(crate) async fn order(method: &str, url: &str, token: &str, body: &Value) -> (u16, Value) {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let mut request = posted(url, body);
    *request.method_mut() = method.parse().expect("a method");
    if !token.is_empty() {
        let token = format!("Bearer {token}").parse().expect("a header");
        request.headers_mut().insert("authorization", token);
    }
    let response = client.request(request).await.expect("it answers");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await;
    let body = body.expect("it is sent whole").to_bytes();
    (status, serde_json::from_slice(&body).expect("JSON"))
}

fn posted(url: &str, body: &Value) -> http::Request<Full<Bytes>> {
    http::Request::post(url)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .expect("a request")
}

/// Sends a conversation and reads the answer; `on_text` hears of each piece.
pub(crate) async fn chat(
    frontend: &str,
    messages: &[Value],
    max_tokens: u32,
    on_text: impl Fn(usize),
) -> Streamed {
    let body = json!({
        "model": MODEL, "messages": messages, "stream": true, "max_tokens": max_tokens,
        "temperature": 0, "stream_options": {"include_usage": true},
    });
    let request = posted(&format!("{frontend}/v1/chat/completions"), &body);
    let client = Client::builder(TokioExecutor::new()).build_http();
    let began = Instant::now();
    let response = client.request(request).await.expect("the frontend answers");
    let mut streamed = Streamed {
        status: response.status().as_u16(),
        ..Streamed::default()
    };
    let mut body = response.into_body();
    let mut buffer = Vec::new();
    let (mut last, mut pieces) = (None, 0);
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { break };
        buffer.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
        while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = buffer.drain(..end + 2).collect();
            let event = String::from_utf8(event).expect("text");
            if streamed.take(event.trim().trim_start_matches("data: ")) {
                let now = Instant::now();
                let gap = last.map_or(Duration::ZERO, |last| now - last);
                streamed.longest_gap = streamed.longest_gap.max(gap);
                if last.is_none() {
                    streamed.first = now - began;
                }
                last = Some(now);
                pieces += 1;
                on_text(pieces);
            }
        }
    }
    streamed
}

impl Streamed {
    /// Whether the event brought text.
    fn take(&mut self, event: &str) -> bool {
        if event == "[DONE]" {
            self.done = true;
            return false;
        }
        let event: Value = serde_json::from_str(event).expect("an event is JSON");
        if let Some(error) = event.get("error") {
            self.error = Some(error.clone());
        }
        if let Some(cached) = event["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64() {
            self.cached_tokens = cached;
        }
        let choice = &event["choices"][0];
        if let Some(finish) = choice["finish_reason"].as_str() {
            self.finish = Some(finish.to_owned());
        }
        let text = choice["delta"]["content"].as_str().unwrap_or_default();
        self.text.push_str(text);
        !text.is_empty()
    }
}

pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub(crate) fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}
