//! One run: one mode at one level with one seed.

use std::sync::Arc;
use std::time::Duration;

use contract::Moment;
use engine::sim::Profile;
use loadgen::{Schedule, Tally, Window};
use router::{Priors, RouterConfig, WorkerView};

use crate::cluster::{Cluster, ClusterPlan, Record, WorkerPlan};
use crate::contestant::Contestant;
use crate::load::{Conversations, Load, Recorded};
use crate::trace::Trace;
use crate::workload::Workload;

/// How long after the window its requests may take to end.
const GRACE: Duration = Duration::from_secs(300);
/// Requests beyond its slots that may wait for each worker: the program's default.
const QUEUE_LIMIT: u32 = 256;

/// What one run is made of.
#[derive(Clone, Copy, Debug)]
pub struct CellPlan<'a> {
    pub workload: &'a Workload,
    pub profile: &'a Profile,
    pub workers: u32,
    pub mode: Contestant,
    /// Conversations at once.
    pub level: u32,
    pub seed: u64,
    pub warmup: Duration,
    pub window: Duration,
}

/// What one run gave, or several pooled.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub tally: Tally,
    pub spread: Spread,
    /// Requests placed on a worker whose slots were taken while another had one free.
    pub dispatched_past_slots: u64,
    pub steps: u64,
    /// Simulated time, warm-up and the wait for the last answers included.
    pub simulated: Duration,
}

impl Measured {
    pub fn merge(&mut self, other: &Self) {
        self.tally.merge(&other.tally);
        self.spread.merge(&other.spread);
        self.dispatched_past_slots += other.dispatched_past_slots;
        self.steps += other.steps;
        self.simulated += other.simulated;
    }
}

/// How unevenly requests were spread: the difference between the most and the fewest in
/// flight on a worker, looked at each second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    sum: u64,
    samples: u64,
    max: u32,
}

impl Spread {
    pub(crate) fn sample(&mut self, in_flight: impl Iterator<Item = u32> + Clone) {
        let (Some(fewest), Some(most)) = (in_flight.clone().min(), in_flight.max()) else {
            return;
        };
        self.sum += u64::from(most - fewest);
        self.samples += 1;
        self.max = self.max.max(most - fewest);
    }

    fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.samples += other.samples;
        self.max = self.max.max(other.max);
    }

    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.samples as f64
    }

    pub fn max(&self) -> u32 {
        self.max
    }
}

/// Runs a cell.
pub fn run_cell(plan: &CellPlan<'_>) -> Measured {
    let (mut cluster, deadline) = conversations(plan, Priors::default());
    cluster.run_until_settled(deadline);
    measured(cluster)
}

/// Runs a cell to the last answer and returns every placement, in the order in which they
/// were decided. Nothing new is sent once warm-up and window are over.
pub fn run_recorded(plan: &CellPlan<'_>) -> Vec<Record> {
    run_believing(plan, Priors::default()).0
}

/// The same with other first beliefs of the router; and how it sees the workers when nothing
/// new is sent.
pub(crate) fn run_believing(plan: &CellPlan<'_>, priors: Priors) -> (Vec<Record>, Vec<WorkerView>) {
    let (mut cluster, _) = conversations(plan, priors);
    cluster.records = Some(Vec::new());
    cluster.run_until(Moment::ZERO + plan.warmup + plan.window);
    let views = cluster.views();
    cluster.close();
    cluster.run_until_idle();
    debug_assert!(cluster.is_clean(), "everything has been given back");
    (cluster.records.take().unwrap_or_default(), views)
}

/// Replays a trace to its last answer.
pub(crate) fn run_trace(
    trace: &Arc<Trace>,
    workers: &[WorkerPlan],
    (mode, speed): (Contestant, f64),
    seed: u64,
) -> Measured {
    let window = Window {
        begin: Moment::ZERO,
        end: Moment::from_nanos(u64::MAX),
    };
    let plan = cluster_plan(workers.to_vec(), mode, seed);
    let recorded = Recorded::new(Arc::clone(trace), speed, seed, plan.router.block_size);
    let mut cluster = Cluster::new(plan, Load::Recorded(Box::new(recorded)), window);
    cluster.run_until_idle();
    let now = cluster.now();
    cluster.tally.end_window(now);
    measured(cluster)
}

fn conversations(plan: &CellPlan<'_>, priors: Priors) -> (Cluster, Moment) {
    let workload = plan.workload;
    let begin = Moment::ZERO + plan.warmup;
    let window = Window {
        begin,
        end: begin + plan.window,
    };
    let schedule = Schedule {
        level: plan.level,
        bursts: workload.bursts.clone(),
        starts_per_second: workload.starts_per_second,
    };
    let workers = workload.fleet(plan.profile, plan.workers);
    let cluster = ClusterPlan {
        changes: workload.changes.clone(),
        priors,
        ..cluster_plan(workers, plan.mode, plan.seed)
    };
    let load = Conversations::new(
        workload.script.clone(),
        schedule,
        plan.seed,
        plan.profile.block_size,
    );
    let load = Load::Conversations(Box::new(load));
    (Cluster::new(cluster, load, window), window.end + GRACE)
}

fn cluster_plan(workers: Vec<WorkerPlan>, mode: Contestant, seed: u64) -> ClusterPlan {
    let block_size = workers
        .first()
        .map_or(1, |worker| worker.profile.block_size);
    ClusterPlan {
        mode,
        router: RouterConfig {
            seed,
            queue_limit: QUEUE_LIMIT,
            decisions_kept: 0,
            ..RouterConfig::new(block_size)
        },
        workers,
        priors: Priors::default(),
        changes: Vec::new(),
        seed,
    }
}

fn measured(mut cluster: Cluster) -> Measured {
    cluster.tally.close();
    Measured {
        simulated: cluster.now() - Moment::ZERO,
        steps: cluster.steps,
        spread: cluster.spread,
        dispatched_past_slots: cluster.dispatched_past_slots,
        tally: cluster.tally,
    }
}
