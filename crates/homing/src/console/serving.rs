//! The frontend of this process, as its console knows it.

use std::sync::Arc;

use ::console::{
    GpuFeed, GpuSource, LatestDecision, ModelState, Refusal, RequestCounts, RouterState, System,
    SystemView, WorkerState,
};
use frontend::{Frontend, ServedRouter};
use futures_util::future::{BoxFuture, ready};
use router::RouterChange;

/// The serving half of this process.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) frontend: Frontend,
    /// If Prometheus is asked about GPUs.
    pub(crate) gpus: Option<GpuFeed>,
    /// That workers of this process can be replaced with.
    pub(crate) profiles: Vec<String>,
}

impl System for Serving {
    fn view(&self) -> SystemView {
        let models = self.frontend.routers();
        let views: Vec<_> = models
            .iter()
            .map(|model| (model, model.router.workers()))
            .collect();
        let workers = views.iter().flat_map(|(_, workers)| workers);
        let simulated = workers.clone().any(|worker| worker.card.simulated);
        let mut shown: Vec<WorkerState> = workers.map(worker_state).collect();
        let gpu = match &self.gpus {
            Some(feed) => feed.show(&mut shown),
            None => GpuSource::Process,
        };
        let first = models.first();
        let queued = models.iter().map(|model| model.router.total_queued());
        // Numbers are each model's own; what is newest is said by the clock.
        let decisions = models
            .iter()
            .filter_map(|model| model.router.decisions(1).pop());
        let latest = decisions.max_by_key(|decision| decision.at);
        SystemView {
            model: first.map_or_else(String::new, |model| model.model.as_str().to_owned()),
            models: views
                .iter()
                .map(|(model, workers)| ModelState {
                    name: model.model.as_str().to_owned(),
                    mode: model.router.mode().name().to_string(),
                    workers: workers.len() as u32,
                })
                .collect(),
            simulated,
            router: first.map_or_else(RouterState::unknown, |model| {
                model.router.mode().state().into()
            }),
            requests: RequestCounts {
                in_flight: Some(self.frontend.in_flight() as u64),
                queued: Some(queued.sum()),
            },
            block_size: first.map_or(0, |model| model.router.blocks().size),
            last_decision: latest.map(LatestDecision::Here),
            gpu,
            workers: shown,
            profiles: self.profiles.clone(),
        }
    }

    fn change_router<'a>(
        &'a self,
        model: Option<&'a str>,
        change: RouterChange,
    ) -> BoxFuture<'a, Result<RouterState, Refusal>> {
        let mut models = self.frontend.routers();
        if let Some(name) = model {
            models.retain(|one| one.model.as_str() == name);
        }
        Box::pin(ready(apply(&models, &change)))
    }
}

/// Changes all of them, and says what is in force in the first.
fn apply(models: &[ServedRouter], change: &RouterChange) -> Result<RouterState, Refusal> {
    let mut first = None;
    for model in models {
        let state = change.apply(&model.router).map_err(|error| Refusal {
            message: error.to_string(),
            field: Some(error.field().to_owned()),
        })?;
        first.get_or_insert(state);
    }
    first.map(Into::into).ok_or_else(|| Refusal {
        message: "no such model is served".to_owned(),
        field: Some("model".to_owned()),
    })
}

fn worker_state(worker: &router::WorkerView) -> WorkerState {
    WorkerState {
        draining: worker.draining,
        in_flight: worker.in_flight,
        ..WorkerState::new(&Arc::clone(&worker.card), &worker.status)
    }
}
