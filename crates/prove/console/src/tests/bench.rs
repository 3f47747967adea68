//! A console before a system of three invented workers and a server that answers in 300 ms,
//! all in memory, so that on a paused clock only they let time pass.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse as _;
use axum::routing::post;
use contract::{
    Abilities, Access, BlockFormat, Clock, GpuSpec, ModelName, WorkerCard, WorkerId, WorkerStatus,
};
use futures_util::future::BoxFuture;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use http_client::{HttpClient, HttpOptions, Pipe};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use loadgen::client::{Client, Patience, Target};
use loadgen::{LiveConfig, LiveParts, LoadGenerator, Readiness, Settings, Starter};
use parking_lot::Mutex;
use router::RouterChange;
use serde_json::{Value, json};
use telemetry::Registry;
use tokio::io::DuplexStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::{
    Assets, BaselineBoard, Console, ConsoleConfig, Dashboard, GpuSource, LatestDecision, Load,
    ModelState, Prometheus, Refusal, RequestCounts, RouterState, Slos, System, SystemView,
    WorkerState,
};

pub(crate) const TOKEN: &str = "secret";

pub(crate) const DASHBOARD: &str = r#"{ "uid": "one", "title": "One", "panels": [{ "id": 7 }] }"#;

pub(crate) struct Bench {
    pub(crate) console: Console,
    pub(crate) load: Option<LoadGenerator>,
    pub(crate) closing: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl Bench {
    pub(crate) fn open() -> Self {
        Self::new(Access::Open, true)
    }

    /// With a Prometheus and a dashboard, and without load.
    pub(crate) fn before(prometheus: impl FnOnce(&TaskTracker) -> Prometheus) -> Self {
        let tasks = TaskTracker::new();
        let prometheus = prometheus(&tasks);
        Self::with(tasks, Load::None, |config| {
            config.prometheus = Some(prometheus);
            config.dashboards = vec![Dashboard::parse(DASHBOARD).unwrap()];
        })
    }

    pub(crate) fn new(access: Access, with_load: bool) -> Self {
        let tasks = TaskTracker::new();
        let load = match with_load {
            true => Load::Here(load_generator(&tasks)),
            false => Load::None,
        };
        Self::with(tasks, load, |config| config.access = access)
    }

    /// Before an API whose clients have keys.
    pub(crate) fn with_keys() -> Self {
        Self::with(TaskTracker::new(), Load::None, |config| {
            config.access = Access::Token(TOKEN.to_owned());
            config.private_decisions = true;
        })
    }

    /// With a load generator that is not in this process.
    pub(crate) fn with_load(load: Load) -> Self {
        Self::with(TaskTracker::new(), load, |_| ())
    }

    fn with(tasks: TaskTracker, load: Load, change: impl FnOnce(&mut ConsoleConfig)) -> Self {
        let closing = CancellationToken::new();
        let mut config = ConsoleConfig {
            title: "A title".to_owned(),
            subtitle: "And more".to_owned(),
            slos: Slos::default(),
            access: Access::Open,
            private_decisions: false,
            assets: Assets::default(),
            status_page: "http://api/".to_owned(),
            baseline: BaselineBoard::default(),
            dashboards: Vec::new(),
            prometheus: None,
            grafana_url: None,
            parts: Vec::new(),
            unix_ms: 1_000_000,
        };
        change(&mut config);
        let system = Box::new(Invented::default());
        let console = Console::new(config, system, load.clone(), closing.clone());
        let load = match load {
            Load::Here(load) => Some(load),
            Load::Elsewhere(_) | Load::None => None,
        };
        Self {
            console,
            load,
            closing,
            tasks,
        }
    }

    /// Calls a path, with a body and a token where there are some.
    pub(crate) async fn call(
        &self,
        call: &str,
        body: Option<Value>,
        token: Option<&str>,
    ) -> (StatusCode, Value) {
        let (method, path) = call.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let body = body.map_or(Body::empty(), |body| Body::from(body.to_string()));
        let answer = self.console.service().oneshot(request.body(body).unwrap());
        let answer = answer.await.unwrap();
        let status = answer.status();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    /// A call that must go well.
    pub(crate) async fn ok(&self, call: &str, body: Option<Value>) -> Value {
        let (status, answer) = self.call(call, body, None).await;
        assert_eq!(status, StatusCode::OK, "{call}: {answer}");
        answer
    }

    /// A pipe to the console that holds no more than `bytes`.
    pub(super) fn connect(&self, bytes: usize) -> DuplexStream {
        let (near, far) = tokio::io::duplex(bytes);
        serve(far, self.console.service(), &self.tasks);
        near
    }
}

/// One HTTP/1.1 connection.
fn serve(pipe: DuplexStream, routes: axum::Router, tasks: &TaskTracker) {
    let service = TowerToHyperService::new(routes);
    tasks.spawn(async move {
        let served = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(pipe), service)
            .with_upgrades();
        // A client that hangs up is an error of the connection, not of the test.
        let _ = served.await;
    });
}

/// Connections to a server that is in memory only.
pub(crate) fn transport(routes: axum::Router, tasks: &TaskTracker) -> HttpClient {
    let work = tasks.clone();
    let connector = tower::service_fn(move |_| {
        let (near, far) = tokio::io::duplex(1 << 16);
        serve(far, routes.clone(), &work);
        std::future::ready(Ok::<_, io::Error>(Pipe::new(near)))
    });
    HttpClient::over(connector, HttpOptions::default())
}

fn load_generator(tasks: &TaskTracker) -> LoadGenerator {
    let clock = Clock::start();
    let routes = axum::Router::new().route("/v1/chat/completions", post(answer));
    let transport = transport(routes, tasks);
    let target = Target::new("http://mock", "m").unwrap();
    let config = LiveConfig {
        settings: Settings {
            concurrency: 4,
            starts_per_second: 0.0,
            turns: 3..=3,
            ..Settings::default()
        },
        seed: 7,
        sampling_seeds: false,
        warmup: Duration::ZERO,
        unix_ms: 1_000_000,
    };
    let parts = LiveParts {
        client: Client::new(transport, target, Patience::default(), clock),
        starters: vec![Starter::new("Tides", "The moon pulls.")],
        user_model: None,
        registry: Registry::new(),
        clock,
        records: None,
        ready: Readiness::assumed(),
    };
    LoadGenerator::spawn(config, parts, tasks).unwrap()
}

async fn answer() -> axum::response::Response {
    tokio::time::sleep(Duration::from_millis(300)).await;
    let event = json!({
        "choices": [{ "index": 0, "delta": { "content": "Twice a day." }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 40, "completion_tokens": 4, "total_tokens": 44,
                   "prompt_tokens_details": { "cached_tokens": 10 } },
        "nvext": { "worker_id": { "decode_worker_id": 1 } },
    });
    let body = format!("data: {event}\n\ndata: [DONE]\n\n");
    ([("content-type", "text/event-stream")], body).into_response()
}

/// A system that does nothing but remember its mode.
#[derive(Debug, Default)]
struct Invented {
    mode: Mutex<Option<String>>,
}

impl Invented {
    fn router(&self) -> RouterState {
        RouterState {
            mode: self.mode.lock().clone().unwrap_or_else(|| "kv".to_owned()),
            modes: vec!["kv".to_owned(), "random".to_owned()],
            overlap_score_weight: None,
            router_temperature: None,
        }
    }
}

impl System for Invented {
    fn view(&self) -> SystemView {
        let workers = (0..3).map(|id| {
            let status = WorkerStatus {
                running: 2,
                prompt_tokens: 200 * id,
                cached_tokens: 50 * id,
                utilization: 0.5,
                gpu_memory_used_bytes: 40,
                ..WorkerStatus::default()
            };
            WorkerState::new(&card(id), &status)
        });
        SystemView {
            model: "m".to_owned(),
            models: vec![ModelState {
                name: "m".to_owned(),
                mode: self.router().mode,
                workers: 3,
            }],
            simulated: true,
            router: self.router(),
            requests: RequestCounts {
                in_flight: Some(6),
                queued: Some(0),
            },
            workers: workers.collect(),
            profiles: Vec::new(),
            block_size: 32,
            last_decision: Some(LatestDecision::Elsewhere(json!({ "number": 1 }))),
            gpu: GpuSource::Process,
        }
    }

    fn change_router<'a>(
        &'a self,
        _model: Option<&'a str>,
        change: RouterChange,
    ) -> BoxFuture<'a, Result<RouterState, Refusal>> {
        let mode = change.mode.unwrap_or_default();
        let changed = match self.router().modes.contains(&mode) {
            true => {
                *self.mode.lock() = Some(mode);
                Ok(self.router())
            }
            false => Err(Refusal {
                message: format!("unknown router mode `{mode}`"),
                field: Some("mode".to_owned()),
            }),
        };
        Box::pin(std::future::ready(changed))
    }
}

fn card(id: u64) -> Arc<WorkerCard> {
    Arc::new(WorkerCard {
        id: WorkerId(id),
        name: format!("worker-{id}"),
        model: ModelName::new("m"),
        blocks: BlockFormat {
            size: 32,
            hashing: contract::Hashing::default(),
        },
        total_blocks: 1000,
        slots: 64,
        max_step_tokens: 8192,
        max_context_tokens: 32_768,
        gpu: GpuSpec {
            kind: "GPU".to_owned(),
            count: 1,
            memory_bytes: 100,
        },
        engine: "invented".to_owned(),
        simulated: true,
        abilities: Abilities::default(),
        speculation: "none".to_owned(),
        adapters: Vec::new(),
        forwards: Vec::new(),
    })
}
