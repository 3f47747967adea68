//! What the spans of a request say.
//!
//! Names of attributes are those of OpenTelemetry's semantic conventions where these have one, and
//! `homing.*` otherwise. `docs/tracing.md` lists them. Nothing that a user wrote gets into a span:
//! prompts, answers and messages of errors that quote them stay out.
//!
//! ```text
//! POST /v1/chat/completions
//! ├── admission ── read ── prepare
//! ├── route ── queue
//! ├── worker (client: an engine's own spans are under it)
//! │   └── dispatch ── first_token ── stream
//! └── migration (each move to another worker)
//! ```

use std::borrow::Cow;

use contract::trace::{TRACEPARENT, TRACESTATE};
use contract::{LinkError, Moment, Started, TraceContext, TraceId, WorkerId};
use http::{HeaderMap, Method};
use router::{Candidate, Decision, Placement, RouteError};
use spans::{Attributes, Failure, RequestTrace, Stage};
use tracing::field::DisplayValue;

use crate::labels::{Endpoint, ErrorType};

/// Names of stages.
pub(crate) const ADMISSION: &str = "admission";
pub(crate) const READ: &str = "read";
pub(crate) const PREPARE: &str = "prepare";
pub(crate) const ROUTE: &str = "route";
pub(crate) const QUEUE: &str = "queue";
pub(crate) const WORKER: &str = "worker";
pub(crate) const DISPATCH: &str = "dispatch";
pub(crate) const FIRST_TOKEN: &str = "first_token";
pub(crate) const STREAM: &str = "stream";
pub(crate) const MIGRATION: &str = "migration";

const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
const CACHED_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
const MODEL: &str = "gen_ai.request.model";
const WORKER_ID: &str = "homing.worker.id";

/// The context of whoever sent a request. Several `traceparent`s contradict each other.
pub(crate) fn sent(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all(TRACEPARENT).iter();
    let (parent, None) = (parents.next()?, parents.next()) else {
        return None;
    };
    let context: TraceContext = parent.to_str().ok()?.parse().ok()?;
    let state = headers.get_all(TRACESTATE).iter();
    Some(context.with_state(state.map(http::HeaderValue::as_bytes)))
}

/// The name of a request's own span. Paths that nobody knows are not named: there is no end to them.
pub(crate) fn name(method: &Method, endpoint: Option<Endpoint>) -> Cow<'static, str> {
    match endpoint {
        Some(endpoint) => format!("{method} {}", endpoint.engine_path().as_str()).into(),
        None => method.to_string().into(),
    }
}

/// What is known of a request when it comes.
pub(crate) fn came(
    trace: &RequestTrace,
    method: &Method,
    endpoint: Option<Endpoint>,
    id: &contract::RequestId,
) {
    trace.describe(|attributes| {
        attributes.set("http.request.method", method.as_str());
        attributes.set("homing.request.id", id.as_str());
        if let Some(endpoint) = endpoint {
            attributes.set("http.route", endpoint.engine_path().as_str());
            attributes.set("gen_ai.operation.name", operation(endpoint));
        }
    });
}

fn operation(endpoint: Endpoint) -> &'static str {
    match endpoint {
        Endpoint::Chat | Endpoint::Responses | Endpoint::Messages => "chat",
        Endpoint::Completions => "text_completion",
        Endpoint::Embeddings => "embeddings",
        Endpoint::Rerank => "rerank",
        Endpoint::Tokenize => "tokenize",
        Endpoint::Detokenize => "detokenize",
    }
}

/// The model that is asked, and how.
pub(crate) fn asks(trace: &RequestTrace, model: &str, streaming: bool) {
    trace.describe(|attributes| {
        attributes.set(MODEL, model).set("homing.stream", streaming);
    });
}

/// How long its prompts are, together.
pub(crate) fn input(trace: &RequestTrace, tokens: impl FnOnce() -> usize) {
    trace.describe(|attributes| {
        attributes.set(INPUT_TOKENS, tokens());
    });
}

pub(crate) fn output(attributes: &mut Attributes, tokens: u64) {
    attributes.set(OUTPUT_TOKENS, tokens);
}

pub(crate) fn responded(trace: &RequestTrace, status: u16) {
    trace.describe(|attributes| {
        attributes.set("http.response.status_code", status);
    });
}

/// What of a failure is said: its kind. The server's own ones count as failures of the span, those
/// of clients do not.
pub(crate) fn failure(error: ErrorType) -> Failure {
    let fault = match error {
        ErrorType::Overload
        | ErrorType::Unavailable
        | ErrorType::Internal
        | ErrorType::NotImplemented => true,
        ErrorType::Validation | ErrorType::NotFound | ErrorType::Cancelled => false,
    };
    Failure {
        kind: error.label(),
        message: String::new(),
        fault,
    }
}

/// A field of log lines about a request, where somebody else knows its trace.
pub(crate) fn logged(trace: &RequestTrace) -> Option<DisplayValue<TraceId>> {
    trace.id().map(tracing::field::display)
}

/// How the router was asked, since `began`, and what it said.
pub(crate) fn routed(
    mut stage: Stage,
    placement: Result<&Placement, &RouteError>,
    began: Moment,
    now: Moment,
) {
    match placement {
        Ok(placement) => {
            if !stage.is_recorded() {
                return;
            }
            // This takes the router's lock.
            let decision = placement.decision();
            stage.describe(|attributes| {
                attributes.set(WORKER_ID, placement.worker().to_string());
                if let Some(decision) = &decision {
                    decided(attributes, decision);
                }
            });
            if let Some(decision) = decision.filter(|decision| decision.queued_ms > 0.0) {
                stage.past(QUEUE, began, decision.at);
            }
        }
        Err(error) => {
            if let RouteError::QueueTimeout { .. } = error {
                stage.past(QUEUE, began, now);
            }
            stage.fail(|| Failure {
                kind: match error {
                    RouteError::NoWorker => "no_worker",
                    RouteError::Saturated { .. } => "saturated",
                    RouteError::QueueTimeout { .. } => "queue_timeout",
                },
                message: error.to_string(),
                fault: true,
            });
        }
    }
}

fn decided(attributes: &mut Attributes, decision: &Decision) {
    attributes
        .set("homing.router.mode", decision.mode)
        .set("homing.router.reason", decision.reason.to_string())
        .set("homing.router.decision", decision.number)
        .set("homing.router.candidates", decision.candidates.len())
        .set("homing.router.excluded", decision.excluded.len())
        .set("homing.router.prompt_tokens", decision.prompt_tokens)
        .set(
            "homing.router.predicted_cached_tokens",
            decision.predicted_cached_tokens,
        )
        .set(
            "homing.router.predicted_ttft_ms",
            decision.predicted_ttft_ms,
        )
        .set("homing.router.queued_ms", decision.queued_ms);
    let mut candidates = decision.candidates.iter();
    let Some(winner) = candidates.find(|one| one.worker == decision.winner) else {
        return;
    };
    attributes.set("homing.router.overlap_blocks", winner.overlap_blocks);
    if let Some(cost) = winner.cost {
        attributes.set("homing.router.cost", cost);
        let costs = decision.candidates.iter().map(cost_of);
        attributes.set("homing.router.costs", costs.collect::<spans::Value>());
    }
    if let Some(terms) = winner.terms {
        for (name, milliseconds) in [
            ("homing.router.cost.ttft_ms", terms.ttft_ms),
            ("homing.router.cost.queue_ms", terms.queue_ms),
            ("homing.router.cost.decode_ms", terms.decode_ms),
            ("homing.router.cost.eviction_ms", terms.eviction_ms),
            ("homing.router.cost.wait_ms", terms.wait_ms),
        ] {
            attributes.set(name, f64::from(milliseconds));
        }
    }
}

fn cost_of(candidate: &Candidate) -> String {
    let cost = candidate.cost.unwrap_or(f64::NAN);
    format!("{}: {cost:.2}", candidate.worker)
}

/// Begins an exchange with a worker.
pub(crate) fn exchange(trace: &RequestTrace, worker: WorkerId) -> Stage {
    let mut stage = trace.client(WORKER);
    stage.describe(|attributes| {
        attributes.set(WORKER_ID, worker.to_string());
    });
    stage
}

/// What an engine says of itself with its first token.
pub(crate) fn started(stage: &mut Stage, started: Option<&Started>) {
    let Some(started) = started else { return };
    stage.describe(|attributes| {
        let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        attributes
            .set(CACHED_TOKENS, started.cached_tokens)
            .set("homing.engine.intake_ms", milliseconds(started.intake))
            .set("homing.engine.queue_ms", milliseconds(started.queue_wait))
            .set("homing.engine.prefill_ms", milliseconds(started.prefill));
    });
}

/// A worker has failed a request.
pub(crate) fn failed(stage: &mut Stage, error: &LinkError) {
    stage.fail(|| link_failure(error));
}

fn link_failure(error: &LinkError) -> Failure {
    let kind = match error {
        LinkError::Unreachable { .. } => "unreachable",
        LinkError::Lost { .. } => "lost",
        LinkError::Draining { .. } => "draining",
        LinkError::Overloaded { .. } => "overloaded",
        LinkError::TooLarge { .. } => "too_large",
        LinkError::Refused { .. } => "refused",
        LinkError::Failed { .. } => "failed",
        LinkError::Stalled { .. } => "stalled",
        LinkError::Interrupted { .. } => "interrupted",
    };
    let message = match error.is_of_request() {
        // An engine that refuses a request may quote it.
        true => String::new(),
        false => error.to_string(),
    };
    Failure {
        kind,
        message,
        fault: true,
    }
}

/// Begins the move of a request from a worker that failed it, after so many tokens of its answer.
pub(crate) fn moves(trace: &RequestTrace, error: &LinkError, tokens: usize) -> Stage {
    let mut stage = trace.stage(MIGRATION);
    stage.describe(|attributes| {
        attributes
            .set("homing.migration.from", error.worker().to_string())
            .set("homing.migration.reason", link_failure(error).kind)
            .set("homing.migration.answered_tokens", tokens);
    });
    stage
}

/// Another worker goes on with it.
pub(crate) fn moved(stage: &mut Stage, worker: WorkerId) {
    stage.describe(|attributes| {
        attributes.set("homing.migration.to", worker.to_string());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_context_is_read_from_headers_that_do_not_contradict_each_other() {
        assert_eq!(sent(&headers(&[])), None);
        let one = sent(&headers(&[("traceparent", PARENT)])).unwrap();
        assert_eq!((one.parent().as_str(), one.state()), (PARENT, None));
        assert_eq!(
            sent(&headers(&[
                ("traceparent", PARENT),
                ("traceparent", PARENT)
            ])),
            None
        );
        assert_eq!(sent(&headers(&[("tracestate", "a=1")])), None);
        let pairs = [
            ("traceparent", PARENT),
            ("tracestate", "a=1"),
            ("tracestate", "b=2"),
        ];
        assert_eq!(sent(&headers(&pairs)).unwrap().state(), Some("a=1,b=2"));
    }
}
