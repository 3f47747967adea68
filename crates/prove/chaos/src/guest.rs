//! A client at work: what it asks, how it reads, and what it holds against the answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::outcome::{Expected, Failure, Outcome};
use crate::plan::{Manner, Visitor};
use crate::system::Front;

/// Turns of a conversation.
pub(crate) const TURNS: usize = 3;
const MAX_TOKENS: u32 = 60;
/// Further behind than any client may be.
const FAR_BEHIND: Duration = Duration::from_secs(45);

/// How one request ended, and what each of its answers said by then.
#[derive(Debug)]
pub(crate) struct End {
    how: How,
    /// By the place of their prompts: of a batch, some may have begun and others not.
    texts: BTreeMap<u64, String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum How {
    Complete,
    Error,
    Abandoned,
}

impl End {
    pub(crate) fn undisturbed(self) -> Result<String, Failure> {
        match self.how {
            How::Complete => Ok(self.texts.into_values().collect()),
            How::Error | How::Abandoned => Err(Failure("an undisturbed request failed".to_owned())),
        }
    }

    /// What has come must be the beginning of what should come, and all of it where the
    /// answer is complete.
    fn check(&self, expected: &[&String]) -> Result<(), Failure> {
        if self.how == How::Complete && self.texts.len() != expected.len() {
            let (found, due) = (self.texts.len(), expected.len());
            return Err(Failure(format!("{found} of {due} answers came")));
        }
        for (at, expected) in (0..).zip(expected) {
            let Some(text) = self.texts.get(&at) else {
                continue;
            };
            let same = expected
                .bytes()
                .zip(text.bytes())
                .take_while(|(left, right)| left == right);
            let same = same.count();
            if same < text.len() {
                return Err(Failure(format!(
                    "the answer differs from character {same} of {} on",
                    text.len()
                )));
            }
            if self.how == How::Complete && text.len() < expected.len() {
                return Err(Failure(format!(
                    "a complete answer of {} characters should have {}",
                    text.len(),
                    expected.len()
                )));
            }
        }
        Ok(())
    }
}

pub(crate) fn question(script: usize, turn: usize) -> String {
    format!("Script {script}, question {turn}: what do caches, queues and pages have in common? ")
        .repeat(3)
}

pub(crate) fn prompt(number: usize) -> String {
    format!("Prompt {number} of a batch: what do caches, queues and pages have in common?")
}

pub(crate) fn chat(messages: &[Value]) -> Request<Body> {
    post(
        "/v1/chat/completions",
        json!({ "messages": messages, "stream": true }),
    )
}

pub(crate) fn batch(prompts: impl Iterator<Item = usize>, stream: bool) -> Request<Body> {
    let prompts: Vec<String> = prompts.map(prompt).collect();
    post(
        "/v1/completions",
        json!({ "prompt": prompts, "stream": stream }),
    )
}

fn post(path: &str, mut body: Value) -> Request<Body> {
    body["model"] = json!("chaos");
    body["max_tokens"] = json!(MAX_TOKENS);
    body["temperature"] = json!(0);
    Request::post(path)
        .body(Body::from(body.to_string()))
        .expect("a request")
}

pub(crate) fn key(messages: &[Value]) -> String {
    Value::from(messages.to_vec()).to_string()
}

/// A visitor at work.
#[derive(Clone)]
pub(crate) struct Guest {
    pub(crate) visitor: Visitor,
    pub(crate) fronts: watch::Receiver<Arc<Front>>,
    pub(crate) expected: Arc<Expected>,
    pub(crate) tally: Arc<Mutex<Result<Outcome, Failure>>>,
    /// Tasks that hold an answer without reading it.
    pub(crate) unread: TaskTracker,
}

impl Guest {
    pub(crate) async fn visit(self) {
        tokio::time::sleep(self.visitor.arrives).await;
        let visited = match self.visitor.manner {
            Manner::Greedy { conversations } => {
                let each = (0..conversations).map(|_| self.converse());
                futures_util::future::try_join_all(each).await.map(|_| ())
            }
            Manner::Batch { prompts, stream } => self.ask_batch(prompts, stream).await,
            Manner::NeverReads => self.ignore().await,
            Manner::Reads | Manner::HangsUp { .. } | Manner::Drips => self.converse().await,
        };
        if let Err(failure) = visited {
            *self.tally.lock() = Err(failure);
        }
    }

    fn front(&self) -> Arc<Front> {
        Arc::clone(&self.fronts.borrow())
    }

    fn count(&self, how: &How) {
        if let Ok(outcome) = &mut *self.tally.lock() {
            match how {
                How::Complete => outcome.complete += 1,
                How::Error => outcome.errors += 1,
                How::Abandoned => outcome.abandoned += 1,
            }
        }
    }

    async fn converse(&self) -> Result<(), Failure> {
        let mut messages = Vec::new();
        for turn in 0..TURNS {
            let content = question(self.visitor.script, turn);
            messages.push(json!({"role": "user", "content": content}));
            let expected = &self.expected[&key(&messages)];
            let end = converse(&self.front(), chat(&messages), self.visitor.manner).await?;
            end.check(&[expected])?;
            self.count(&end.how);
            match self.visitor.manner {
                Manner::HangsUp { .. } if end.how == How::Abandoned => return Ok(()),
                // One answer takes it longer than any conversation.
                Manner::Drips => return Ok(()),
                Manner::Reads
                | Manner::HangsUp { .. }
                | Manner::NeverReads
                | Manner::Batch { .. }
                | Manner::Greedy { .. } => {}
            }
            messages.push(json!({"role": "assistant", "content": expected}));
        }
        Ok(())
    }

    async fn ask_batch(&self, prompts: usize, stream: bool) -> Result<(), Failure> {
        let request = batch(0..prompts, stream);
        let end = converse(&self.front(), request, self.visitor.manner).await?;
        let expected: Vec<&String> = (0..prompts)
            .map(|number| &self.expected[&prompt(number)])
            .collect();
        end.check(&expected)?;
        self.count(&end.how);
        Ok(())
    }

    /// Has the answer begin, and keeps it unread for as long as its frontend lives.
    async fn ignore(&self) -> Result<(), Failure> {
        let front = self.front();
        let content = question(self.visitor.script, 0);
        let request = chat(&[json!({"role": "user", "content": content})]);
        if let Ok(unread) = open(&front, request).await? {
            self.unread.spawn(async move {
                front.dead.cancelled().await;
                drop(unread);
            });
        }
        self.count(&How::Abandoned);
        Ok(())
    }
}

/// Sends a request and waits until its answer begins; if it does not, says how it ended.
async fn open(front: &Front, request: Request<Body>) -> Result<Result<Body, How>, Failure> {
    let answering = front.frontend.service().oneshot(request);
    let Some(response) = front.dead.run_until_cancelled(answering).await else {
        return Ok(Err(How::Abandoned));
    };
    let response = response.map_err(|never| Failure(never.to_string()))?;
    match response.status() {
        StatusCode::OK => Ok(Ok(response.into_body())),
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE => Ok(Err(How::Error)),
        status => Err(Failure(format!("answered with {status}"))),
    }
}

/// Sends one request and reads its answer to the end, or as far and as fast as its manner is.
pub(crate) async fn converse(
    front: &Front,
    request: Request<Body>,
    manner: Manner,
) -> Result<End, Failure> {
    let mut reading = Reading::default();
    let mut body = match open(front, request).await? {
        Ok(body) => body,
        Err(how) => return Ok(reading.end(how)),
    };
    loop {
        let Some(frame) = front.dead.run_until_cancelled(body.frame()).await else {
            return Ok(reading.end(How::Abandoned));
        };
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| Failure(format!("the body broke: {error}")))?;
        let mut bytes = frame.data_ref().map_or(&[][..], |bytes| bytes);
        let hangs_up = match manner {
            Manner::HangsUp { after } => {
                let left = after.saturating_sub(reading.bytes);
                let enough = bytes.len() > left;
                bytes = &bytes[..bytes.len().min(left)];
                enough
            }
            Manner::Drips => {
                let pause = Duration::from_secs(bytes.len() as u64).min(FAR_BEHIND);
                tokio::time::sleep(pause).await;
                false
            }
            Manner::Reads | Manner::NeverReads | Manner::Batch { .. } | Manner::Greedy { .. } => {
                false
            }
        };
        reading.take(bytes)?;
        if hangs_up {
            return Ok(reading.end(How::Abandoned));
        }
    }
    reading.ended()
}

/// What a client has read.
#[derive(Debug, Default)]
struct Reading {
    /// What does not make a whole event yet, or is a document in one piece.
    rest: Vec<u8>,
    bytes: usize,
    texts: BTreeMap<u64, String>,
    finished: u32,
    failed: bool,
    done: bool,
}

impl Reading {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.bytes += bytes.len();
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = self.rest.drain(..end + 2).collect();
            let event = String::from_utf8_lossy(&event);
            if self.done {
                return Err(Failure("something follows the end".to_owned()));
            }
            match event.trim().trim_start_matches("data: ") {
                "[DONE]" => self.done = true,
                event => self.document(event)?,
            }
        }
        Ok(())
    }

    /// An event of a stream, or an answer in one piece.
    fn document(&mut self, text: &str) -> Result<(), Failure> {
        let document: Value = serde_json::from_str(text)
            .map_err(|error| Failure(format!("an answer is not JSON: {error}")))?;
        self.failed |= document.get("error").is_some();
        for choice in document["choices"].as_array().into_iter().flatten() {
            let text = choice["delta"]["content"].as_str();
            let text = text.or(choice["text"].as_str()).unwrap_or_default();
            let index = choice["index"].as_u64().unwrap_or_default();
            self.texts.entry(index).or_default().push_str(text);
            self.finished += u32::from(choice["finish_reason"].is_string());
        }
        Ok(())
    }

    fn end(self, how: How) -> End {
        End {
            how,
            texts: self.texts,
        }
    }

    /// The body is at its end: how did it go?
    fn ended(mut self) -> Result<End, Failure> {
        if !self.rest.is_empty() && !self.done {
            let document = String::from_utf8_lossy(&self.rest).into_owned();
            self.document(&document)?;
            self.done = true;
        }
        let all = self.finished as usize == self.texts.len() && self.finished > 0;
        match (self.done, all, self.failed) {
            (true, true, false) => Ok(self.end(How::Complete)),
            (true, _, true) => Ok(self.end(How::Error)),
            _ => Err(Failure(format!("a stream ended neither way: {self:?}"))),
        }
    }
}
