//! What spans cost a request, in CPU time of this process: recording, and encoding for a collector.
//!
//! `cargo run --release -p otlp --example cost`. Ten spans with the attributes that a request has; no
//! network. Prints, and judges nothing.

#![expect(clippy::print_stdout, reason = "it is a measurement")]

use std::hint::black_box;

use contract::{Clock, TraceContext};
use otlp::{Collector, Protocol, Resource};
use spans::{Finished, RequestTrace, SampleRatio, Tracer};
use telemetry::Registry;
use tokio::time::Instant;

const REQUESTS: u32 = 200_000;
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = Clock::start();
    let collector = Collector::new(Protocol::Grpc, "http://127.0.0.1:4317", &[])?;
    println!("microseconds per request, best of {ROUNDS} rounds of {REQUESTS}");
    for (name, ratio) in [
        ("off", None),
        ("on, 0 % recorded", Some(0.0)),
        ("on, 10 % recorded and encoded", Some(0.1)),
        ("on, 100 % recorded and encoded", Some(1.0)),
    ] {
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            let ratio = ratio.map(SampleRatio::new).transpose()?;
            let began = Instant::now();
            round(ratio, clock, &collector);
            let took = began.elapsed().as_secs_f64() * 1e6 / f64::from(REQUESTS);
            best = best.min(took);
        }
        println!("{name:<32} {best:>8.3}");
    }
    Ok(())
}

fn round(ratio: Option<SampleRatio>, clock: Clock, collector: &Collector) {
    let registry = Registry::new();
    let (tracer, mut finished) = match ratio {
        None => (Tracer::off(), None),
        Some(ratio) => {
            let (tracer, finished) = Tracer::new(ratio, 7, clock, &registry);
            (tracer, Some(finished))
        }
    };
    for number in 0..REQUESTS {
        let sent: Option<TraceContext> = black_box("").parse().ok();
        request(&tracer.begin(sent, || "POST /v1/chat/completions".into()));
        if number % 256 == 255
            && let Some(finished) = &mut finished
        {
            encode(finished, clock, collector);
        }
    }
}

fn request(trace: &RequestTrace) {
    trace.describe(|attributes| {
        attributes
            .set("http.request.method", "POST")
            .set("http.route", "/v1/chat/completions")
            .set("gen_ai.operation.name", "chat")
            .set("gen_ai.request.model", "Llama-3.1-70B-Instruct-FP8")
            .set("homing.request.id", "req-0198c2a56be07a71a3f0c4b6e8b0d7f1")
            .set("homing.stream", true)
            .set("http.response.status_code", 200_u16)
            .set("gen_ai.usage.input_tokens", 3500_u32)
            .set("gen_ai.usage.output_tokens", 300_u32);
    });
    for name in ["admission", "read", "prepare"] {
        drop(trace.stage(name));
    }
    let mut route = trace.stage("route");
    route.describe(|attributes| {
        attributes
            .set("homing.worker.id", 3_u64.to_string())
            .set("homing.router.mode", "kv")
            .set("homing.router.reason", "least expected delay")
            .set("homing.router.decision", 7_u64)
            .set("homing.router.candidates", 8_usize)
            .set("homing.router.predicted_ttft_ms", 61.5)
            .set("homing.router.cost", 82.25);
        for name in ["a", "b", "c", "d", "e"] {
            attributes.set(name, 1.5);
        }
        let costs = (0..8).map(|worker| format!("{worker}: {:.2}", 82.25));
        attributes.set("homing.router.costs", costs.collect::<spans::Value>());
    });
    drop(route);
    let mut worker = trace.client("worker");
    black_box(worker.context());
    for name in ["dispatch", "first_token"] {
        drop(worker.stage(name));
    }
    worker.describe(|attributes| {
        attributes.set("homing.worker.id", 3_u64.to_string());
        attributes.set("gen_ai.usage.cache_read.input_tokens", 3200_u32);
    });
    let mut stream = worker.stage("stream");
    for tokens in 0..300_u32 {
        stream.describe(|attributes| {
            attributes.set("gen_ai.usage.output_tokens", tokens);
        });
    }
    drop(stream);
    trace.end(|| None);
}

fn encode(finished: &mut Finished, clock: Clock, collector: &Collector) {
    let mut traces = Vec::new();
    while let Ok(trace) = finished.try_recv() {
        traces.push(*trace);
    }
    let resource = Resource {
        attributes: vec![("service.name".to_owned(), "homing".to_owned())],
        version: "0",
    };
    black_box(collector.body(&resource.encode(traces, clock)));
}
