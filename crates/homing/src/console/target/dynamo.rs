//! What is known of a Dynamo deployment: its workers count for Prometheus, not for clients.

use std::collections::BTreeMap;

use ::console::{CacheState, Series, SystemView, WorkerState, parse_series};

use super::{Inner, MOST_BYTES, unknown};

const IN_FLIGHT: &str = "dynamo_component_inflight_requests";
const ACTIVE_BLOCKS: &str = "dynamo_component_kvstats_active_blocks";
const TOTAL_BLOCKS: &str = "dynamo_component_kvstats_total_blocks";

/// Labels that tell one worker from another, the best first.
const NAMES: [&str; 4] = ["pod", "worker_id", "dynamo_worker_id", "instance"];

impl Inner {
    /// Its workers, if Prometheus knows some; otherwise nothing.
    pub(super) async fn look_at_dynamo(&self) -> SystemView {
        let nothing = unknown(&self.model, self.simulated);
        let in_flight = self.by_worker(IN_FLIGHT).await;
        if in_flight.is_empty() {
            return nothing;
        }
        let active = self.by_worker(ACTIVE_BLOCKS).await;
        let total = self.by_worker(TOTAL_BLOCKS).await;
        let workers = in_flight.iter().zip(0..).map(|((name, count), id)| {
            let of = |values: &BTreeMap<String, u32>| values.get(name).copied().unwrap_or(0);
            WorkerState {
                in_flight: *count,
                running: *count,
                cache: CacheState {
                    total_blocks: of(&total),
                    active_blocks: of(&active),
                    cached_blocks: 0,
                    hit_pct: None,
                },
                ..self.worker(id, name, "dynamo")
            }
        });
        let workers: Vec<WorkerState> = workers.collect();
        SystemView { workers, ..nothing }
    }

    /// The sum of a metric for each worker.
    async fn by_worker(&self, metric: &str) -> BTreeMap<String, u32> {
        let Some(prometheus) = &self.address.prometheus else {
            return BTreeMap::new();
        };
        let address = format!("{prometheus}/api/v1/query?query={metric}");
        match self.transport.get(&address, MOST_BYTES).await {
            Ok((_, body)) => parse(&body),
            Err(_) => BTreeMap::new(),
        }
    }
}

/// An answer of Prometheus, added up for each worker.
fn parse(body: &[u8]) -> BTreeMap<String, u32> {
    let mut workers = BTreeMap::new();
    for Series { labels, value } in parse_series(body).unwrap_or_default() {
        if let Some(name) = NAMES.iter().find_map(|name| labels.get(*name)) {
            *workers.entry(name.clone()).or_default() += value.max(0.0) as u32;
        }
    }
    workers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_added_up_for_each_worker() {
        let body = br#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"pod":"a","dynamo_endpoint":"generate"},"value":[1,"3"]},
            {"metric":{"pod":"a","dynamo_endpoint":"clear"},"value":[1,"1"]},
            {"metric":{"instance":"10.0.0.1:9090"},"value":[1,"NaN"]},
            {"metric":{"instance":"10.0.0.2:9090"},"value":[1,"2"]},
            {"metric":{},"value":[1,"9"]}]}}"#;
        let expected = [("10.0.0.2:9090".to_owned(), 2), ("a".to_owned(), 4)];
        assert_eq!(parse(body), expected.into());
        assert_eq!(parse(b"no answer"), BTreeMap::new());
    }
}
