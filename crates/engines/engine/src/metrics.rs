//! What one worker's engine reports.
//!
//! Cells are looked up once, here; afterwards recording is a few atomic writes. Counters
//! that mirror a running total of the scheduler catch up with it when a status goes out,
//! everything else is recorded as it happens.

use std::sync::Arc;
use std::time::Duration;

use contract::{DRAFT_POSITIONS, FinishReason, WorkerCard, WorkerStatus};
use telemetry::{Counter, Gauge, Histogram, Metric, Registry, TimeCounter, catalog};

use crate::scheduler::{Milestone, StepTotals};

/// Label values that dashboards for Dynamo and TensorRT-LLM select on.
const NAMESPACE: &str = "homing";
const COMPONENT: &str = "worker";
const ENDPOINT: &str = "generate";
const ENGINE_TYPE: &str = "trtllm";

const MIB: f64 = 1024.0 * 1024.0;

/// The worker-level families, for one worker. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EngineMetrics {
    cells: Arc<Cells>,
}

#[derive(Debug)]
struct Cells {
    registry: Registry,
    /// Every series of the worker, so that all can be forgotten.
    series: Vec<(&'static Metric, Vec<String>)>,
    total_blocks: f64,
    gpu_memory_bytes: u64,
    requests: RequestCells,
    steps: StepCells,
    load: LoadCells,
    speculation: SpeculationCells,
    gpus: Vec<GpuCells>,
}

#[derive(Debug)]
struct RequestCells {
    accepted: Counter,
    refused: Counter,
    interrupted: Counter,
    cancelled: Counter,
    stopped: Counter,
    reached_limit: Counter,
    duration: Histogram,
    end_to_end: Histogram,
    queue_time: Histogram,
    time_to_first_token: Histogram,
    time_per_output_token: Histogram,
}

#[derive(Debug)]
struct StepCells {
    steps: Counter,
    seconds: Histogram,
    prefill_tokens: Counter,
    decode_tokens: Counter,
    recomputed_tokens: Counter,
}

#[derive(Debug)]
struct LoadCells {
    uptime: Gauge,
    in_flight: Gauge,
    running: Gauge,
    waiting: Gauge,
    active_blocks: Gauge,
    cached_blocks: Gauge,
    free_blocks: Gauge,
    cache_usage: Gauge,
    cache_utilization: Gauge,
    prefix_hit_rate: Gauge,
    cache_hit_rate: Gauge,
    preemptions: Counter,
    evicted_blocks: Counter,
}

#[derive(Debug)]
struct SpeculationCells {
    drafts: Counter,
    drafted_tokens: Counter,
    accepted_tokens: Counter,
    acceptance_ratio: Gauge,
    tokens_per_step: Gauge,
    /// The first place in a draft first.
    positions: Vec<PositionCells>,
    draft_time: TimeCounter,
    verify_time: TimeCounter,
    draft_length: Gauge,
}

#[derive(Debug)]
struct PositionCells {
    drafted_tokens: Counter,
    accepted_tokens: Counter,
}

#[derive(Debug)]
struct GpuCells {
    utilization: Gauge,
    used: Gauge,
    free: Gauge,
}

impl EngineMetrics {
    /// Registers the series of the worker that `card` describes, and that drafts at most so
    /// many tokens.
    pub fn new(registry: &Registry, card: &WorkerCard, draft_tokens: u32) -> Self {
        let mut series = Registration::new(registry, card);
        let requests = series.requests();
        let steps = series.steps();
        let load = series.load();
        let speculation = series.speculation(draft_tokens);
        let gpus = (0..card.gpu.count).map(|index| series.gpu(index)).collect();
        let total_blocks = f64::from(card.total_blocks);
        series
            .gauge(&catalog::COMPONENT_KVSTATS_TOTAL_BLOCKS)
            .set(total_blocks);
        let simulated = series.gauge(&catalog::WORKER_SIMULATED);
        simulated.set(f64::from(u8::from(card.simulated)));
        Self {
            cells: Arc::new(Cells {
                registry: registry.clone(),
                series: series.series,
                total_blocks,
                gpu_memory_bytes: card.gpu.memory_bytes,
                requests,
                steps,
                load,
                speculation,
                gpus,
            }),
        }
    }

    /// Stops exposing the worker's series: it has left.
    pub fn forget(&self) {
        for (metric, labels) in &self.cells.series {
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            self.cells.registry.forget(metric, &labels);
        }
    }

    pub(crate) fn count_accepted(&self) {
        self.cells.requests.accepted.inc();
    }

    pub(crate) fn count_refused(&self) {
        self.cells.requests.refused.inc();
    }

    pub(crate) fn count_interrupted(&self, requests: usize) {
        self.cells.requests.interrupted.add(requests as u64);
    }

    pub(crate) fn record_step(&self, duration: Duration, totals: StepTotals) {
        let steps = &self.cells.steps;
        steps.steps.inc();
        steps.seconds.observe(duration.as_secs_f64());
        steps.prefill_tokens.add(totals.prefill_tokens as u64);
        steps.decode_tokens.add(totals.decode_tokens as u64);
        steps.recomputed_tokens.add(totals.recomputed_tokens as u64);
    }

    pub(crate) fn record_milestone(&self, milestone: &Milestone) {
        let requests = &self.cells.requests;
        match *milestone {
            Milestone::FirstToken {
                queue_wait,
                time_to_first_token,
            } => {
                requests.queue_time.observe(queue_wait.as_secs_f64());
                requests
                    .time_to_first_token
                    .observe(time_to_first_token.as_secs_f64());
            }
            Milestone::Failed { duration } => {
                requests.duration.observe(duration.as_secs_f64());
                requests.interrupted.inc();
            }
            Milestone::Left {
                finish,
                duration,
                time_per_output_token,
            } => {
                requests.duration.observe(duration.as_secs_f64());
                let Some(reason) = finish else {
                    requests.cancelled.inc();
                    return;
                };
                match reason {
                    FinishReason::Stop => requests.stopped.inc(),
                    FinishReason::Length => requests.reached_limit.inc(),
                }
                requests.end_to_end.observe(duration.as_secs_f64());
                if let Some(time) = time_per_output_token {
                    requests.time_per_output_token.observe(time.as_secs_f64());
                }
            }
        }
    }

    pub(crate) fn record_status(&self, status: &WorkerStatus, evictions: u64, uptime: Duration) {
        let load = &self.cells.load;
        load.uptime.set(uptime.as_secs_f64());
        load.in_flight
            .set(f64::from(status.running + status.waiting));
        load.running.set(f64::from(status.running));
        load.waiting.set(f64::from(status.waiting));
        load.active_blocks.set(f64::from(status.active_blocks));
        load.cached_blocks.set(f64::from(status.cached_blocks));
        load.free_blocks
            .set(f64::from(status.free_blocks + status.cached_blocks));
        let usage = f64::from(status.active_blocks) / self.cells.total_blocks;
        load.cache_usage.set(usage);
        load.cache_utilization.set(usage);
        let hit_rate = ratio(status.cached_tokens, status.prompt_tokens);
        load.prefix_hit_rate.set(hit_rate);
        load.cache_hit_rate.set(hit_rate);
        catch_up(&load.preemptions, status.preemptions);
        catch_up(&load.evicted_blocks, evictions);
        self.record_speculation(status);
        let used = status.gpu_memory_used_bytes;
        let free = self.cells.gpu_memory_bytes.saturating_sub(used);
        for gpu in &self.cells.gpus {
            gpu.utilization.set(status.utilization * 100.0);
            gpu.used.set(used as f64 / MIB);
            gpu.free.set(free as f64 / MIB);
        }
    }

    fn record_speculation(&self, status: &WorkerStatus) {
        let cells = &self.cells.speculation;
        let counts = &status.speculation;
        catch_up(&cells.drafts, counts.drafts);
        catch_up(&cells.drafted_tokens, counts.drafted_tokens);
        catch_up(&cells.accepted_tokens, counts.accepted_tokens);
        cells
            .acceptance_ratio
            .set(ratio(counts.accepted_tokens, counts.drafted_tokens));
        cells
            .tokens_per_step
            .set(1.0 + ratio(counts.accepted_tokens, counts.drafts));
        for (cells, counts) in cells.positions.iter().zip(&counts.positions) {
            catch_up(&cells.drafted_tokens, counts.drafted_tokens);
            catch_up(&cells.accepted_tokens, counts.accepted_tokens);
        }
        catch_up_time(&cells.draft_time, counts.draft_time);
        catch_up_time(&cells.verify_time, counts.verify_time);
        cells.draft_length.set(f64::from(counts.draft_length));
    }
}

/// Looks up cells and remembers under which labels.
struct Registration<'a> {
    registry: &'a Registry,
    card: &'a WorkerCard,
    worker: String,
    series: Vec<(&'static Metric, Vec<String>)>,
}

impl<'a> Registration<'a> {
    fn new(registry: &'a Registry, card: &'a WorkerCard) -> Self {
        Self {
            registry,
            card,
            worker: card.id.to_string(),
            series: Vec::new(),
        }
    }

    fn requests(&mut self) -> RequestCells {
        RequestCells {
            accepted: self.counter(&catalog::COMPONENT_REQUESTS_TOTAL, ""),
            refused: self.counter(&catalog::COMPONENT_ERRORS_TOTAL, "too_large"),
            interrupted: self.counter(&catalog::COMPONENT_ERRORS_TOTAL, "interrupted"),
            cancelled: self.counter(&catalog::COMPONENT_ERRORS_TOTAL, "cancelled"),
            stopped: self.counter(&catalog::TRTLLM_REQUEST_SUCCESS_TOTAL, "stop"),
            reached_limit: self.counter(&catalog::TRTLLM_REQUEST_SUCCESS_TOTAL, "length"),
            duration: self.histogram(&catalog::COMPONENT_REQUEST_DURATION_SECONDS),
            end_to_end: self.histogram(&catalog::TRTLLM_E2E_REQUEST_LATENCY_SECONDS),
            queue_time: self.histogram(&catalog::TRTLLM_REQUEST_QUEUE_TIME_SECONDS),
            time_to_first_token: self.histogram(&catalog::TRTLLM_TIME_TO_FIRST_TOKEN_SECONDS),
            time_per_output_token: self.histogram(&catalog::TRTLLM_TIME_PER_OUTPUT_TOKEN_SECONDS),
        }
    }

    fn steps(&mut self) -> StepCells {
        StepCells {
            steps: self.counter(&catalog::ENGINE_STEPS_TOTAL, ""),
            seconds: self.histogram(&catalog::ENGINE_STEP_SECONDS),
            prefill_tokens: self.counter(&catalog::ENGINE_STEP_TOKENS_TOTAL, "prefill"),
            decode_tokens: self.counter(&catalog::ENGINE_STEP_TOKENS_TOTAL, "decode"),
            recomputed_tokens: self.counter(&catalog::ENGINE_RECOMPUTED_TOKENS_TOTAL, ""),
        }
    }

    fn load(&mut self) -> LoadCells {
        LoadCells {
            uptime: self.gauge(&catalog::COMPONENT_UPTIME_SECONDS),
            in_flight: self.gauge(&catalog::COMPONENT_INFLIGHT_REQUESTS),
            running: self.gauge(&catalog::ENGINE_RUNNING_REQUESTS),
            waiting: self.gauge(&catalog::ENGINE_WAITING_REQUESTS),
            active_blocks: self.gauge(&catalog::COMPONENT_KVSTATS_ACTIVE_BLOCKS),
            cached_blocks: self.gauge(&catalog::ENGINE_CACHED_BLOCKS),
            free_blocks: self.gauge(&catalog::ENGINE_FREE_BLOCKS),
            cache_usage: self.gauge(&catalog::COMPONENT_KVSTATS_GPU_CACHE_USAGE_PERCENT),
            cache_utilization: self.gauge(&catalog::TRTLLM_KV_CACHE_UTILIZATION),
            prefix_hit_rate: self.gauge(&catalog::COMPONENT_KVSTATS_GPU_PREFIX_CACHE_HIT_RATE),
            cache_hit_rate: self.gauge(&catalog::TRTLLM_KV_CACHE_HIT_RATE),
            preemptions: self.counter(&catalog::ENGINE_PREEMPTIONS_TOTAL, ""),
            evicted_blocks: self.counter(&catalog::ENGINE_EVICTED_BLOCKS_TOTAL, ""),
        }
    }

    fn speculation(&mut self, draft_tokens: u32) -> SpeculationCells {
        let positions = 1..=(draft_tokens as usize).min(DRAFT_POSITIONS);
        SpeculationCells {
            drafts: self.counter(&catalog::SPECULATION_DRAFTS_TOTAL, ""),
            drafted_tokens: self.counter(&catalog::SPECULATION_DRAFTED_TOKENS_TOTAL, ""),
            accepted_tokens: self.counter(&catalog::SPECULATION_ACCEPTED_TOKENS_TOTAL, ""),
            acceptance_ratio: self.gauge(&catalog::SPECULATION_ACCEPTANCE_RATIO),
            tokens_per_step: self.gauge(&catalog::SPECULATION_TOKENS_PER_STEP),
            positions: positions.map(|number| self.position(number)).collect(),
            draft_time: self.time(&catalog::SPECULATION_DRAFT_SECONDS_TOTAL),
            verify_time: self.time(&catalog::SPECULATION_VERIFY_SECONDS_TOTAL),
            draft_length: self.gauge(&catalog::SPECULATION_DRAFT_LENGTH),
        }
    }

    fn position(&mut self, number: usize) -> PositionCells {
        let number = number.to_string();
        PositionCells {
            drafted_tokens: self
                .counter(&catalog::SPECULATION_POSITION_DRAFTED_TOKENS_TOTAL, &number),
            accepted_tokens: self.counter(
                &catalog::SPECULATION_POSITION_ACCEPTED_TOKENS_TOTAL,
                &number,
            ),
        }
    }

    fn gpu(&mut self, index: u32) -> GpuCells {
        let card = self.card;
        let labels = [
            index.to_string(),
            format!("GPU-{}-{index}", card.name),
            format!("nvidia{index}"),
            card.gpu.kind.clone(),
            card.name.clone(),
            self.worker.clone(),
            card.simulated.to_string(),
        ];
        let mut gauge = |metric| {
            let names: Vec<&str> = labels.iter().map(String::as_str).collect();
            self.series.push((metric, labels.to_vec()));
            self.registry.gauge(metric, &names)
        };
        GpuCells {
            utilization: gauge(&catalog::GPU_UTIL),
            used: gauge(&catalog::GPU_FB_USED),
            free: gauge(&catalog::GPU_FB_FREE),
        }
    }

    fn counter(&mut self, metric: &'static Metric, own_label: &str) -> Counter {
        let labels = self.labels(metric, own_label);
        let counter = self.registry.counter(metric, &labels);
        self.remember(metric, own_label);
        counter
    }

    fn time(&mut self, metric: &'static Metric) -> TimeCounter {
        let time = self.registry.time(metric, &self.labels(metric, ""));
        self.remember(metric, "");
        time
    }

    fn gauge(&mut self, metric: &'static Metric) -> Gauge {
        let gauge = self.registry.gauge(metric, &self.labels(metric, ""));
        self.remember(metric, "");
        gauge
    }

    fn histogram(&mut self, metric: &'static Metric) -> Histogram {
        let histogram = self.registry.histogram(metric, &self.labels(metric, ""));
        self.remember(metric, "");
        histogram
    }

    /// The values of a metric's labels. `own_label` is for the one that no other family has.
    fn labels<'b>(&'b self, metric: &Metric, own_label: &'b str) -> Vec<&'b str> {
        let value = |name: &&str| match *name {
            "dynamo_namespace" => NAMESPACE,
            "dynamo_component" => COMPONENT,
            "dynamo_endpoint" => ENDPOINT,
            "engine_type" => ENGINE_TYPE,
            "model" | "model_name" => self.card.model.as_str(),
            "worker_id" => self.worker.as_str(),
            "method" => self.card.speculation.as_str(),
            _ => own_label,
        };
        metric.labels.iter().map(value).collect()
    }

    fn remember(&mut self, metric: &'static Metric, own_label: &str) {
        let labels = self
            .labels(metric, own_label)
            .into_iter()
            .map(str::to_owned)
            .collect();
        self.series.push((metric, labels));
    }
}

/// Raises a counter to a running total.
fn catch_up(counter: &Counter, total: u64) {
    counter.add(total.saturating_sub(counter.get()));
}

/// Raises a time counter to `total`; never lowers it.
fn catch_up_time(counter: &TimeCounter, total: Duration) {
    counter.add(total.saturating_sub(counter.get()));
}

/// Zero when there is nothing to divide by: the gauge then says "none", not "unknown".
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use contract::{SpeculationCounts, WorkerId};

    use super::*;
    use crate::sim::Profile;

    fn two_gpu_worker() -> WorkerCard {
        let profile = Profile::named("2xh100-llama-70b-fp8-draft").unwrap();
        profile.card(WorkerId(7), "worker-7")
    }

    #[test]
    fn a_worker_shows_its_series_until_it_is_forgotten() {
        let registry = Registry::new();
        let metrics = EngineMetrics::new(&registry, &two_gpu_worker(), 3);
        let status = WorkerStatus {
            running: 2,
            waiting: 1,
            active_blocks: 10,
            utilization: 0.5,
            gpu_memory_used_bytes: 3 * 1024 * 1024,
            prompt_tokens: 100,
            cached_tokens: 25,
            preemptions: 4,
            ..WorkerStatus::default()
        };
        metrics.record_status(&status, 6, Duration::from_secs(9));
        metrics.record_status(&status, 6, Duration::from_secs(9));
        let text = registry.render(Duration::ZERO);
        for line in [
            "dynamo_component_inflight_requests{dynamo_namespace=\"homing\",dynamo_component=\"worker\",dynamo_endpoint=\"generate\",worker_id=\"7\",model=\"Llama-3.1-70B-Instruct-FP8\"} 3",
            "trtllm_kv_cache_hit_rate{model_name=\"Llama-3.1-70B-Instruct-FP8\",engine_type=\"trtllm\",worker_id=\"7\"} 0.25",
            "homing_engine_preemptions_total{worker_id=\"7\"} 4",
            "homing_engine_evicted_blocks_total{worker_id=\"7\"} 6",
            "homing_speculation_tokens_per_step{worker_id=\"7\",method=\"draft-model\"} 1",
            "homing_worker_simulated{worker_id=\"7\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        let gpus: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("DCGM_FI_DEV_GPU_UTIL{"))
            .collect();
        assert_eq!(gpus.len(), 2, "one series for each GPU");
        assert!(gpus.iter().all(|line| line.ends_with(" 50")), "{gpus:?}");
        assert!(gpus[1].contains("gpu=\"1\"") && gpus[1].contains("simulated=\"true\""));
        metrics.forget();
        assert_eq!(registry.render(Duration::ZERO), "");
    }

    #[test]
    fn what_drafts_bring_and_cost_is_shown_by_position() {
        let registry = Registry::new();
        let metrics = EngineMetrics::new(&registry, &two_gpu_worker(), 3);
        let mut speculation = SpeculationCounts {
            draft_time: Duration::from_millis(250),
            verify_time: Duration::from_millis(1500),
            draft_length: 2,
            ..SpeculationCounts::default()
        };
        speculation.record(3, 1);
        speculation.record(2, 2);
        let status = WorkerStatus {
            speculation,
            ..WorkerStatus::default()
        };
        metrics.record_status(&status, 0, Duration::ZERO);
        metrics.record_status(&status, 0, Duration::ZERO);
        let text = registry.render(Duration::ZERO);
        let shown: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("homing_speculation_"))
            .filter(|line| {
                ["position", "draft_", "verify"]
                    .iter()
                    .any(|one| line.starts_with(one))
            })
            .collect();
        let worker = |name: &str, value: &str| {
            format!("{name}{{worker_id=\"7\",method=\"draft-model\"}} {value}")
        };
        let position = |name: &str, number: u32, value: u32| {
            format!(
                "position_{name}_tokens_total{{worker_id=\"7\",method=\"draft-model\",position=\"{number}\"}} {value}"
            )
        };
        let expected = [
            position("drafted", 1, 2),
            position("drafted", 2, 2),
            position("drafted", 3, 1),
            position("accepted", 1, 2),
            position("accepted", 2, 1),
            position("accepted", 3, 0),
            worker("draft_seconds_total", "0.25"),
            worker("verify_seconds_total", "1.5"),
            worker("draft_length", "2"),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_worker_has_a_series_for_each_position_that_it_may_draft() {
        let shown = |draft_tokens| {
            let registry = Registry::new();
            let _metrics = EngineMetrics::new(&registry, &two_gpu_worker(), draft_tokens);
            let text = registry.render(Duration::ZERO);
            let drafted = "homing_speculation_position_drafted_tokens_total{";
            text.lines()
                .filter(|line| line.starts_with(drafted))
                .count()
        };
        assert_eq!([0, 1, 5, 16, 99].map(shown), [0, 1, 5, 16, 16]);
    }

    #[test]
    fn only_finished_requests_count_as_success() {
        let registry = Registry::new();
        let metrics = EngineMetrics::new(&registry, &two_gpu_worker(), 3);
        let left = |finish| Milestone::Left {
            finish,
            duration: Duration::from_secs(3),
            time_per_output_token: Some(Duration::from_millis(20)),
        };
        for finish in [None, Some(FinishReason::Stop), Some(FinishReason::Length)] {
            metrics.record_milestone(&left(finish));
        }
        let requests = &metrics.cells.requests;
        assert_eq!(requests.duration.count(), 3);
        assert_eq!(requests.end_to_end.count(), 2);
        assert_eq!(requests.time_per_output_token.count(), 2);
        let counts = [
            &requests.cancelled,
            &requests.stopped,
            &requests.reached_limit,
        ];
        assert_eq!(counts.map(Counter::get), [1, 1, 1]);
    }
}
