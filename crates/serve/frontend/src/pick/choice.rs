//! The choice itself: tokens, a place on a worker, and the endpoints that follow it.

use std::net::SocketAddr;
use std::sync::Arc;

use contract::{RequestId, WorkerId};
use http::Method;
use router::{Excluded, Handling, Placement, RouteError, RouteQuery, WhyNot};
use spans::RequestTrace;

use super::HeldBody;
use super::call::Call;
use super::passing::Passing;
use super::understand::{Understood, query};
use crate::App;
use crate::dispatch::{DispatchError, Urgency};
use crate::error::ApiError;
use crate::metrics::{Arrival, RequestRecord, Stage};
use crate::model::ServedModel;
use crate::traced;

/// One choice of an endpoint.
pub(super) struct Choice<'a> {
    pub(super) app: &'a Arc<App>,
    pub(super) fallbacks: usize,
    pub(super) call: &'a Call,
    pub(super) id: &'a RequestId,
    pub(super) urgency: Urgency,
    pub(super) trace: &'a RequestTrace,
}

impl Choice<'_> {
    /// Leaves in `arrival` whose request it is, and in `streaming` how it is to be answered.
    pub(super) async fn make(
        &self,
        body: &HeldBody,
        arrival: &mut Option<Arrival>,
        streaming: &mut bool,
    ) -> Result<Passing, ApiError> {
        let arrived = self.app.clock.now();
        let stage = self.trace.stage(traced::PREPARE);
        let understood = self.understand(body).await;
        drop(stage);
        let model = match &understood {
            Some(understood) => Arc::clone(&understood.model),
            None => self.app.models.first().ok_or_else(ApiError::no_models)?,
        };
        model
            .metrics
            .stage(Stage::Prepare, self.app.clock.now() - arrived);
        if let Some(arrival) = arrival {
            arrival.metrics = Some(Arc::clone(&model.metrics));
        }
        *streaming = understood.as_ref().is_some_and(|one| one.forward.stream);
        let (placement, endpoints) = match self.computes() {
            true => {
                let (placement, endpoints) = self.placed(&model, understood.as_ref()).await?;
                (Some(placement), endpoints)
            }
            // It takes no slot.
            false => {
                let endpoint = idlest(&model, &self.offered(&model));
                (None, vec![endpoint.ok_or_else(ApiError::none_offered)?])
            }
        };
        if let Some(understood) = &understood {
            traced::input(self.trace, || understood.prompt.len());
        }
        let endpoint = self.call.endpoint();
        let record = endpoint.map(|endpoint| {
            let trace = self.trace.clone();
            RequestRecord::begin(&model.metrics, endpoint, *streaming, arrived, trace)
        });
        Ok(Passing {
            trace: self.trace.clone(),
            model,
            id: self.id.clone(),
            understood,
            placement,
            endpoints,
            record,
            urgency: self.urgency,
            permit: None,
        })
    }

    async fn understand(&self, body: &HeldBody) -> Option<Understood> {
        let endpoint = self.call.endpoint()?;
        if body.bytes.is_empty() {
            return None;
        }
        let (app, bytes) = (Arc::clone(self.app), body.bytes.clone());
        let read = move || Understood::read(&app, endpoint, &bytes);
        // What could not be worked on is routed by load.
        self.app.intake.work(&body.claim, read).await.ok()?
    }

    /// Whether an engine has something to compute for it.
    fn computes(&self) -> bool {
        let idle = [Method::GET, Method::HEAD, Method::OPTIONS];
        !idle.contains(&self.call.method)
    }

    /// A place on a worker, and the endpoints, which begin with that worker's.
    async fn placed(
        &self,
        model: &ServedModel,
        understood: Option<&Understood>,
    ) -> Result<(Placement, Vec<SocketAddr>), ApiError> {
        loop {
            let offered = self.offered(model);
            let placement = self.place(model, understood, &offered).await?;
            // A worker that has come while the request waited may not be offered.
            let endpoints = self.endpoints(&placement, &self.offered(model));
            if !endpoints.is_empty() {
                return Ok((placement, endpoints));
            }
        }
    }

    /// The workers that the proxy can and may use.
    fn offered(&self, model: &ServedModel) -> Vec<(WorkerId, SocketAddr)> {
        let mut known = model.dispatch.fleet.addresses();
        known.retain(|(_, address)| self.call.offers(*address));
        known
    }

    async fn place(
        &self,
        model: &ServedModel,
        understood: Option<&Understood>,
        offered: &[(WorkerId, SocketAddr)],
    ) -> Result<Placement, ApiError> {
        if offered.is_empty() && self.call.subset.is_some() {
            return Err(ApiError::none_offered());
        }
        let offered: Vec<WorkerId> = offered.iter().map(|(worker, _)| *worker).collect();
        let excluded = excluded(model, understood, &offered);
        let clock = self.app.clock;
        let began = clock.now();
        let stage = self.trace.stage(traced::ROUTE);
        let query = RouteQuery {
            deadline: self.urgency.patience.map(|patience| began + patience),
            ..query(self.id, understood, &excluded, self.urgency)
        };
        let placement = model.dispatch.router.route(&query).await;
        let now = clock.now();
        model.metrics.stage(Stage::Route, now - began);
        traced::routed(stage, placement.as_ref(), began, now);
        let mut placement = placement.map_err(|error| match error {
            RouteError::NoWorker if self.call.subset.is_some() => ApiError::none_offered(),
            RouteError::NoWorker
            | RouteError::Saturated { .. }
            | RouteError::QueueTimeout { .. } => DispatchError::Route(error).into(),
        })?;
        placement.handled(&Handling {
            forwarded: Some("gateway".to_owned()),
            normalized: false,
        });
        Ok(placement)
    }

    /// The chosen one, then those that would have been next.
    fn endpoints(
        &self,
        placement: &Placement,
        offered: &[(WorkerId, SocketAddr)],
    ) -> Vec<SocketAddr> {
        let address = |worker: WorkerId| {
            let found = offered.iter().find(|(known, _)| *known == worker);
            found.map(|(_, address)| *address)
        };
        let Some(best) = address(placement.worker()) else {
            return Vec::new();
        };
        let mut order = Vec::new();
        if self.fallbacks > 0
            && let Some(decision) = placement.decision()
        {
            let mut others: Vec<_> = decision.candidates.iter().collect();
            others.sort_by(|a, b| {
                let cost = |one: &router::Candidate| one.cost.unwrap_or(f64::from(one.in_flight));
                cost(a).total_cmp(&cost(b))
            });
            order.extend(others.iter().map(|one| one.worker));
            // Those that are full would rather be late than not at all.
            let full = decision
                .excluded
                .iter()
                .filter(|one| one.why == WhyNot::Full);
            order.extend(full.map(|one| one.worker));
        }
        let mut endpoints = vec![best];
        for other in order.into_iter().filter_map(address) {
            if !endpoints.contains(&other) {
                endpoints.push(other);
            }
        }
        endpoints.truncate(1 + self.fallbacks);
        endpoints
    }
}

/// Where a request must not go.
fn excluded(
    model: &ServedModel,
    understood: Option<&Understood>,
    offered: &[WorkerId],
) -> Vec<Excluded> {
    let fleet = &model.dispatch.fleet;
    let members = model.dispatch.router.members();
    let absent = members.iter().filter(|worker| !offered.contains(worker));
    let mut excluded: Vec<Excluded> = absent
        .map(|worker| Excluded {
            worker: *worker,
            why: WhyNot::NotOffered,
        })
        .collect();
    let Some(understood) = understood else {
        return excluded;
    };
    let adapter = understood.forward.adapter.as_deref();
    let lacking = adapter.map(|name| fleet.without_adapter(name));
    let short = fleet.with_shorter_context(understood.prompt_tokens().saturating_add(1));
    let groups = [
        (lacking.unwrap_or_default(), WhyNot::NoAdapter),
        (short, WhyNot::ShortContext),
    ];
    for (group, why) in groups {
        // If nobody can, the engine says so better than we would.
        if offered.iter().all(|worker| group.contains(worker)) {
            continue;
        }
        excluded.extend(group.into_iter().map(|worker| Excluded { worker, why }));
    }
    excluded
}

/// The endpoint with the fewest requests.
fn idlest(model: &ServedModel, offered: &[(WorkerId, SocketAddr)]) -> Option<SocketAddr> {
    let workers = model.dispatch.router.workers();
    let sound = workers.iter().filter(|worker| !worker.draining);
    let known = sound.filter_map(|worker| {
        let found = offered.iter().find(|(known, _)| *known == worker.card.id)?;
        Some((worker.in_flight, found.1))
    });
    let (_, address) = known.min()?;
    Some(address)
}
