//! A server elsewhere that is known only through what it tells: the target of `homing loadgen`.
//!
//! A Homing tells all that its own console shows (`/workers`, `/router`, `/decisions`), a Dynamo
//! frontend and the servers of engines what is in their `/metrics`. Of Dynamo's workers the
//! Prometheus that scrapes them knows more.

mod dynamo;
mod homing;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::console::{
    CacheState, GpuFeed, GpuSource, ModelState, Refusal, RequestCounts, RouterState,
    SpeculationState, System, SystemView, WorkerState,
};
use adapters::drafts::DraftReport;
use adapters::figures::sum;
use adapters::{Recognised, recognise};
use anyhow::Context as _;
use bytes::Bytes;
use contract::{GpuSpec, SpeculationCounts, WorkerId};
use futures_util::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, StatusCode};
use http_client::HttpClient;
use loadgen::client::ServedModel;
use parking_lot::Mutex;
use router::RouterChange;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

const PACE: Duration = Duration::from_secs(1);

/// For all answers of one look.
const PATIENCE: Duration = Duration::from_secs(5);

const MOST_BYTES: usize = 8 << 20;

/// A block is the unit of a router; this is the specification's size, for one that does not say.
const BLOCK_SIZE: u32 = 32;

/// A metric that only a Homing has.
const OF_HOMING: &str = "homing_build_info";

/// Where it is, and what it is shown.
#[derive(Clone, Debug)]
pub(crate) struct TargetAddress {
    /// `http://host:port`, without the API's path.
    pub(crate) root: String,
    pub(crate) api_key: Option<String>,
    /// Changes its router.
    pub(crate) control_token: Option<String>,
    /// Has what Dynamo's workers count.
    pub(crate) prometheus: Option<String>,
}

/// A server elsewhere. Clones are one.
#[derive(Clone, Debug)]
pub(crate) struct TargetSystem {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    address: TargetAddress,
    transport: HttpClient,
    gpus: Option<GpuFeed>,
    model: String,
    simulated: bool,
    latest: Mutex<SystemView>,
}

impl TargetSystem {
    /// A server of `model`. Nothing else is known until it has been [polled](Self::poll).
    pub(crate) fn new(
        address: TargetAddress,
        transport: HttpClient,
        gpus: Option<GpuFeed>,
        served: &ServedModel,
    ) -> Self {
        let (model, simulated) = (&served.name, served.simulated);
        let inner = Inner {
            address,
            transport,
            gpus,
            model: model.clone(),
            simulated,
            latest: Mutex::new(unknown(model, simulated)),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Looks at once, then every second, until `closing` fires.
    pub(crate) async fn poll(self, closing: CancellationToken) {
        let mut ticks = interval(PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let polling = async {
            loop {
                ticks.tick().await;
                let inner = &self.inner;
                let view = timeout(PATIENCE, inner.look()).await;
                // What was known of one that is silent is known no more.
                let view = view.unwrap_or_else(|_| unknown(&inner.model, inner.simulated));
                *inner.latest.lock() = view;
            }
        };
        closing.run_until_cancelled(polling).await;
    }
}

/// What is shown of a server that tells nothing.
fn unknown(model: &str, simulated: bool) -> SystemView {
    SystemView {
        model: model.to_owned(),
        models: vec![ModelState {
            name: model.to_owned(),
            mode: "unknown".to_owned(),
            workers: 0,
        }],
        simulated,
        block_size: BLOCK_SIZE,
        router: RouterState::unknown(),
        requests: RequestCounts {
            in_flight: None,
            queued: None,
        },
        workers: Vec::new(),
        profiles: Vec::new(),
        last_decision: None,
        gpu: GpuSource::Process,
    }
}

/// Why the target says nothing usable.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error("{path}: {problem}")]
    Unreachable { path: String, problem: String },
    #[error("{path}: status {status}")]
    Status { path: String, status: StatusCode },
}

impl Inner {
    async fn look(&self) -> SystemView {
        let metrics = self.get("/metrics").await;
        let metrics = metrics.as_deref().map(String::from_utf8_lossy);
        let metrics = metrics.unwrap_or_default();
        let homing = match metrics.contains(OF_HOMING) {
            true => self.look_at_homing().await,
            // Others log what they are asked and do not know.
            false => None,
        };
        let mut view = match homing {
            Some(view) => view,
            None => match recognise(&metrics) {
                Some(engine) => self.of_engine(&engine),
                None => self.look_at_dynamo().await,
            },
        };
        let count = |name| sum(&metrics, name).map(|value| value.max(0.0) as u64);
        let requests = &mut view.requests;
        requests.in_flight = requests
            .in_flight
            .or(count("dynamo_frontend_inflight_requests"));
        requests.queued = requests.queued.or(count("dynamo_frontend_queued_requests"));
        view
    }

    /// One server of an engine is one worker, and has no router.
    fn of_engine(&self, engine: &Recognised) -> SystemView {
        let load = &engine.load;
        let drafts = match &load.drafts {
            Some(DraftReport::Totals(counts)) => counts.clone(),
            // Of the latest steps alone, which are no totals.
            Some(DraftReport::Steps(_)) | None => SpeculationCounts::default(),
        };
        let blocks = engine.about.blocks.unwrap_or(0);
        let worker = WorkerState {
            running: load.running,
            waiting: load.waiting,
            in_flight: load.running + load.waiting,
            slots: engine.about.slots.unwrap_or(0),
            cache: CacheState {
                total_blocks: blocks,
                active_blocks: (f64::from(blocks) * load.usage.clamp(0.0, 1.0)) as u32,
                cached_blocks: 0,
                hit_pct: None,
            },
            speculation: SpeculationState::new(&drafts, Duration::ZERO),
            ..self.worker(0, "engine", engine.kind.as_str())
        };
        SystemView {
            requests: RequestCounts {
                in_flight: Some(u64::from(load.running + load.waiting)),
                queued: Some(u64::from(load.waiting)),
            },
            block_size: engine.about.block_size.unwrap_or(BLOCK_SIZE),
            workers: vec![worker],
            ..unknown(&self.model, self.simulated)
        }
    }

    /// One of which only the name is known.
    fn worker(&self, id: u64, name: &str, engine: &str) -> WorkerState {
        WorkerState {
            id: WorkerId(id),
            number: 0,
            name: name.to_owned(),
            engine: engine.to_owned(),
            model: Some(self.model.clone()),
            simulated: self.simulated,
            draining: false,
            gpu: GpuSpec {
                kind: String::new(),
                count: 1,
                memory_bytes: 0,
            },
            utilization: None,
            memory_used_bytes: None,
            unknown: Some(format!(
                "{engine} does not report its GPU; --prometheus-url names a Prometheus with the metrics of the \
                 DCGM exporter"
            )),
            in_flight: 0,
            running: 0,
            waiting: 0,
            slots: 0,
            drafter: "unknown".to_owned(),
            cache: CacheState {
                total_blocks: 0,
                active_blocks: 0,
                cached_blocks: 0,
                hit_pct: None,
            },
            speculation: SpeculationState::new(&SpeculationCounts::default(), Duration::ZERO),
        }
    }

    async fn get(&self, path: &str) -> Result<Bytes, AskError> {
        let key = self.address.api_key.as_deref();
        let request = Request::get(format!("{}{path}", self.address.root));
        let request = match key.and_then(http_client::bearer) {
            Some(key) => request.header(AUTHORIZATION, key),
            None => request,
        };
        self.answer(path, request, Bytes::new()).await
    }

    async fn answer(
        &self,
        path: &str,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<Bytes, AskError> {
        let answer = self.transport.exchange(request, body, MOST_BYTES).await;
        let path = path.to_owned();
        match answer {
            Ok((StatusCode::OK, body)) => Ok(body),
            Ok((status, _)) => Err(AskError::Status { path, status }),
            Err(error) => Err(AskError::Unreachable {
                path,
                problem: error.to_string(),
            }),
        }
    }
}

impl System for TargetSystem {
    fn view(&self) -> SystemView {
        let mut view = self.inner.latest.lock().clone();
        if let Some(feed) = &self.inner.gpus {
            view.gpu = feed.show(&mut view.workers);
        }
        view
    }

    fn change_router<'a>(
        &'a self,
        model: Option<&'a str>,
        change: RouterChange,
    ) -> BoxFuture<'a, Result<RouterState, Refusal>> {
        Box::pin(async move {
            let changed = self.inner.put_router(model, &change).await;
            changed.map_err(|error| Refusal {
                message: format!("the target's router was not changed: {error:#}"),
                field: None,
            })
        })
    }
}

impl Inner {
    async fn put_router(
        &self,
        model: Option<&str>,
        change: &RouterChange,
    ) -> anyhow::Result<RouterState> {
        let path = homing::router_path(model);
        let request = Request::put(format!("{}{path}", self.address.root));
        let token = self.address.control_token.as_deref();
        let request = match token.and_then(http_client::bearer) {
            Some(token) => request.header(AUTHORIZATION, token),
            None => request,
        };
        let request = request.header("content-type", HeaderValue::from_static("application/json"));
        let body = serde_json::to_vec(change)?;
        let exchange = self.transport.exchange(request, body.into(), MOST_BYTES);
        let (status, body) = timeout(PATIENCE, exchange).await.context("no answer")??;
        match status {
            StatusCode::OK => Ok(serde_json::from_slice(&body)?),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => anyhow::bail!(
                "it asks for its control token (--target-token-env names the variable that holds it)"
            ),
            status => anyhow::bail!("{}", homing::refusal(status, &body)),
        }
    }
}

impl fmt::Display for TargetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root)
    }
}
