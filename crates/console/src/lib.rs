//! The web console's server side: what a page shows once a second, and what its buttons do.
//!
//! The console looks at two things: a load generator, which it owns a handle of, and the
//! serving system, which it knows only as a [`System`]. So it can stand before any system
//! that can say who its workers are.
//!
//! | path | what it does |
//! |---|---|
//! | `GET /` | the pages, where they were built ([`assets`]) |
//! | `GET /api/state` | everything a page shows, at this moment ([`State`]) |
//! | `GET /api/stream` | the same over a WebSocket: at once, then every second |
//! | `GET /api/conversations` | conversations of late; `limit`, `status`, `sort` |
//! | `GET /api/conversations/{id}` | one of them with all that was said |
//! | `POST /api/load/{start,pause,resume,drain,stop}` | drives the load generator |
//! | `PATCH /api/load/settings` | changes some of its settings |
//! | `PUT /api/router` | changes how workers are chosen |
//!
//! Looking is free; whoever changes something needs the [`Access`] of the process. Errors are
//! the same objects as the API's.
//!
//! | module | what it does |
//! |---|---|
//! | [`assets`] | the pages |
//! | [`state`] | the types that a page reads |
//! | [`system`] | what the console asks of the serving system |
//! | [`conversations`], [`settings`] | choosing from the log; changing settings by name |
//! | [`service`], [`stream`] | HTTP and WebSocket |
//! | [`error`] | what a page reads when something went wrong |

mod assets;
mod conversations;
mod error;
mod service;
mod settings;
mod state;
mod stream;
mod system;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use contract::Access;
use loadgen::LoadGenerator;
use loadgen::snapshot::Snapshot;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use crate::assets::{Asset, Assets};
pub use crate::conversations::{ConversationList, Sort};
pub use crate::state::{
    CacheState, Control, RequestCounts, RouterState, Slos, State, SystemView, WorkerState,
};
pub use crate::system::{Refusal, System};

/// Pages that may be open at once. Each costs a little work every second.
const MOST_STREAMS: usize = 256;

/// What stays the same while a console runs.
#[derive(Clone, Debug)]
pub struct ConsoleConfig {
    pub title: String,
    pub subtitle: String,
    pub slos: Slos,
    pub access: Access,
    pub assets: Assets,
    /// Where to look at the system if there are no pages.
    pub status_page: String,
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
    load: Option<LoadGenerator>,
    streams: Arc<Semaphore>,
    /// Ends streams, which would otherwise go on for ever.
    closing: CancellationToken,
}

impl Console {
    /// Without a load generator there is nothing to start, and the rest works. Streams end
    /// when `closing` fires.
    pub fn new(
        config: ConsoleConfig,
        system: Box<dyn System>,
        load: Option<LoadGenerator>,
        closing: CancellationToken,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                config,
                system,
                load,
                streams: Arc::new(Semaphore::new(MOST_STREAMS)),
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
        State {
            version: env!("CARGO_PKG_VERSION"),
            title: config.title.clone(),
            subtitle: config.subtitle.clone(),
            control: Control {
                token_required: config.access.needs_token(),
                granted,
            },
            slos: config.slos,
            system: system.view(),
            load,
        }
    }
}
