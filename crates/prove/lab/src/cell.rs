//! One run in virtual time: one mode at one level with one seed.

use std::sync::Arc;
use std::time::Duration;

use contract::Moment;
use engine::sim::Profile;
use loadgen::Schedule;
use loadgen::record::seconds;
use router::{Priors, RouterConfig, WorkerView};

use crate::change::WorkerPlan;
use crate::cluster::{Cluster, ClusterPlan, Record};
use crate::contestant::Contestant;
use crate::load::{Conversations, Load, Recorded};
use crate::trace::Trace;
use crate::window::Window;
use crate::workload::Workload;
use stats::raw::{CellFacts, CellName, RawCell, SCHEMA, ServerCounters, VirtualFacts};

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
    /// From 1.
    pub repeat: u32,
    pub seed: u64,
    pub warmup: Duration,
    pub window: Duration,
}

impl CellPlan<'_> {
    fn cell_name(&self) -> CellName {
        CellName {
            mode: self.mode.name().to_owned(),
            concurrency: self.level,
            repeat: self.repeat,
        }
    }

    fn window(&self) -> Window {
        let begin = Moment::ZERO + self.warmup;
        Window {
            begin,
            end: begin + self.window,
        }
    }
}

/// Runs a cell.
pub fn run_cell(plan: &CellPlan<'_>) -> RawCell {
    let mut cluster = conversations(plan, Priors::default());
    let deadline = plan.window().end + GRACE;
    cluster.run_until_settled(deadline);
    // Running requests may finish, so that client and engines have counted the same requests.
    cluster.close();
    cluster.run_until_idle_or(deadline + GRACE);
    let run = Run {
        name: plan.cell_name(),
        seed: plan.seed,
        profile: &plan.profile.name,
        workers: plan.workers,
        window: plan.window(),
        all_measured: plan.workload.greedy.is_none(),
    };
    raw(cluster, run)
}

/// Runs a cell to the last answer and returns every placement, in the order in which they
/// were decided. Nothing new is sent once warm-up and window are over.
pub fn run_recorded(plan: &CellPlan<'_>) -> Vec<Record> {
    run_believing(plan, Priors::default()).0
}

/// The same with other first beliefs of the router; and how it sees the workers when nothing
/// new is sent.
pub(crate) fn run_believing(plan: &CellPlan<'_>, priors: Priors) -> (Vec<Record>, Vec<WorkerView>) {
    let mut cluster = conversations(plan, priors);
    cluster.records = Some(Vec::new());
    cluster.run_until(plan.window().end);
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
    mode: Contestant,
    speed: f64,
    seed: u64,
) -> RawCell {
    let window = Window {
        begin: Moment::ZERO,
        end: Moment::from_nanos(u64::MAX),
    };
    let plan = cluster_plan(workers.to_vec(), mode, seed);
    let recorded = Recorded::new(Arc::clone(trace), speed, seed, plan.router.blocks.size);
    let mut cluster = Cluster::new(plan, Load::Recorded(Box::new(recorded)), window);
    cluster.run_until_idle();
    // The run lasts as long as its load does.
    let window = Window {
        end: cluster.now(),
        ..window
    };
    let name = CellName {
        mode: mode.name().to_owned(),
        concurrency: 0,
        repeat: 1,
    };
    let profile = workers.first().map(|worker| worker.profile.name.as_str());
    let run = Run {
        name,
        seed,
        profile: profile.unwrap_or_default(),
        workers: workers.len() as u32,
        window,
        all_measured: true,
    };
    raw(cluster, run)
}

fn conversations(plan: &CellPlan<'_>, priors: Priors) -> Cluster {
    let workload = plan.workload;
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
    let mut load = Conversations::new(
        workload.script.clone(),
        schedule,
        plan.seed,
        plan.profile.block_size,
    );
    if let Some(greedy) = &workload.greedy {
        load = load.beside(greedy.clone());
    }
    let load = Load::Conversations(Box::new(load));
    Cluster::new(cluster, load, plan.window())
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

/// What a run was about.
struct Run<'a> {
    name: CellName,
    seed: u64,
    profile: &'a str,
    workers: u32,
    window: Window,
    /// Whether the workers counted the same requests as the records do.
    all_measured: bool,
}

fn raw(cluster: Cluster, run: Run<'_>) -> RawCell {
    let ended = cluster.end();
    let totals = ended.totals;
    RawCell {
        facts: CellFacts {
            schema: SCHEMA,
            name: run.name,
            router_mode: None,
            seed: run.seed,
            simulated: true,
            profile: run.profile.to_owned(),
            workers: Some(run.workers),
            window_begin_s: seconds(run.window.begin),
            window_end_s: seconds(run.window.end),
            measured_from_ms: None,
            steady: true,
            mode_confirmed: true,
            slots: Some(ended.slots),
            server: run.all_measured.then_some(ServerCounters {
                prompt_tokens: totals.prompt_tokens,
                cached_tokens: totals.cached_tokens,
            }),
            speculation: (totals.speculation.drafts > 0).then_some(totals.speculation),
            virtual_run: Some(VirtualFacts {
                dispatched_past_slots: ended.dispatched_past_slots,
                steps: ended.steps,
                simulated_s: seconds(ended.at),
            }),
            itl: ended.recorder.itl,
        },
        records: ended.recorder.records,
    }
}
