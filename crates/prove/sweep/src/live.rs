//! A sweep against a running server, in real time.
//!
//! One run after the other: switch the mode and see that it is in force, empty the caches, warm
//! up until load is steady, measure, keep the load on until the last measured answer has ended,
//! then let running requests finish and wait until the server is idle. Load stays on after the
//! window because answers that end into a silence are faster than those that do not.
//!
//! | module | what it does |
//! |---|---|
//! | [`deployment`] | what is controlled: a `homing`, or anything through commands |
//! | [`scrape`] | what a server says about itself in Prometheus' format |
//! | `command` | running what somebody wrote for a shell |
//! | `collector` | keeps the records of a run |
//! | `steadiness` | whether load has settled |

mod collector;
mod command;
pub mod deployment;
pub mod scrape;
mod steadiness;

use std::time::Duration;

use contract::{Clock, Moment};
use loadgen::client::{Client, Patience};
use loadgen::record::seconds;
use loadgen::settings::SettingsError;
use loadgen::{LiveConfig, LoadGenerator, Settings, Snapshot, Starter, StarterMode, Starters};
use telemetry::Registry;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::collector::Collector;
use self::deployment::{Deployment, DeploymentError};
use self::scrape::Counters;
use crate::folder::{Folder, FolderError};
use crate::plan::PlanError;
use lab::workload::Workload;
use stats::cell_summary::CellSummary;
use stats::figures::Pool;
use stats::raw::{CellFacts, CellName, RawCell, SCHEMA, ServerCounters, Speculation};

/// How long a server may take to end what was cancelled.
const IDLING: Duration = Duration::from_secs(60);
/// How long an engine may hold the blocks of a request that was cancelled: some steps. Blocks that
/// are held cannot be emptied.
const CANCELLING: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_secs(1);

/// What a live sweep is made of.
#[expect(missing_debug_implementations, reason = "a watcher is a closure")]
pub struct LiveRun<'a> {
    pub folder: &'a Folder,
    pub deployment: Deployment,
    pub client: Client,
    /// Clients of the servers that the plan measures beside this one, by their names.
    pub beside: Vec<(String, Client)>,
    pub patience: Patience,
    /// Texts to begin conversations with, as many as the workload's pool or more.
    pub starters: Vec<Starter>,
    /// The model's name, and whether the server says that it is simulated.
    pub model: String,
    pub simulated: bool,
    /// The same as the client's.
    pub clock: Clock,
    /// Unix milliseconds now.
    pub unix_ms: fn() -> u64,
    /// Once cancelled, the current run is cancelled and no other is begun.
    pub stop: CancellationToken,
    /// Whether requests that are not measured may finish before the next run. Otherwise they are
    /// cancelled, and what the server counted is not compared: it lacks them.
    pub drain: bool,
    /// No run is begun that would probably end later.
    pub deadline: Option<Moment>,
    pub watcher: Box<dyn FnMut(News<'_>) + 'a>,
}

/// Progress events of a sweep.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// A run begins, with how many are left including it.
    Begins {
        name: &'a CellName,
        left: usize,
    },
    Stage(Stage),
    Second(&'a Snapshot),
    Ended(&'a CellSummary),
    /// The next run would not end before the deadline.
    OutOfTime {
        left: usize,
        expected: Duration,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Switching,
    WarmingUp,
    Measuring,
    Finishing,
}

/// Why a live sweep cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    #[error(transparent)]
    Deployment(#[from] DeploymentError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("workload: {0}")]
    Settings(#[from] SettingsError),
    #[error("no request of {0} was answered")]
    NothingAnswered(CellName),
}

/// How conversations go, and what they begin with.
struct Load {
    settings: Settings,
    starters: Vec<Starter>,
}

impl LiveRun<'_> {
    /// Makes the runs that are left, until it is stopped, and says how many were completed.
    pub async fn run(&mut self) -> Result<usize, LiveError> {
        let left = self.folder.left();
        // The longest so far: an estimate that is too short would cost a run that is not counted.
        let mut longest = None;
        for (done, name) in left.iter().enumerate() {
            let expected = longest.unwrap_or_else(|| self.folder.plan().expected_run());
            let begun = self.clock.now();
            if self
                .deadline
                .is_some_and(|deadline| begun + expected > deadline)
            {
                let left = left.len() - done;
                (self.watcher)(News::OutOfTime { left, expected });
                return Ok(done);
            }
            (self.watcher)(News::Begins {
                name,
                left: left.len() - done,
            });
            let stop = self.stop.clone();
            let raw = tokio::select! {
                () = stop.cancelled() => None,
                raw = Box::pin(self.cell(name)) => Some(raw?),
            };
            let Some(raw) = raw else {
                return Ok(done);
            };
            raw.write(&self.folder.cells()).map_err(FolderError::from)?;
            let pool = Pool {
                runs: std::slice::from_ref(&raw),
            };
            let slo = &self.folder.plan().slo;
            let cell = CellSummary::new(&name.mode, Some(name.concurrency), pool, Some(slo));
            (self.watcher)(News::Ended(&cell));
            longest = longest.max(Some(self.clock.now() - begun));
        }
        Ok(left.len())
    }

    /// One run. Dropping it ends its load.
    async fn cell(&mut self, name: &CellName) -> Result<RawCell, LiveError> {
        let (plan, clock) = (self.folder.plan(), self.clock);
        let seed = plan.seed_of(name.repeat);
        self.stage(Stage::Switching);
        // A server beside has one mode of its own, which nobody switches, and counts for itself.
        let is_beside = self.client_beside(&name.mode).is_some();
        let mode_confirmed = is_beside || self.deployment.switch(&name.mode).await?;
        self.deployment.reset().await?;
        let before = self.deployment.counters().await.filter(|_| !is_beside);
        let collector = Collector::default();
        let tasks = TaskTracker::new();
        let generator = self.generator(name, seed, &collector, &tasks)?;
        self.stage(Stage::WarmingUp);
        generator.start().await;
        let steady = self.warm_up(&generator, name.concurrency).await;
        self.stage(Stage::Measuring);
        let (begin, measured_from_ms) = (clock.now(), (self.unix_ms)());
        let end = begin + plan.window();
        collector.open(begin, end);
        self.look_until(&generator, |_| clock.now() >= end).await;
        self.stage(Stage::Finishing);
        let patience = self.patience.answer + LOOK;
        let deadline = end + patience;
        self.look_until(&generator, |generator| {
            let oldest = generator.oldest_in_flight();
            oldest.is_none_or(|oldest| oldest >= end) || clock.now() >= deadline
        })
        .await;
        self.end_load(&generator, deadline + patience).await;
        let after = self.deployment.counters().await;
        let counted = difference(before.as_ref(), after.as_ref());
        let still_confirmed = is_beside || self.deployment.confirm(&name.mode).await?;
        self.until_idle().await;
        let (records, itl) = collector.take();
        if records.iter().all(|record| record.error.is_some()) {
            return Err(LiveError::NothingAnswered(name.clone()));
        }
        Ok(RawCell {
            facts: CellFacts {
                schema: SCHEMA,
                name: name.clone(),
                router_mode: None,
                seed,
                simulated: self.simulated,
                profile: self.model.clone(),
                workers: self.deployment.workers(),
                window_begin_s: seconds(begin),
                window_end_s: seconds(end),
                measured_from_ms: Some(measured_from_ms),
                steady,
                mode_confirmed: mode_confirmed && still_confirmed,
                slots: counted.as_ref().and_then(|counted| counted.slots),
                server: counted
                    .filter(|_| self.drain)
                    .as_ref()
                    .and_then(server_counters),
                speculation: counted.as_ref().and_then(speculation),
                virtual_run: None,
                itl,
            },
            records,
        })
    }

    /// Lets running requests finish, so that both sides have counted the same requests, or
    /// cancels them.
    async fn end_load(&mut self, generator: &LoadGenerator, latest: Moment) {
        let clock = self.clock;
        if self.drain {
            generator.drain().await;
            self.look_until(generator, |generator| {
                generator.oldest_in_flight().is_none() || clock.now() >= latest
            })
            .await;
        }
        generator.stop().await;
        generator.stopped().await;
    }

    /// A server that never gets idle makes the next run's caches warm, and nothing worse.
    async fn until_idle(&self) {
        let _ = tokio::time::timeout(IDLING, self.deployment.idle()).await;
        if !self.drain {
            tokio::time::sleep(CANCELLING).await;
        }
    }

    fn client_beside(&self, name: &str) -> Option<&Client> {
        let found = self.beside.iter().find(|(beside, _)| beside == name);
        found.map(|(_, client)| client)
    }

    fn stage(&mut self, stage: Stage) {
        (self.watcher)(News::Stage(stage));
    }

    fn generator(
        &self,
        name: &CellName,
        seed: u64,
        collector: &Collector,
        tasks: &TaskTracker,
    ) -> Result<LoadGenerator, LiveError> {
        let Load { settings, starters } = self.load(name.concurrency)?;
        let config = LiveConfig {
            settings,
            seed,
            sampling_seeds: true,
            warmup: Duration::ZERO,
            unix_ms: (self.unix_ms)(),
        };
        let client = self.client_beside(&name.mode).unwrap_or(&self.client);
        let parts = loadgen::LiveParts {
            client: client.clone(),
            starters,
            user_model: None,
            registry: Registry::new(),
            clock: self.clock,
            records: Some(collector.sink()),
            ready: loadgen::Readiness::assumed(),
        };
        Ok(LoadGenerator::spawn(config, parts, tasks)?)
    }

    /// The workload in the words of a load generator.
    fn load(&self, concurrency: u32) -> Result<Load, LiveError> {
        let workload = Workload::find(&self.folder.plan().workload).map_err(|error| PlanError {
            field: "workload",
            problem: error.to_string(),
        })?;
        let script = &workload.script;
        let (pool, starters) = match script.starters {
            Starters::Shared { pool, .. } => (pool as usize, StarterMode::Shared),
            Starters::Unique => (self.starters.len(), StarterMode::Unique),
        };
        if pool > self.starters.len() {
            let problem = format!(
                "{pool} texts are needed, but only {} are available",
                self.starters.len()
            );
            let field = "workload";
            return Err(PlanError { field, problem }.into());
        }
        let cut = |starter: &Starter| match workload.text_limit {
            Some(limit) => starter.clone().cut(limit),
            None => starter.clone(),
        };
        let think = &script.think_time;
        Ok(Load {
            settings: Settings {
                concurrency,
                turns: script.turns.clone(),
                think_time_s: think.start().as_secs_f64()..=think.end().as_secs_f64(),
                max_tokens: script.max_tokens,
                starts_per_second: workload.starts_per_second,
                starters,
                ..Settings::default()
            },
            starters: self.starters[..pool].iter().map(cut).collect(),
        })
    }

    /// Waits for the planned time and until load is steady; says whether it became so.
    async fn warm_up(&mut self, generator: &LoadGenerator, concurrency: u32) -> bool {
        let planned = self.clock.now() + self.folder.plan().warmup();
        let latest = planned + self.folder.plan().settle();
        let mut steady = false;
        let clock = self.clock;
        self.look_until(generator, |generator| {
            steady = steadiness::is_steady(generator, concurrency);
            clock.now() >= planned && (steady || clock.now() >= latest)
        })
        .await;
        steady
    }

    /// Looks once per second, shows what it sees, and goes on when `is_over`.
    async fn look_until(
        &mut self,
        generator: &LoadGenerator,
        mut is_over: impl FnMut(&LoadGenerator) -> bool,
    ) {
        while !is_over(generator) {
            (self.watcher)(News::Second(&generator.snapshot()));
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn difference(before: Option<&Counters>, after: Option<&Counters>) -> Option<Counters> {
    Some(after?.since(before?))
}

fn server_counters(counted: &Counters) -> Option<ServerCounters> {
    Some(ServerCounters {
        prompt_tokens: counted.prompt_tokens?,
        cached_tokens: counted.cached_tokens?,
    })
}

fn speculation(counted: &Counters) -> Option<Speculation> {
    let drafts = counted.drafts.filter(|&drafts| drafts > 0)?;
    Some(Speculation {
        drafts,
        drafted_tokens: counted.drafted_tokens?,
        accepted_tokens: counted.accepted_tokens?,
    })
}
