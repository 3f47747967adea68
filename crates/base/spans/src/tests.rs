//! Which requests are recorded, and what their spans look like.

use std::borrow::Cow;
use std::time::Duration;

use contract::{Clock, TraceContext, TraceId};
use proptest::prelude::*;
use telemetry::{Registry, catalog};

use super::*;

const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

fn tracer(ratio: SampleRatio) -> (Tracer, Finished, Registry) {
    let registry = Registry::new();
    let (tracer, finished) = Tracer::new(ratio, 7, Clock::start(), &registry);
    (tracer, finished, registry)
}

fn begin(tracer: &Tracer, sent: Option<&str>) -> RequestTrace {
    let sent = sent.map(|sent| sent.parse::<TraceContext>().unwrap());
    tracer.begin(sent, || Cow::Borrowed("request"))
}

fn failure(kind: &'static str) -> Failure {
    Failure {
        kind,
        message: String::new(),
        fault: true,
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_decides_and_otherwise_the_share() {
    for (ratio, sent, recorded) in [
        (SampleRatio::NONE, None, false),
        (SampleRatio::NONE, Some(SAMPLED), true),
        (SampleRatio::NONE, Some(UNSAMPLED), false),
        (SampleRatio::ALL, None, true),
        (SampleRatio::ALL, Some(SAMPLED), true),
        (SampleRatio::ALL, Some(UNSAMPLED), false),
    ] {
        let (tracer, _finished, _registry) = tracer(ratio);
        let trace = begin(&tracer, sent);
        assert_eq!(trace.is_recorded(), recorded, "{ratio:?} {sent:?}");
        // A trace that only we know of, and do not record, is of no use in a log.
        assert_eq!(trace.id().is_some(), recorded || sent.is_some());
        assert_eq!(
            trace.context().map(TraceContext::is_sampled),
            Some(recorded)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_recorded_is_passed_on_as_it_came() {
    let (on, _finished, _registry) = tracer(SampleRatio::ALL);
    let sent = UNSAMPLED.parse().unwrap();
    assert_eq!(begin(&on, Some(UNSAMPLED)).context(), Some(&sent));
    let sent = SAMPLED.parse().unwrap();
    let off = begin(&Tracer::off(), Some(SAMPLED));
    assert_eq!(off.context(), Some(&sent));
    assert_eq!(off.stage("stage").context(), None);
    assert_eq!(begin(&Tracer::off(), None).context(), None);
}

#[tokio::test(start_paused = true)]
async fn stages_end_when_dropped_and_the_request_with_the_last_of_them() {
    let (tracer, mut finished, _registry) = tracer(SampleRatio::NONE);
    let trace = begin(&tracer, Some(SAMPLED));
    let clone = trace.clone();
    let route = trace.stage("route");
    tokio::time::advance(Duration::from_millis(3)).await;
    let mut exchange = clone.client("worker");
    let asked = exchange.context().unwrap();
    exchange.describe(|attributes| {
        attributes.set("n", 1_u32).set("n", 2_u32);
    });
    exchange.fail(|| failure("lost"));
    let part = exchange.stage("dispatch");
    drop(route);
    trace.end(|| Some(failure("first")));
    trace.end(|| Some(failure("second")));
    drop((trace, clone));
    assert!(finished.try_recv().is_err(), "two stages are still open");
    drop((part, exchange));
    let done = finished.try_recv().unwrap();
    let sent: TraceContext = SAMPLED.parse().unwrap();
    assert_eq!(done.context.trace, sent.trace);
    assert!(done.remote_parent);
    let names: Vec<&str> = done.spans.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["request", "route", "dispatch", "worker"]);
    let [request, route, dispatch, worker] = &done.spans[..] else {
        unreachable!()
    };
    assert_eq!(request.parent, Some(sent.span));
    assert_eq!(request.failure, Some(failure("first")));
    assert_eq!(route.parent, Some(request.id));
    assert_eq!(route.ended - route.began, Duration::from_millis(3));
    assert_eq!(worker.parent, Some(request.id));
    assert_eq!(dispatch.parent, Some(worker.id));
    assert_eq!((worker.kind, asked.span), (SpanKind::Client, worker.id));
    assert_eq!(asked.trace, sent.trace);
    assert_eq!(worker.attributes.get("n"), Some(&Value::Integer(2)));
    assert_eq!(worker.failure, Some(failure("lost")));
}

#[tokio::test(start_paused = true)]
async fn a_request_of_which_nobody_says_the_end_was_cancelled() {
    let (tracer, mut finished, _registry) = tracer(SampleRatio::ALL);
    drop(begin(&tracer, None));
    let done = finished.try_recv().unwrap();
    assert!(!done.remote_parent);
    assert_eq!(done.spans[0].parent, None);
    let failure = done.spans[0].failure.as_ref().unwrap();
    assert_eq!((failure.kind, failure.fault), ("cancelled", false));
}

#[tokio::test(start_paused = true)]
async fn a_request_of_very_many_stages_keeps_some() {
    let (tracer, mut finished, _registry) = tracer(SampleRatio::ALL);
    let trace = begin(&tracer, None);
    for _ in 0..1000 {
        drop(trace.stage("route"));
    }
    drop(trace);
    let done = finished.try_recv().unwrap();
    assert_eq!((done.spans.len(), done.left_out), (256, 745));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_queue_that_is_full_or_that_nobody_reads() {
    let (tracer, finished, registry) = tracer(SampleRatio::ALL);
    let dropped = registry.counter(&catalog::TRACE_DROPPED_SPANS_TOTAL, &["queue_full"]);
    for _ in 0..5000 {
        let trace = begin(&tracer, None);
        drop(trace.stage("route"));
    }
    assert_eq!(dropped.get(), 2 * (5000 - 2048));
    drop(finished);
    drop(begin(&tracer, None));
    assert_eq!(dropped.get(), 2 * (5000 - 2048) + 1);
}

#[test]
fn texts_are_cut_at_a_character() {
    let long = "é".repeat(1000);
    assert_eq!(Value::from(long.as_str()), Value::Text("é".repeat(128)));
    let many: Value = (0..100).map(|number| number.to_string()).collect();
    let Value::Texts(texts) = many else {
        unreachable!()
    };
    assert_eq!(texts.len(), 16);
}

#[test]
fn a_share_is_a_number_from_none_to_all() {
    for (text, expected) in [
        ("0", true),
        ("1", true),
        (" 0.1 ", true),
        ("1e-3", true),
        ("1.01", false),
        ("-0.1", false),
        ("NaN", false),
        ("ten", false),
        ("", false),
    ] {
        assert_eq!(text.parse::<SampleRatio>().is_ok(), expected, "{text}");
    }
}

#[test]
fn the_share_is_kept() {
    let ids = sampling::Ids::new(42);
    for share in [0.0, 0.1, 0.5, 1.0] {
        let ratio = SampleRatio::new(share).unwrap();
        let taken = (0..20_000).filter(|_| ids.root(ratio).is_sampled()).count();
        let expected = share * 20_000.0;
        assert!(
            (taken as f64 - expected).abs() <= 400.0,
            "{taken} of {expected}"
        );
    }
}

proptest! {
    /// A trace that a process with a small share records is recorded by all with a larger one.
    #[test]
    fn shares_are_nested(id in 1_u128.., small in 0.0..=1.0_f64, more in 0.0..=1.0_f64) {
        let trace = TraceId::new(id).unwrap();
        let large = SampleRatio::new(small + (1.0 - small) * more).unwrap();
        if SampleRatio::new(small).unwrap().takes(trace) {
            prop_assert!(large.takes(trace));
        }
        prop_assert!(SampleRatio::ALL.takes(trace));
        prop_assert!(!SampleRatio::NONE.takes(trace));
    }
}
