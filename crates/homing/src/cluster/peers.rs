//! Divides engines with other frontends, if there are any.

use std::net::SocketAddr;
use std::sync::Arc;

use contract::{Clock, FrontendId};
use frontend::{Frontend, SharedEngine};
use remote::peers::sharing::{EngineKey, EngineLoad, Share};
use remote::peers::{PeersConfig, SharedEngines};
use tasks::Tasks;
use telemetry::Registry;
use tokio::net::TcpListener;

use crate::plan::PeersPlan;

/// Listens for the others, before anything is served.
pub(super) struct Peers(Option<Listening>);

struct Listening {
    plan: PeersPlan,
    listener: Option<TcpListener>,
}

impl Peers {
    pub(super) async fn listen(plan: Option<PeersPlan>) -> anyhow::Result<Self> {
        let Some(plan) = plan else {
            return Ok(Self(None));
        };
        let listener = match plan.listen {
            Some(endpoint) => Some(endpoint.listen().await?),
            None => None,
        };
        Ok(Self(Some(Listening { plan, listener })))
    }

    /// Whether others may use the same engines.
    pub(super) fn may_be(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        let listener = self.0.as_ref()?.listener.as_ref()?;
        listener.local_addr().ok()
    }

    pub(super) fn start(
        self,
        id: FrontendId,
        frontend: &Frontend,
        place: (Clock, &Registry),
        tasks: &Tasks,
    ) {
        let Some(Listening { plan, listener }) = self.0 else {
            return;
        };
        let config = PeersConfig {
            id,
            names: plan.names,
            tls: plan.tls,
        };
        let engines = Arc::new(Routers(frontend.clone()));
        remote::peers::start(config, listener, engines, place, tasks);
    }
}

/// The routers of a frontend.
struct Routers(Frontend);

impl SharedEngines for Routers {
    fn loads(&self) -> Vec<EngineLoad> {
        let engines = self.0.shared_engines().into_iter();
        let loads = engines.map(|SharedEngine { model, engine }| EngineLoad {
            engine: EngineKey {
                model,
                worker: engine.worker,
            },
            slots: engine.slots,
            load: engine.load,
        });
        loads.collect()
    }

    fn apply(&self, share: Share) {
        let EngineKey { model, worker } = share.engine;
        self.0.share(&model, worker, share.lease, &share.others);
    }
}
