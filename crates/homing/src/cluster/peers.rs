//! Divides engines with other frontends, if there are any.

use std::net::SocketAddr;
use std::sync::Arc;

use adapters::SharedEstimates;
use contract::{Clock, FrontendId, Processed};
use frontend::{Frontend, SharedEngine};
use remote::peers::sharing::{EngineKey, EngineLoad, Share};
use remote::peers::{PeersConfig, SharedEngines};
use tasks::Tasks;
use telemetry::Registry;
use tokio::net::TcpListener;
use tokio::sync::broadcast;

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

    /// Returns what its engines' caches are believed through, if there are others.
    pub(super) fn start(
        self,
        id: FrontendId,
        frontend: &Frontend,
        place: (Clock, &Registry),
        tasks: &Tasks,
    ) -> Option<SharedEstimates> {
        let Listening { plan, listener } = self.0?;
        let config = PeersConfig {
            id,
            names: plan.names,
            tls: plan.tls,
        };
        let estimates = SharedEstimates::default();
        let engines = Routers {
            frontend: frontend.clone(),
            estimates: estimates.clone(),
        };
        remote::peers::start(config, listener, Arc::new(engines), place, tasks);
        Some(estimates)
    }
}

/// The routers of a frontend, and what it believes of engines without events.
struct Routers {
    frontend: Frontend,
    estimates: SharedEstimates,
}

impl SharedEngines for Routers {
    fn loads(&self) -> Vec<EngineLoad> {
        let engines = self.frontend.shared_engines().into_iter();
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
        self.frontend
            .share(&model, worker, share.lease, &share.others);
    }

    fn processed(&self) -> broadcast::Receiver<Processed> {
        self.estimates.ours()
    }

    fn hear(&self, processed: &Processed) {
        self.estimates.hear(processed);
    }
}
