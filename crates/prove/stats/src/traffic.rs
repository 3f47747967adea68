//! How requests were spread over the workers, second by second.
//!
//! A worker's requests in flight follow from the records alone: when a request was placed on
//! it, which is when it was sent plus what it waited in the router, and when it ended. The
//! published analysis of KV routing (momentary spread, the batch limit, waiting that follows)
//! is repeated here for every cell, where it was once done by hand for two.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::figures::{Figures, Pool, figure, queue_ms};
use crate::raw::RawCell;

/// Between two looks at the workers.
const INTERVAL_S: f64 = 1.0;

/// What the workers of a cell went through.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Traffic {
    /// Between the worker with the most and the one with the fewest in flight.
    pub inflight_spread: Spread,
    /// The most that one worker had in flight.
    pub inflight_max: u32,
    /// How long requests waited in the router and in the engine; `null` if it was not reported.
    pub queue_ms: Figures,
    pub queue_ms_max: Option<f64>,
    /// The mean wait of the worker with the longest over that of the one with the shortest.
    pub queue_skew: Option<f64>,
    /// Requests of the busiest worker over those of the idlest, on average over time.
    pub inflight_skew: Option<f64>,
    pub workers: Vec<WorkerTraffic>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    pub mean: Option<f64>,
    pub p95: Option<f64>,
    pub max: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkerTraffic {
    pub worker: String,
    pub requests: u64,
    pub inflight_mean: Option<f64>,
    pub inflight_max: u32,
    pub queue_ms_mean: Option<f64>,
    pub queue_ms_max: Option<f64>,
}

/// Requests in flight on each worker, each second of a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    pub workers: BTreeMap<String, Vec<u32>>,
}

impl Timeline {
    /// Of one run.
    pub fn of(run: &RawCell) -> Self {
        let window = run.window();
        let looks = ((window.end - window.start) / INTERVAL_S).floor().max(0.0) as usize;
        let mut workers: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for record in &run.records {
            let Some(worker) = &record.worker else {
                continue;
            };
            let waited = record.routing.as_ref().map_or(0.0, |found| found.queued_ms);
            let placed_s = record.sent_s + waited / 1e3;
            // The first look at or after a moment.
            let look = |at_s: f64| ((at_s - window.start) / INTERVAL_S).ceil().max(0.0) as usize;
            let (from, to) = (look(placed_s), look(record.ended_s).min(looks));
            if !workers.contains_key(worker) {
                workers.insert(worker.clone(), vec![0; looks]);
            }
            if let Some(counts) = workers.get_mut(worker)
                && from < to
            {
                counts[from..to].iter_mut().for_each(|count| *count += 1);
            }
        }
        Self { workers }
    }

    /// At each look, the most less the fewest.
    fn spreads(&self) -> impl Iterator<Item = u32> {
        let looks = self.workers.values().map(Vec::len).max().unwrap_or(0);
        (0..looks).map(|look| {
            let counts = self.workers.values().map(|counts| counts[look]);
            let (fewest, most) = (counts.clone().min(), counts.max());
            most.unwrap_or(0) - fewest.unwrap_or(0)
        })
    }
}

impl Traffic {
    pub fn of(pool: Pool<'_>) -> Self {
        let timelines: Vec<Timeline> = pool.runs.iter().map(Timeline::of).collect();
        let spreads = timelines.iter().flat_map(Timeline::spreads);
        let spreads: Vec<f64> = spreads.map(f64::from).collect();
        let waits = pool.latencies(queue_ms);
        let workers = workers(pool, &timelines);
        let ratio = |of: fn(&WorkerTraffic) -> Option<f64>| {
            let values = workers.iter().filter_map(of);
            let (least, most) = (values.clone().reduce(f64::min), values.reduce(f64::max));
            figure(most? / least.filter(|&least| least > 0.0)?)
        };
        Self {
            inflight_spread: Spread {
                mean: mean(&spreads),
                p95: Figures::of(spreads.clone()).p95,
                max: spreads.iter().copied().fold(0.0, f64::max) as u32,
            },
            inflight_max: workers
                .iter()
                .map(|one| one.inflight_max)
                .max()
                .unwrap_or(0),
            queue_ms_max: waits.iter().copied().reduce(f64::max).and_then(figure),
            queue_ms: Figures::of(waits),
            queue_skew: ratio(|one| one.queue_ms_mean),
            inflight_skew: ratio(|one| one.inflight_mean),
            workers,
        }
    }
}

fn workers(pool: Pool<'_>, timelines: &[Timeline]) -> Vec<WorkerTraffic> {
    let mut waits: BTreeMap<&str, (u64, Vec<f64>)> = BTreeMap::new();
    for (_, record) in pool.measured() {
        if let Some(worker) = &record.worker {
            let (requests, of_worker) = waits.entry(worker).or_default();
            *requests += 1;
            of_worker.extend(queue_ms(record));
        }
    }
    let summary = |(worker, (requests, waits)): (&str, (u64, Vec<f64>))| {
        let timelines = timelines.iter().filter_map(|one| one.workers.get(worker));
        let counts: Vec<f64> = timelines.flatten().copied().map(f64::from).collect();
        WorkerTraffic {
            worker: worker.to_owned(),
            requests,
            inflight_mean: mean(&counts),
            inflight_max: counts.iter().copied().fold(0.0, f64::max) as u32,
            queue_ms_mean: mean(&waits),
            queue_ms_max: waits.into_iter().reduce(f64::max).and_then(figure),
        }
    };
    waits.into_iter().map(summary).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    figure(values.iter().sum::<f64>() / values.len() as f64)
}
