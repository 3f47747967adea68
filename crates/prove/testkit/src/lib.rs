//! For tests: a frontend, a router and simulated workers over in-memory links, driven through the
//! HTTP service without a socket. What runs is what ships; only the clock is paused.

#![expect(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

pub mod passing;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use contract::{Clock, FrontendId, Moment, WorkerId};
use engine::sim::{AnswerBank, Profile, SimExecutor};
use frontend::{
    Access, ApiKeys, FaultLimits, Frontend, FrontendConfig, KeyRing, ModelParts, Parts,
};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use openai::responses::StoreLimits;
use openai::{ChatCompletionChunk, UnknownFields, Usage};
use parking_lot::Mutex;
use preprocess::{PreprocessConfig, Preprocessor, corpus};
use request_trace::Recorder;
use router::{Router, RouterConfig, WorkerView};
use serde_json::{Value, json};
use spans::{Finished, FinishedTrace, SampleRatio, Tracer};
use tasks::Tasks;
use telemetry::Registry;
use tower::ServiceExt as _;
use transport::{Change, Roster, roster};
use worker::{Worker, WorkerContext};

#[derive(Debug)]
pub struct Cluster {
    pub frontend: Frontend,
    pub router: Router,
    pub clock: Clock,
    pub roster: Roster,
    pub workers: Vec<Worker>,
    pub model: String,
    pub registry: Registry,
    /// Of requests that have ended, if spans are recorded.
    pub traces: Mutex<Option<Finished>>,
    _tasks: Tasks,
}

/// How a test wants its cluster.
#[derive(Debug)]
pub struct Setup {
    pub mode: &'static str,
    pub workers: u64,
    pub queue_limit: u32,
    pub profile: Profile,
    /// Seed of router and answers, where a test cares.
    pub seed: Option<u64>,
    /// What workers say, if not our articles.
    pub answers: Option<Arc<AnswerBank>>,
    pub decisions_kept: usize,
    pub max_queue_wait: Option<Duration>,
    pub trust_priority: bool,
    /// The text of a key file.
    pub api_keys: Option<&'static str>,
    /// Share of the requests whose spans are recorded; `None` if that is off.
    pub traced: Option<SampleRatio>,
}

impl Default for Setup {
    fn default() -> Self {
        let profile = Profile::named(engine::sim::DEFAULT_PROFILE).unwrap();
        Self {
            mode: "kv-blocks",
            workers: 3,
            queue_limit: 256,
            profile,
            seed: None,
            answers: None,
            decisions_kept: 100,
            max_queue_wait: None,
            trust_priority: false,
            api_keys: None,
            traced: None,
        }
    }
}

impl Setup {
    /// And the spans of its requests, if some are recorded.
    fn start_frontend(&self, registry: &Registry, clock: Clock) -> (Frontend, Option<Finished>) {
        let traced = self
            .traced
            .map(|ratio| Tracer::new(ratio, 7, clock, registry));
        let (tracer, traces) = traced.unzip();
        let parts = Parts {
            registry: registry.clone(),
            clock,
            id: FrontendId(0),
            fleet_commands: None,
            shares_engines: false,
            tracer: tracer.unwrap_or_default(),
            recorder: Recorder::off(),
        };
        (Frontend::new(self.frontend(), parts), traces)
    }

    fn frontend(&self) -> FrontendConfig {
        let keys = self.api_keys.map(|text| ApiKeys::parse(text).unwrap());
        FrontendConfig {
            max_requests: 1000,
            max_body_bytes: 1 << 20,
            max_buffered_bytes: 64 << 20,
            max_queue_wait: self.max_queue_wait,
            trust_priority: self.trust_priority,
            unknown_fields: UnknownFields::Refuse,
            normalize_agents: true,
            stored_responses: StoreLimits {
                entries: 100,
                bytes: 1 << 20,
            },
            access: Access::Open,
            api_keys: keys.map(KeyRing::new),
            faults: FaultLimits::default(),
            slow_reader_timeout: Duration::from_secs(30),
            forward: frontend::ForwardPolicy::default(),
        }
    }
}

impl Cluster {
    pub async fn start(setup: Setup) -> Self {
        let (profile, workers) = (&setup.profile, setup.workers);
        let clock = Clock::start();
        let registry = Registry::new();
        let preprocessor = Preprocessor::embedded(PreprocessConfig {
            max_context_tokens: profile.max_context_tokens,
            ..PreprocessConfig::default()
        });
        let answers = setup.answers.clone();
        let answers = answers.unwrap_or_else(|| articles(&preprocessor));
        let config = RouterConfig {
            mode: setup.mode.parse().unwrap(),
            seed: setup.seed.unwrap_or(1),
            queue_limit: setup.queue_limit,
            decisions_kept: setup.decisions_kept,
            ..RouterConfig::new(profile.block_size)
        };
        let router = Router::new(config, &registry, clock);
        let (roster, changes) = roster();
        let tasks = Tasks::new();
        let (frontend, traces) = setup.start_frontend(&registry, clock);
        let model = ModelParts {
            name: profile.model.clone(),
            preprocessor,
            router: router.clone(),
            adapters: Vec::new(),
            changes,
        };
        frontend.serve_model(model, &tasks);
        let context = WorkerContext {
            clock,
            registry: registry.clone(),
            epoch: 0,
        };
        let mut started = Vec::new();
        for id in 0..workers {
            let card = profile.card(WorkerId(id), &format!("worker-{id}"));
            let seed = setup.seed.unwrap_or(42);
            let executor = SimExecutor::new(profile, Arc::clone(&answers), seed);
            let (worker, member) = Worker::start(card, executor, &context);
            roster.announce(Change::Joined(Box::new(member))).await;
            started.push(worker);
        }
        let cluster = Self {
            frontend,
            router,
            clock,
            roster,
            workers: started,
            model: profile.model.as_str().to_owned(),
            registry,
            traces: Mutex::new(traces),
            _tasks: tasks,
        };
        cluster
            .until("workers have joined", |c| {
                c.views().len() == workers as usize
            })
            .await;
        cluster
    }

    pub fn views(&self) -> Vec<WorkerView> {
        self.router.workers()
    }

    /// The sum of a metric's rows, whatever their labels.
    pub fn get_metric(&self, name: &str) -> f64 {
        let text = self.registry.render(Duration::ZERO);
        let rows = text.lines().filter(|line| line.starts_with(name));
        let value = |row: &str| row.rsplit(' ').next()?.parse::<f64>().ok();
        rows.filter_map(value).sum()
    }

    /// The spans of the next request that has ended, if there is one.
    pub fn next_trace(&self) -> Option<FinishedTrace> {
        let trace = self.traces.lock().as_mut()?.try_recv().ok()?;
        Some(*trace)
    }

    /// Waits on a level, with a deadline in virtual time.
    pub async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        for _ in 0..10_000 {
            if condition(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("waited in vain until {what}");
    }

    pub async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Response<Body> {
        let body = body.map_or(Body::empty(), |body| Body::from(body.to_string()));
        let request = Request::builder().method(method).uri(path);
        self.send(request.body(body).unwrap()).await
    }

    async fn send(&self, request: Request<Body>) -> Response<Body> {
        self.frontend.service().oneshot(request).await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Value {
        let response = self.call("GET", path, None).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        serde_json::from_slice(&bytes(response).await).unwrap()
    }

    pub fn chat(&self, messages: &[Value]) -> Chat<'_> {
        let body = json!({ "model": self.model, "messages": messages });
        let request = Request::post("/v1/chat/completions");
        Chat {
            cluster: self,
            request,
            body,
        }
    }
}

pub async fn bytes(response: Response<Body>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

fn articles(preprocessor: &Preprocessor) -> Arc<AnswerBank> {
    let encode = |text: &str| preprocessor.encode_plain(text).unwrap();
    let articles = corpus::articles().iter().map(|article| {
        article
            .paragraphs
            .iter()
            .map(|paragraph| encode(&format!("{paragraph}\n\n")))
            .collect()
    });
    Arc::new(AnswerBank::new(
        (0..1000)
            .map(|number| encode(&format!("[simulated] #{number:03}\n\n")))
            .collect(),
        articles.collect(),
    ))
}

pub fn user(content: &str) -> Value {
    json!({ "role": "user", "content": content })
}

pub fn assistant(content: &str) -> Value {
    json!({ "role": "assistant", "content": content })
}

/// A chat request under construction.
#[derive(Debug)]
pub struct Chat<'a> {
    cluster: &'a Cluster,
    request: http::request::Builder,
    body: Value,
}

/// A streamed answer, measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub text: String,
    pub usage: Usage,
    pub worker: String,
    pub began: Moment,
    pub first_token: Duration,
    pub total: Duration,
    pub finish: String,
    /// Events that carried text.
    pub events: usize,
}

impl<'a> Chat<'a> {
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.body[field] = value.into();
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    pub async fn send(self) -> Response<Body> {
        let body = Body::from(self.body.to_string());
        self.cluster.send(self.request.body(body).unwrap()).await
    }

    /// Streams the answer to its end.
    pub async fn answer(self) -> Answer {
        let cluster = self.cluster;
        let began = cluster.clock.now();
        let response = self
            .with("stream", true)
            .with("stream_options", json!({ "include_usage": true }))
            .send()
            .await;
        assert_eq!(response.status(), StatusCode::OK);
        let worker = response.headers()["x-homing-worker"]
            .to_str()
            .unwrap()
            .to_owned();
        let mut body = response.into_body();
        let mut parser = EventParser::default();
        let mut first_token = None;
        while let Some(frame) = body.frame().await {
            parser.feed(&frame.unwrap().into_data().unwrap());
            if !parser.text.is_empty() {
                first_token.get_or_insert(cluster.clock.now() - began);
            }
        }
        assert!(parser.done, "the stream ended without [DONE]");
        Answer {
            text: parser.text,
            usage: parser.usage.expect("usage was asked for"),
            worker,
            began,
            first_token: first_token.unwrap_or_default(),
            total: cluster.clock.now() - began,
            finish: parser.finish,
            events: parser.events,
        }
    }
}

/// Understands our own events; each frame holds whole ones.
#[derive(Debug, Default)]
pub struct EventParser {
    pub text: String,
    pub usage: Option<Usage>,
    pub finish: String,
    pub events: usize,
    pub done: bool,
}

impl EventParser {
    pub fn feed(&mut self, frame: &[u8]) {
        let frame = std::str::from_utf8(frame).expect("frames hold whole characters");
        for event in frame.split_terminator("\n\n") {
            let event = event.strip_prefix("data: ").expect("every event is data");
            assert!(!self.done, "nothing follows [DONE]");
            if event == "[DONE]" {
                self.done = true;
                continue;
            }
            let chunk: ChatCompletionChunk = serde_json::from_str(event).expect("valid JSON");
            for choice in chunk.choices {
                if let Some(content) = choice.delta.content {
                    self.text.push_str(&content);
                    self.events += 1;
                }
                if let Some(finish) = choice.finish_reason {
                    finish.as_str().clone_into(&mut self.finish);
                }
            }
            self.usage = chunk.usage.or(self.usage);
        }
    }
}
