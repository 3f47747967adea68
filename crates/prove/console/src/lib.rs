//! The web console's server side: what a page shows once per second, and what its buttons do.
//!
//! The console looks at two things: a load generator, which it owns a handle of or knows through
//! its API ([`Load`]), and the serving system, which it knows only as a [`System`]. So it can stand before any system
//! that can say who its workers are.
//!
//! | path | what it does |
//! |---|---|
//! | `GET /` | the pages, where they were built ([`assets`]) |
//! | `GET /api/state` | everything a page shows, at this moment ([`State`]) |
//! | `GET /api/stream` | the same over a WebSocket: at once, then every second |
//! | `GET /api/history` | the last quarter of an hour, a point per second ([`History`]) |
//! | `GET /api/baseline` | what load levels do to such workers, computed or read before |
//! | `GET /api/conversations` | recent conversations; `limit`, `status`, `sort` |
//! | `GET /api/conversations/{id}` | one of them with its whole text |
//! | `GET /api/dashboards` | the dashboards that were handed over, by `uid` |
//! | `GET /api/dashboards/{uid}` | one of them, as it is ([`dashboards`]) |
//! | `GET /api/prometheus/{query,query_range}` | a query, forwarded to Prometheus ([`prometheus`]) |
//! | `POST /api/load/{start,pause,resume,drain,stop}` | drives the load generator |
//! | `PATCH /api/load/settings` | changes some of its settings |
//! | `PUT /api/router` | changes how workers are chosen |
//!
//! Reading is free; changes require the [`Access`] of the process. Errors are the same objects
//! as the API's. A browser sends no header with a WebSocket, so there a page
//! hands its token over as a subprotocol: it offers `homing` and `token.TOKEN`, percent-encoded
//! where the token has other characters than a subprotocol may, and is answered `homing`. The
//! stream is the same without; the token only decides what the state says under `control`.
//!
//! | module | what it does |
//! |---|---|
//! | [`assets`] | the pages |
//! | [`state`], [`history`], [`baseline`] | the types that a page reads |
//! | [`gpu`] | how busy GPUs are, by what Prometheus says |
//! | [`dashboards`], [`prometheus`] | Grafana's dashboards, and the answers to their queries |
//! | [`system`] | what the console asks of the serving system |
//! | [`load`] | where the load comes from |
//! | [`parts`] | what a deployment consists of |
//! | [`conversations`], [`settings`] | choosing from the log; changing settings by name |
//! | [`service`], [`stream`] | HTTP and WebSocket |
//! | [`error`] | what a page reads when something went wrong |

mod assets;
mod baseline;
mod conversations;
mod dashboards;
mod error;
mod gpu;
mod history;
mod load;
mod parts;
mod prometheus;
mod service;
mod settings;
mod state;
mod stream;
mod system;
#[cfg(test)]
mod typescript;
mod worker_numbers;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use contract::{Access, Clock, Moment};
use loadgen::snapshot::Snapshot;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use crate::assets::{Asset, Assets};
pub use crate::baseline::{BaselineBoard, BaselineStatus};
pub use crate::conversations::{ConversationList, Sort};
pub use crate::dashboards::{Dashboard, DashboardList, DashboardName};
pub use crate::gpu::GpuFeed;
pub use crate::history::{History, HistoryPoint, WorkerInFlight};
pub use crate::load::{Load, LoadElsewhere};
pub use crate::parts::{Part, PartError, PartKind};
pub use crate::prometheus::{AddressError, Prometheus, Series, SeriesError, parse_series};
pub use crate::state::{
    CacheState, Control, GpuSource, LatestDecision, LoadPlace, ModelState, RequestCounts,
    RouterState, Slos, SpeculationState, State, SystemView, WorkerState,
};
pub use crate::system::{Refusal, System};
use crate::worker_numbers::WorkerNumbers;

/// Pages that may be open at once. Each costs a little work every second.
const MOST_STREAMS: usize = 256;

/// What stays the same while a console runs.
#[derive(Clone, Debug)]
pub struct ConsoleConfig {
    pub title: String,
    pub subtitle: String,
    pub slos: Slos,
    pub access: Access,
    /// Clients of the API have keys: only who may change something sees a decision, which tells about
    /// a client's request.
    pub private_decisions: bool,
    pub assets: Assets,
    /// Where to look at the system if there are no pages.
    pub status_page: String,
    /// Where the baseline will be.
    pub baseline: BaselineBoard,
    /// What the page of dashboards draws.
    pub dashboards: Vec<Dashboard>,
    /// What answers their queries, if anything does.
    pub prometheus: Option<Prometheus>,
    /// Where people find Grafana.
    pub grafana_url: Option<String>,
    /// What the deployment consists of, as far as somebody has said it.
    pub parts: Vec<Part>,
    /// The current time in Unix milliseconds.
    pub unix_ms: u64,
}

/// A console without its listener. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Console {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: ConsoleConfig,
    system: Box<dyn System>,
    load: Load,
    streams: Arc<Semaphore>,
    history: Mutex<history::Ring>,
    numbers: Mutex<WorkerNumbers>,
    /// Shows zero when `config.unix_ms` was now.
    clock: Clock,
    /// Ends streams, which would otherwise run forever.
    closing: CancellationToken,
}

impl Console {
    /// Without a load generator there is nothing to start, and the rest works. Streams end when
    /// `closing` fires.
    pub fn new(
        config: ConsoleConfig,
        system: Box<dyn System>,
        load: Load,
        closing: CancellationToken,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                config,
                system,
                load,
                streams: Arc::new(Semaphore::new(MOST_STREAMS)),
                history: Mutex::default(),
                numbers: Mutex::default(),
                clock: Clock::start(),
                closing,
            }),
        }
    }

    /// The pages and all paths below `/api`. What else the listener serves is added as a
    /// fallback.
    pub fn service(&self) -> axum::Router {
        service::routes(self.clone())
    }

    /// What a page shows; `granted` says whether its viewer may change anything.
    fn state(&self, load: Option<Snapshot>, granted: bool) -> State {
        let Inner { config, system, .. } = &*self.inner;
        let place = self.inner.load.place();
        let mut system = system.view();
        let now = self.inner.clock.now();
        self.inner.numbers.lock().assign(&mut system.workers, now);
        if config.private_decisions && !granted {
            system.last_decision = None;
        }
        State {
            version: env!("CARGO_PKG_VERSION"),
            title: config.title.clone(),
            subtitle: config.subtitle.clone(),
            at_ms: self.unix_ms(),
            control: Control {
                token_required: config.access.needs_token(),
                granted,
            },
            slos: config.slos,
            system,
            baseline: config.baseline.status(),
            load,
            load_at: place,
            grafana_url: config.grafana_url.clone(),
            parts: config.parts.clone(),
        }
    }

    fn unix_ms(&self) -> u64 {
        let since = self.inner.clock.now().since(Moment::ZERO).as_millis();
        self.inner.config.unix_ms + u64::try_from(since).unwrap_or(0)
    }
}
