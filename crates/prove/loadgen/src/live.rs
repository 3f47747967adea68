//! Load on a real server.
//!
//! The shell around the pure parts: a [`Driver`] says which turn is due, a task sends it
//! through the [`Client`](crate::client::Client), and what comes back goes to the figures and
//! the log. One task owns the conversations; another ranks the last minute once per second, so
//! that sorting never delays a turn.
//!
//! # Guarantees
//!
//! - **The handle never waits for load.** Snapshots are read from a watch, the log under a
//!   short lock.
//! - **A target that goes away is asked again**, once per second for each conversation, and
//!   load resumes when it returns.
//! - **Nothing outlives a stop.** Running requests are dropped, which closes their streams.

mod conductor;
mod measurements;
mod meter;
mod turn;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use contract::{Clock, Moment};
use parking_lot::Mutex;
use telemetry::Registry;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;
use tokio_util::task::TaskTracker;

use self::conductor::Conductor;
use self::measurements::Measurements;
use crate::client::{Client, Exchange};
use crate::driver::Driver;
use crate::log::{Conversation, ConversationSummary, Log};
use crate::readiness::Readiness;
use crate::record::RequestRecord;
use crate::rolling::Flow;
use crate::settings::{Settings, SettingsError};
use crate::snapshot::{Phase, Snapshot};
use crate::starter::Starter;
use crate::totals::Totals;
use crate::user_model::UserModel;

/// Conversations that the log keeps.
pub const LOG_SIZE: usize = 500;

/// Commands that may wait: they are given by people.
const COMMANDS: usize = 16;

/// How a load generator runs; what can change is in [`Settings`].
#[derive(Clone, Debug)]
pub struct LiveConfig {
    pub settings: Settings,
    pub seed: u64,
    /// Send a seed of its own with every request. Then an answer is the same in every run of
    /// the same seed, and two conversations that begin alike are answered differently even by a
    /// server that does not sample: else their answers would be shared prefixes too.
    pub sampling_seeds: bool,
    /// Requests that are sent earlier after a start are not part of the totals.
    pub warmup: Duration,
    /// The current time in Unix milliseconds.
    pub unix_ms: u64,
}

/// Receives every record with what it was made from, in the order in which requests end. It is
/// called by the task that sends, and must not block.
pub type RecordSink = Box<dyn FnMut(&RequestRecord, &Exchange) + Send>;

/// What a load generator is made of.
#[expect(missing_debug_implementations, reason = "a sink is a closure")]
pub struct LiveParts {
    pub client: Client,
    /// At least one.
    pub starters: Vec<Starter>,
    pub user_model: Option<UserModel>,
    pub registry: Registry,
    /// The same as the client's.
    pub clock: Clock,
    pub records: Option<RecordSink>,
    /// Load that is started before waits.
    pub ready: Readiness,
}

/// Commands to a load generator.
#[derive(Clone, Debug)]
enum Command {
    Start,
    Pause,
    Resume,
    /// Send nothing new and let running requests finish.
    Drain,
    /// End everything now.
    Stop,
    Set(Box<Settings>),
}

/// A command, and who waits until it is obeyed.
type Order = (Command, oneshot::Sender<()>);

/// A handle on a running load generator. Cheap to clone. When the last handle is gone, load
/// stops.
#[derive(Clone, Debug)]
pub struct LoadGenerator {
    orders: mpsc::Sender<Order>,
    snapshots: watch::Receiver<Snapshot>,
    shared: Arc<Shared>,
}

/// What both tasks and the handle see.
#[derive(Debug)]
struct Shared {
    clock: Clock,
    measurements: Mutex<Measurements>,
    /// Tokens as they arrive, without the lock.
    flow: Arc<Flow>,
    log: Mutex<Log>,
}

impl LoadGenerator {
    /// Makes a load generator that is stopped. Its tasks run on `tasks` until the last handle
    /// is gone.
    pub fn spawn(
        config: LiveConfig,
        parts: LiveParts,
        tasks: &TaskTracker,
    ) -> Result<Self, SettingsError> {
        config.settings.check()?;
        let clock = parts.clock;
        let since_origin = clock.now() - Moment::ZERO;
        let origin_ms = config
            .unix_ms
            .saturating_sub(u64::try_from(since_origin.as_millis()).unwrap_or(0));
        let measurements = Measurements::new(&config, &parts);
        let (sender, receiver) = watch::channel(measurements.copy(clock.now()).rank());
        let shared = Arc::new(Shared {
            clock,
            flow: measurements.flow(),
            measurements: Mutex::new(measurements),
            log: Mutex::new(Log::new(LOG_SIZE, origin_ms)),
        });
        let (sender_of_orders, orders) = mpsc::channel(COMMANDS);
        let script = config.settings.script(parts.starters.len() as u32);
        let driver = Driver::new(script, config.settings.schedule(), config.seed);
        let conductor = Conductor::new(config, parts, driver, Arc::clone(&shared));
        let ended = tokio_util::sync::CancellationToken::new();
        let guard = ended.clone().drop_guard();
        tasks.spawn(publish(Arc::clone(&shared), sender, ended));
        let work = tasks.clone();
        tasks.spawn(async move {
            conductor.run(orders, work).await;
            drop(guard);
        });
        Ok(Self {
            orders: sender_of_orders,
            snapshots: receiver,
            shared,
        })
    }

    /// Starts load, or resumes it. Where the server has nobody yet who answers, load waits until
    /// it has.
    pub async fn start(&self) {
        self.order(Command::Start).await;
    }

    /// Sends nothing more until [`resume`](Self::resume); conversations wait.
    pub async fn pause(&self) {
        self.order(Command::Pause).await;
    }

    pub async fn resume(&self) {
        self.order(Command::Resume).await;
    }

    /// Sends nothing more; running requests may finish, and then load is stopped.
    pub async fn drain(&self) {
        self.order(Command::Drain).await;
    }

    /// Ends everything now.
    pub async fn stop(&self) {
        self.order(Command::Stop).await;
    }

    /// Replaces the settings of the running load.
    pub async fn set(&self, settings: Settings) -> Result<(), SettingsError> {
        settings.check()?;
        self.order(Command::Set(Box::new(settings))).await;
        Ok(())
    }

    /// A snapshot per second, and one at each change of phase.
    pub fn snapshots(&self) -> watch::Receiver<Snapshot> {
        self.snapshots.clone()
    }

    /// How things are at this moment.
    pub fn snapshot(&self) -> Snapshot {
        let copy = self
            .shared
            .measurements
            .lock()
            .copy(self.shared.clock.now());
        copy.rank()
    }

    /// When the oldest running request became due.
    pub fn oldest_in_flight(&self) -> Option<Moment> {
        self.shared.measurements.lock().oldest_in_flight
    }

    /// Tokens that came in the last so many whole seconds, at most a minute.
    pub fn tokens_of_late(&self, seconds: u64) -> u64 {
        let now = self.shared.clock.now().as_secs_f64() as u64;
        let (tokens, _) = self
            .shared
            .flow
            .sum(now.saturating_sub(seconds), now.saturating_sub(1));
        tokens
    }

    /// Waits until load is stopped and nothing is running.
    pub async fn stopped(&self) {
        self.until(|phase| phase == Phase::Stopped).await;
    }

    /// Waits until load that was started has begun.
    pub async fn begun(&self) {
        self.until(|phase| phase != Phase::Waiting).await;
    }

    async fn until(&self, reached: impl Fn(Phase) -> bool) {
        let mut snapshots = self.snapshots();
        while !reached(self.shared.measurements.lock().phase) {
            // Fails only if the task is gone, and then nothing runs.
            if snapshots.changed().await.is_err() {
                return;
            }
        }
    }

    /// Figures since the last start.
    pub fn totals(&self) -> Totals {
        self.shared.measurements.lock().totals.clone()
    }

    /// Recent conversations, newest first.
    pub fn conversations(&self) -> Vec<ConversationSummary> {
        self.shared.log.lock().list(self.shared.clock.now())
    }

    /// One conversation, if it is still in the log.
    pub fn conversation(&self, id: &str) -> Option<Conversation> {
        self.shared.log.lock().find(id, self.shared.clock.now())
    }

    /// All conversations of the log with their text, oldest first.
    pub fn transcripts(&self) -> Vec<Conversation> {
        self.shared.log.lock().all(self.shared.clock.now())
    }

    /// Returns once it is obeyed.
    async fn order(&self, command: Command) {
        let (done, obeyed) = oneshot::channel();
        // Both fail only if the task is gone, as when its runtime shuts down.
        let _ = self.orders.send((command, done)).await;
        let _ = obeyed.await;
    }
}

/// Ranks the last minute once per second, and whenever the phase changes.
async fn publish(
    shared: Arc<Shared>,
    snapshots: watch::Sender<Snapshot>,
    ended: tokio_util::sync::CancellationToken,
) {
    let changed = Arc::clone(&shared.measurements.lock().changed);
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = changed.notified() => {}
            () = ended.cancelled() => break,
        }
        let copy = shared.measurements.lock().copy(shared.clock.now());
        snapshots.send_replace(copy.rank());
    }
    let copy = shared.measurements.lock().copy(shared.clock.now());
    snapshots.send_replace(copy.rank());
}
