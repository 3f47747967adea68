//! Chooses the endpoint of a request that a proxy carries.
//!
//! A gateway such as Envoy keeps the connections of clients and engines, and asks only where each
//! request is to go. The request is admitted, read, made into tokens, routed, counted and explained
//! like one of our own; what is absent is the stream, which the proxy owns, so that an answer cannot
//! go on elsewhere once it has begun.
//!
//! ```text
//! open (admit) ──► add … (body) ──► pick: tokens → router ──► Pick: endpoints, best first
//!                                      proxy's answer: begins → read … → completes, or dropped
//! ```
//!
//! A body that cannot be read, or a path that nobody knows, is routed by load alone: whether it makes
//! sense is for the engine to say.

mod passing;
mod understand;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use contract::{RequestId, WorkerId};
use http::{HeaderMap, HeaderName, Method, header};
use router::{Excluded, Handling, Placement, RouteError, RouteQuery, WhyNot};
use tracing::debug;

use crate::App;
use crate::admission::Permit;
use crate::caller::{Caller, named};
use crate::dispatch::{DispatchError, Urgency};
use crate::error::{ApiError, Refused};
use crate::intake::{Arriving, Claim};
use crate::metrics::{Arrival, Endpoint, RequestRecord, Stage};
use crate::model::ServedModel;
use crate::respond::request_id;

use self::passing::Passing;
pub use self::passing::Pick;
use self::understand::Understood;

/// Under which gateways name who shares the endpoints fairly.
static FAIRNESS: [HeaderName; 2] = [
    HeaderName::from_static("x-llm-d-inference-fairness-id"),
    HeaderName::from_static("x-gateway-inference-fairness-id"),
];
/// Under which requests name the objective that has their priority.
static OBJECTIVE: [HeaderName; 2] = [
    HeaderName::from_static("x-llm-d-inference-objective"),
    HeaderName::from_static("x-gateway-inference-objective"),
];

/// How endpoints are picked.
#[derive(Clone, Debug, Default)]
pub struct PickConfig {
    /// Endpoints that are named after the best one, for proxies that try the next if one fails.
    pub fallbacks: usize,
    /// Priorities by the names of objectives.
    pub objectives: HashMap<String, i32>,
}

/// Picks endpoints for proxies. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Picker {
    app: Arc<App>,
    config: Arc<PickConfig>,
}

/// The head of a request.
#[derive(Debug)]
pub struct Call {
    pub method: Method,
    /// With or without a query.
    pub path: String,
    pub headers: HeaderMap,
    /// The endpoints that may be picked, if not all of them.
    pub subset: Option<Vec<Offered>>,
}

/// Endpoints that a proxy offers: one, or all of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    pub host: IpAddr,
    pub port: Option<u16>,
}

impl Offered {
    /// Reads `HOST:PORT` or `HOST`.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Some(Self {
                host: address.ip(),
                port: Some(address.port()),
            });
        }
        let host = text.parse().ok()?;
        Some(Self { host, port: None })
    }

    fn is(&self, address: SocketAddr) -> bool {
        self.host == address.ip() && self.port.is_none_or(|port| port == address.port())
    }
}

impl Call {
    fn endpoint(&self) -> Option<Endpoint> {
        let path = self.path.split('?').next().unwrap_or_default();
        Endpoint::of_path(path)
    }

    fn offers(&self, address: SocketAddr) -> bool {
        match &self.subset {
            None => true,
            Some(subset) => subset.iter().any(|offered| offered.is(address)),
        }
    }
}

/// A request that is coming in.
#[derive(Debug)]
pub struct Incoming {
    picker: Picker,
    call: Call,
    id: RequestId,
    urgency: Urgency,
    body: Arriving,
    permit: Permit,
    arrival: Option<Arrival>,
}

/// A request's body, to be handed to the endpoint. Counts among the bytes that are held until it is
/// dropped.
#[derive(Debug)]
pub struct HeldBody {
    pub bytes: Bytes,
    claim: Claim,
}

impl Picker {
    pub(crate) fn new(app: Arc<App>, config: PickConfig) -> Self {
        Self {
            app,
            config: Arc::new(config),
        }
    }

    /// The largest body that is taken in.
    pub fn max_body_bytes(&self) -> usize {
        self.app.intake.max_body_bytes()
    }

    /// Takes a request in.
    pub fn open(&self, call: Call) -> Result<Incoming, Refused> {
        let endpoint = call.endpoint();
        let first = self.app.models.first();
        let arrival = endpoint
            .map(|endpoint| Arrival::begin(first.map(|one| Arc::clone(&one.metrics)), endpoint));
        match self.admit(&call) {
            Ok((urgency, body, permit)) => Ok(Incoming {
                picker: self.clone(),
                id: request_id(&call.headers),
                call,
                urgency,
                body,
                permit,
                arrival,
            }),
            Err(error) => Err(refuse(error, arrival, endpoint)),
        }
    }

    fn admit(&self, call: &Call) -> Result<(Urgency, Arriving, Permit), ApiError> {
        let caller = Caller::of(&self.app, &call.headers)?;
        let mut urgency = caller.urgency;
        if let Some(fairness) = first_of(&call.headers, &FAIRNESS) {
            urgency.identity.tenant = named(fairness);
        }
        let objective = first_of(&call.headers, &OBJECTIVE)
            .and_then(|name| std::str::from_utf8(name).ok())
            .and_then(|name| self.config.objectives.get(name));
        urgency.priority = objective.copied().unwrap_or(urgency.priority);
        let permit = self.app.admission.admit()?;
        let announced = call.headers.get(header::CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
        Ok((urgency, self.app.intake.begin(announced)?, permit))
    }
}

impl Incoming {
    /// Takes in some more of the body.
    pub async fn add(&mut self, data: &[u8]) -> Result<(), Refused> {
        let added = self.picker.app.intake.add(&mut self.body, data).await;
        added.map_err(|error| refuse(error, self.arrival.take(), self.call.endpoint()))
    }

    /// Chooses, now that all of the body is there. Waits while every endpoint is full, in a mode that
    /// binds late; dropping the future then gives the turn up.
    pub async fn pick(self) -> Result<(Pick, HeldBody), Refused> {
        let Self {
            picker,
            call,
            id,
            urgency,
            body,
            permit,
            mut arrival,
        } = self;
        let endpoint = call.endpoint();
        let taken = body.taken();
        let held = HeldBody {
            bytes: taken.bytes,
            claim: taken.claim,
        };
        let choice = Choice {
            app: &picker.app,
            fallbacks: picker.config.fallbacks,
            call: &call,
            id: &id,
            urgency,
        };
        let mut streaming = false;
        let picked = choice.make(&held, &mut arrival, &mut streaming).await;
        match picked {
            Ok(mut passing) => {
                if let Some(arrival) = arrival {
                    arrival.admitted();
                }
                passing.permit = Some(permit);
                Ok((Pick::new(passing), held))
            }
            Err(error) => {
                debug!(request = %id, ?error, "no endpoint picked");
                if let Some(arrival) = arrival.take() {
                    arrival.refused(streaming, error.error_type());
                }
                Err(error.refused(endpoint == Some(Endpoint::Messages)))
            }
        }
    }
}

/// Counts a request that is refused.
fn refuse(error: ApiError, arrival: Option<Arrival>, endpoint: Option<Endpoint>) -> Refused {
    if let Some(arrival) = arrival {
        arrival.refused(false, error.error_type());
    }
    error.refused(endpoint == Some(Endpoint::Messages))
}

fn first_of<'a>(headers: &'a HeaderMap, names: &[HeaderName]) -> Option<&'a [u8]> {
    let mut values = names.iter().filter_map(|name| headers.get(name));
    let value = values.find(|value| !value.is_empty())?;
    Some(value.as_bytes())
}

/// One choice of an endpoint.
struct Choice<'a> {
    app: &'a Arc<App>,
    fallbacks: usize,
    call: &'a Call,
    id: &'a RequestId,
    urgency: Urgency,
}

impl Choice<'_> {
    /// Leaves in `arrival` whose request it is, and in `streaming` how it is to be answered.
    async fn make(
        &self,
        body: &HeldBody,
        arrival: &mut Option<Arrival>,
        streaming: &mut bool,
    ) -> Result<Passing, ApiError> {
        let arrived = self.app.clock.now();
        let understood = self.understand(body).await;
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
        let record = self
            .call
            .endpoint()
            .map(|endpoint| RequestRecord::begin(&model.metrics, endpoint, *streaming, arrived));
        Ok(Passing {
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
        let query = RouteQuery {
            request: self.id.clone(),
            prompt_tokens: understood.map_or(0, Understood::prompt_tokens),
            chain: understood.map_or(&[], |understood| &understood.chain),
            excluded: &excluded,
            identity: self.urgency.identity,
            priority: self.urgency.priority,
            deadline: self.urgency.patience.map(|patience| began + patience),
        };
        let placement = model.dispatch.router.route(&query).await;
        model.metrics.stage(Stage::Route, clock.now() - began);
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

#[cfg(test)]
mod tests;
