//! Chooses the endpoint of a request that a proxy carries.
//!
//! A gateway such as Envoy keeps the connections of clients and engines, and asks only where each
//! request is to go. The request is admitted, read, made into tokens, routed, counted and explained
//! like one of our own; what is absent is the stream, which the proxy owns, so that an answer cannot
//! go on elsewhere once it has begun.
//!
//! ```text
//! open (admit) ──► wait, add … (body) ──► pick: tokens → router ──► Pick: endpoints, best first
//!                                      proxy's answer: begins → read … → completes, or dropped
//! ```
//!
//! A body that cannot be read, or a path that nobody knows, is routed by load alone: whether it makes
//! sense is for the engine to say.

mod call;
mod choice;
mod objectives;
mod passing;
mod understand;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use contract::RequestId;
use http::{HeaderMap, HeaderName, header};
use spans::RequestTrace;
use tokio::time::{Instant, timeout};
use tracing::debug;

use crate::App;
use crate::admission::Permit;
use crate::allowance::Allowance;
use crate::caller::{Caller, named, number};
use crate::dispatch::Urgency;
use crate::error::{ApiError, Refused};
use crate::intake::{Arriving, Claim};
use crate::metrics::{Arrival, Endpoint};
use crate::respond::request_id;
use crate::traced;

pub use self::call::{Call, Offered};
use self::choice::Choice;
pub use self::objectives::Objectives;
pub use self::passing::Pick;

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
/// Under which requests say within how many milliseconds they want their first token.
static FIRST_TOKEN: [HeaderName; 2] = [
    HeaderName::from_static("x-llm-d-slo-ttft-ms"),
    HeaderName::from_static("x-slo-ttft-ms"),
];

/// How endpoints are picked.
#[derive(Clone, Debug)]
pub struct PickConfig {
    /// Endpoints that are named after the best one, for proxies that try the next if one fails.
    pub fallbacks: usize,
    pub objectives: Objectives,
    /// How long a request's body may pause.
    pub read_timeout: Duration,
}

impl Default for PickConfig {
    fn default() -> Self {
        Self {
            fallbacks: 0,
            objectives: Objectives::default(),
            read_timeout: Duration::from_secs(30),
        }
    }
}

/// Picks endpoints for proxies. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Picker {
    app: Arc<App>,
    config: Arc<PickConfig>,
}

/// A request that is coming in.
#[derive(Debug)]
pub struct Incoming {
    picker: Picker,
    call: Call,
    id: RequestId,
    urgency: Urgency,
    body: Arriving,
    allowance: Allowance,
    permit: Permit,
    arrival: Option<Arrival>,
    trace: RequestTrace,
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
        let id = request_id(&call.headers);
        let name = || traced::name(&call.method, endpoint);
        let trace = self.app.tracer.begin(traced::sent(&call.headers), name);
        traced::came(&trace, &call.method, endpoint, &id);
        let mut stage = trace.stage(traced::ADMISSION);
        match self.admit(&call) {
            Ok((urgency, body, permit)) => Ok(Incoming {
                picker: self.clone(),
                id,
                call,
                urgency,
                body,
                allowance: Allowance::new(self.config.read_timeout),
                permit,
                arrival,
                trace,
            }),
            Err(error) => {
                stage.fail(|| traced::failure(error.error_type()));
                Err(refuse(error, arrival, endpoint, &trace))
            }
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
            .and_then(|name| self.config.objectives.priority(name));
        urgency.priority = objective.unwrap_or(urgency.priority);
        // What may be shed is not worth having late; anything else is.
        if urgency.priority < 0 {
            for name in &FIRST_TOKEN {
                let wanted = number(&call.headers, name)?.map(Duration::from_millis);
                urgency.patience = [wanted, urgency.patience].into_iter().flatten().min();
            }
        }
        let permit = self.app.admission.admit()?;
        let announced = call.headers.get(header::CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
        Ok((urgency, self.app.intake.begin(announced)?, permit))
    }
}

impl Incoming {
    /// Waits for what is next to come of the request, but not for ever: a body that drips would
    /// hold its place for as long as the proxy lets it.
    pub async fn wait<T>(&mut self, next: impl Future<Output = T>) -> Result<T, Refused> {
        let began = Instant::now();
        let came = timeout(self.allowance.left(), next).await;
        self.allowance.waited(began.elapsed());
        came.map_err(|_| {
            let error = ApiError::too_slow();
            refuse(
                error,
                self.arrival.take(),
                self.call.endpoint(),
                &self.trace,
            )
        })
    }

    /// Takes in some more of the body.
    pub async fn add(&mut self, data: &[u8]) -> Result<(), Refused> {
        self.allowance.came(data.len());
        let added = self.picker.app.intake.add(&mut self.body, data).await;
        let endpoint = self.call.endpoint();
        added.map_err(|error| refuse(error, self.arrival.take(), endpoint, &self.trace))
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
            allowance: _,
            permit,
            mut arrival,
            trace,
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
            trace: &trace,
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
                let trace_id = traced::logged(&trace);
                debug!(request = %id, trace_id, ?error, "no endpoint picked");
                if let Some(arrival) = arrival.take() {
                    arrival.refused(streaming, error.error_type());
                }
                Err(refused(error, endpoint, &trace))
            }
        }
    }
}

/// Counts a request that is refused.
fn refuse(
    error: ApiError,
    arrival: Option<Arrival>,
    endpoint: Option<Endpoint>,
    trace: &RequestTrace,
) -> Refused {
    if let Some(arrival) = arrival {
        arrival.refused(false, error.error_type());
    }
    refused(error, endpoint, trace)
}

fn refused(error: ApiError, endpoint: Option<Endpoint>, trace: &RequestTrace) -> Refused {
    trace.end(|| Some(traced::failure(error.error_type())));
    let refused = error.refused(endpoint == Some(Endpoint::Messages));
    traced::responded(trace, refused.status.as_u16());
    refused
}

fn first_of<'a>(headers: &'a HeaderMap, names: &[HeaderName]) -> Option<&'a [u8]> {
    let mut values = names.iter().filter_map(|name| headers.get(name));
    let value = values.find(|value| !value.is_empty())?;
    Some(value.as_bytes())
}

#[cfg(test)]
mod tests;
