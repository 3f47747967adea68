//! A frontend with a router over stand-ins, or their links alone.

use std::sync::Arc;
use std::time::Duration;

use adapters::{
    EngineSettings, EngineSpec, Engines, SharedEstimates, StartError, Timing, Tokenize,
};
use axum::body::Body;
use axum::http::response::Parts;
use axum::http::{Request, StatusCode};
use contract::{
    BlockFormat, Clock, FrontendId, GenerateRequest, HashSeed, LinkError, ModelName, OutputLimits,
    RequestId, Sampling, TokenChunk,
};
use frontend::UnknownFields;
use frontend::{Access, FaultLimits, Frontend, FrontendConfig, ModelParts};
use http_body_util::BodyExt as _;
use preprocess::{PreprocessConfig, Preprocessor};
use request_trace::Recorder;
use router::{Router, RouterConfig};
use serde_json::{Value, json};
use spans::Tracer;
use tasks::Tasks;
use telemetry::Registry;
use tokio_util::sync::DropGuard;
use tower::ServiceExt as _;
use transport::{Change, Changes, Member, Roster, WorkerLink, roster};

pub(crate) const BLOCK: u32 = 32;

fn preprocessor() -> Preprocessor {
    Preprocessor::embedded(PreprocessConfig::default())
}

fn settings(clock: Clock) -> EngineSettings {
    let preprocessor = preprocessor();
    EngineSettings {
        model: ModelName::new("served"),
        blocks: BlockFormat::new(BLOCK),
        max_context_tokens: 8192,
        clock,
        tokenize: Tokenize::new(move |text| preprocessor.encode_plain(text).unwrap_or_default()),
        sample_prompt: None,
        api_key: None,
        timing: Timing {
            check_interval: Duration::from_millis(20),
            response_timeout: Duration::from_secs(1),
            lost_after: Duration::from_millis(100),
            silent_after: Duration::from_secs(10),
            retry_interval: Duration::from_millis(20),
        },
        shared: None,
    }
}

/// Engines without a frontend: what joins is taken by hand.
pub(crate) struct Bench {
    pub(crate) registry: Registry,
    pub(crate) changes: Changes,
    _stop: DropGuard,
}

impl Bench {
    pub(crate) fn start(specs: &[String]) -> Self {
        Self::try_start(specs).unwrap()
    }

    pub(crate) fn try_start(specs: &[String]) -> Result<Self, StartError> {
        Self::with(specs, &settings(Clock::start()))
    }

    /// One of several frontends' that tell each other what was processed.
    pub(crate) fn sharing(specs: &[String], shared: &SharedEstimates) -> Self {
        let settings = EngineSettings {
            shared: Some(shared.clone()),
            ..settings(Clock::start())
        };
        Self::with(specs, &settings).unwrap()
    }

    fn with(specs: &[String], settings: &EngineSettings) -> Result<Self, StartError> {
        let (roster, changes) = roster();
        let registry = Registry::new();
        let tasks = Tasks::new();
        keep(specs, settings, &roster, &registry, &tasks)?;
        Ok(Self {
            registry,
            changes,
            _stop: tasks.stop.drop_guard(),
        })
    }

    pub(crate) async fn joined(&mut self) -> Member {
        let wait = tokio::time::timeout(Duration::from_secs(20), self.changes.next());
        match wait.await.expect("nobody joined").unwrap() {
            Change::Joined(member) => *member,
            Change::Draining(_) | Change::Left(_) => panic!("somebody left"),
        }
    }

    /// The value of a counter with these labels in its line.
    pub(crate) fn counted(&self, metric: &str, labels: &[&str]) -> f64 {
        let text = self.registry.render(Duration::ZERO);
        let line = text.lines().find(|line| {
            line.starts_with(metric) && labels.iter().all(|label| line.contains(label))
        });
        line.map_or(0.0, |line| {
            line.rsplit_once(' ').unwrap().1.parse().unwrap()
        })
    }
}

fn keep(
    specs: &[String],
    settings: &EngineSettings,
    roster: &Roster,
    registry: &Registry,
    tasks: &Tasks,
) -> Result<(), StartError> {
    let specs: Vec<EngineSpec> = specs.iter().map(|spec| spec.parse().unwrap()).collect();
    let engines = Engines::start(specs, settings, roster, registry, tasks);
    engines.map(|_| ())
}

pub(crate) fn request(prompt: &[u32], max_tokens: u32) -> GenerateRequest {
    GenerateRequest {
        id: RequestId::new("test"),
        nonce: 0,
        trace: None,
        prompt: prompt.into(),
        answered: Arc::new([]),
        hash_seed: HashSeed::BASE,
        limits: OutputLimits {
            max_tokens,
            min_tokens: 0,
            ignore_eos: false,
            eos_tokens: Arc::new([2]),
        },
        sampling: Sampling::default(),
        logprobs: None,
        grammar: None,
    }
}

/// All chunks of an answer, or the error that ended it and what came before.
pub(crate) async fn run(
    link: &dyn WorkerLink,
    request: GenerateRequest,
) -> Result<Vec<TokenChunk>, (Vec<TokenChunk>, LinkError)> {
    let mut chunks = Vec::new();
    let mut stream = link
        .generate(request)
        .await
        .map_err(|error| (Vec::new(), error))?;
    while let Some(chunk) = stream.next().await {
        match chunk {
            Ok(chunk) => chunks.push(chunk),
            Err(error) => return Err((chunks, error)),
        }
    }
    Ok(chunks)
}

/// Waits on a level, with a deadline.
pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..12_000 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("waited in vain until {what}");
}

/// A whole frontend over engines.
pub(crate) struct Service {
    pub(crate) router: Router,
    frontend: Frontend,
    _stop: DropGuard,
}

impl Service {
    pub(crate) async fn start(specs: &[String]) -> Self {
        Self::start_traced(specs, Tracer::off()).await
    }

    pub(crate) async fn start_traced(specs: &[String], tracer: Tracer) -> Self {
        Self::routed(specs, tracer, "kv").await
    }

    /// Routes by blocks alone, and not by how long answers take on the machine of the test.
    pub(crate) async fn by_blocks(specs: &[String]) -> Self {
        Self::routed(specs, Tracer::off(), "kv-blocks").await
    }

    async fn routed(specs: &[String], tracer: Tracer, mode: &str) -> Self {
        let clock = Clock::start();
        let registry = Registry::new();
        let config = RouterConfig {
            mode: mode.parse().unwrap(),
            seed: 1,
            blocks: BlockFormat::new(BLOCK),
            queue_limit: 100,
            decisions_kept: 100,
        };
        let router = Router::new(config, &registry, clock);
        let parts = frontend::Parts {
            registry: registry.clone(),
            clock,
            id: FrontendId(0),
            fleet_commands: None,
            shares_engines: false,
            tracer,
            recorder: Recorder::off(),
        };
        let config = FrontendConfig {
            max_requests: 100,
            max_body_bytes: 1 << 20,
            max_buffered_bytes: 64 << 20,
            max_queue_wait: None,
            trust_priority: false,
            unknown_fields: UnknownFields::Refuse,
            normalize_agents: true,
            stored_responses: frontend::StoreLimits {
                entries: 100,
                bytes: 1 << 20,
            },
            access: Access::Open,
            api_keys: None,
            faults: FaultLimits::default(),
            slow_reader_timeout: Duration::from_secs(30),
            forward: frontend::ForwardPolicy::default(),
        };
        let (roster, changes) = roster();
        let tasks = Tasks::new();
        let frontend = Frontend::new(config, parts);
        let model = ModelParts {
            name: ModelName::new("served"),
            preprocessor: preprocessor(),
            router: router.clone(),
            adapters: vec!["adapted".to_owned()],
            changes,
        };
        frontend.serve_model(model, &tasks);
        keep(specs, &settings(clock), &roster, &registry, &tasks).unwrap();
        let service = Self {
            router,
            frontend,
            _stop: tasks.stop.drop_guard(),
        };
        let count = specs.len();
        until("all engines have joined", async || {
            service.router.workers().len() == count
        })
        .await;
        service
    }

    pub(crate) async fn chat(&self, messages: &[Value], max_tokens: u32) -> Value {
        let body = json!({"model": "served", "messages": messages, "max_tokens": max_tokens});
        let (head, text) = self.post("/v1/chat/completions", &body).await;
        assert_eq!(head.status, StatusCode::OK, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// The whole answer to a request.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> (Parts, String) {
        self.post_with(path, &[], body).await
    }

    /// The same with these headers.
    pub(crate) async fn post_with(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> (Parts, String) {
        let mut request = Request::post(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_string()));
        let service = self.frontend.service();
        let response = service.oneshot(request.unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (head, String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// Blocks that the router believes to be on all engines together.
    pub(crate) fn indexed(&self) -> u64 {
        self.router
            .workers()
            .iter()
            .map(|view| view.indexed_blocks)
            .sum()
    }
}
