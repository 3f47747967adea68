//! Supervises an engine: announces it as a worker while it is healthy, and removes it while it is not.
//!
//! One task per engine, as for a worker of ours on the network. It reads the engine's
//! configuration, listens to its events, announces it, and checks its health every second. When
//! a check fails for too long, the engine's feed and streams end, and the task starts over.

use std::sync::Arc;

use contract::{
    FeedMessage, GpuSpec, SpeculationCounts, WorkerCard, WorkerId, WorkerStatus, error_chain,
};
use tasks::Tasks;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use transport::{Change, Member, Roster, feed};

use crate::agreement::{self, Disagreement, Template};
use crate::cache_view::{CacheConfig, CacheView};
use crate::dialect::{CacheEvents, Dialect};
use crate::drafts::DraftTally;
use crate::engine_cache::FormatMismatch;
use crate::estimate::USUAL_BLOCKS;
use crate::events::EventError;
use crate::events::poll::{Endpoint, Poller};
use crate::events::zmq::{Decode, LateListener, Listener, Publisher};
use crate::figures::{About, Load};
use crate::last_sign::LastSign;
use crate::link::HttpLink;
use crate::metrics::AdapterMetrics;
use crate::probe::{Probe, Unhealthy};
use crate::settings::EngineSettings;
use crate::spec::EngineSpec;

/// Tokens per step if the engine does not report them: vLLM's default.
const USUAL_STEP_TOKENS: u32 = 8192;

/// The word for a drafter that nobody has named.
pub(crate) const UNKNOWN_DRAFTER: &str = "unknown";

/// Why an engine does not join.
#[derive(Debug, thiserror::Error)]
enum JoinError {
    #[error(transparent)]
    Unhealthy(#[from] Unhealthy),
    #[error(transparent)]
    Disagreement(#[from] Disagreement),
    #[error(transparent)]
    FormatMismatch(#[from] FormatMismatch),
}

/// Why an engine stopped being a worker.
#[derive(Debug, thiserror::Error)]
enum Loss {
    #[error(transparent)]
    Unhealthy(Unhealthy),
    #[error(transparent)]
    FormatMismatch(FormatMismatch),
}

pub(crate) struct Supervisor {
    pub(crate) spec: EngineSpec,
    pub(crate) settings: EngineSettings,
    pub(crate) probe: Probe,
    pub(crate) roster: Roster,
    pub(crate) metrics: AdapterMetrics,
    pub(crate) drafts: DraftTally,
    pub(crate) tasks: Tasks,
    /// How often it has joined.
    pub(crate) epoch: u64,
    /// Its events have shown that its blocks are unusable. Valid until it restarts.
    pub(crate) refused: Option<FormatMismatch>,
    /// The error that was logged last, so that it is not logged every second.
    pub(crate) logged: Option<String>,
}

/// An engine that has joined.
struct Session {
    cache: Arc<CacheView>,
    total_blocks: u32,
    last_sign: LastSign,
    /// Resolves if its blocks turn out to be unusable.
    mismatch: oneshot::Receiver<FormatMismatch>,
    /// Ends its streams and its listener when dropped.
    _gone: tokio_util::sync::DropGuard,
}

impl Drop for Session {
    fn drop(&mut self) {
        // The end of the feed tells the router.
        self.cache.close();
    }
}

impl Supervisor {
    pub(crate) async fn run(mut self) {
        loop {
            self.epoch += 1;
            match self.join().await {
                Ok(session) => {
                    self.logged = None;
                    let loss = self.stay(session).await;
                    self.metrics.lost.inc();
                    let (engine, reason) = (self.spec.display_name(), error_chain(&loss));
                    warn!(engine, reason, "engine lost");
                    if let Loss::FormatMismatch(mismatch) = loss {
                        self.refused = Some(mismatch);
                    }
                }
                Err(error) => self.log(&error),
            }
            tokio::time::sleep(self.settings.timing.retry_interval).await;
        }
    }

    fn log(&mut self, error: &JoinError) {
        let text = error_chain(error);
        if self.logged.as_ref() != Some(&text) {
            let engine = self.spec.display_name();
            warn!(engine, error = text, "cannot use this engine");
            self.logged = Some(text);
        }
    }

    async fn join(&mut self) -> Result<Session, JoinError> {
        if let Err(error) = self.probe.healthy().await {
            self.refused = None;
            return Err(error.into());
        }
        if let Some(mismatch) = self.refused {
            return Err(mismatch.into());
        }
        let about = self.probe.about().await;
        self.fits(&about)?;
        let model = agreement::model_name(self.spec.model.as_deref(), &self.settings, &about)?;
        self.agrees(&model).await?;
        let last_sign = LastSign::now();
        let (publisher, feed) = feed(self.settings.clock);
        let gone = CancellationToken::new();
        let config = self.config(&about);
        let (served, shared) = (&self.settings.model, self.settings.shared.as_ref());
        let told = shared.map(|shared| shared.told(served));
        let cache = CacheView::new(config, self.metrics.clone(), publisher, told);
        let cache = Arc::new(cache);
        if let Some(shared) = shared {
            shared.joined(served, &cache);
        }
        // Before the card: whether it drafts.
        let load = self.probe.load().await;
        self.note(load);
        let card = WorkerCard {
            forwards: self.probe.forwards().await,
            ..self.card(&about, config)
        };
        let link = HttpLink {
            dialect: self.dialect(),
            model,
            server: self.probe.server.clone(),
            address: self.spec.address(),
            cache: Arc::clone(&cache),
            tokenize: self.settings.tokenize.clone(),
            clock: self.settings.clock,
            timing: self.settings.timing,
            last_sign: last_sign.clone(),
            gone: gone.clone(),
        };
        let session = Session {
            mismatch: self.listen(&cache, &gone).await?,
            cache,
            total_blocks: card.total_blocks,
            last_sign,
            _gone: gone.drop_guard(),
        };
        info!(
            engine = card.name,
            blocks = card.total_blocks,
            slots = card.slots,
            "engine joined"
        );
        self.metrics.joined.inc();
        let member = Member {
            card,
            link: Arc::new(link),
            feed,
            // Events may have reported blocks already.
            warm: true,
            lease: None,
        };
        self.roster.announce(Change::Joined(Box::new(member))).await;
        Ok(session)
    }

    /// Whether the engine has our vocabulary; warns if it makes other tokens of rare texts or of
    /// conversations.
    async fn agrees(&self, model: &str) -> Result<(), Disagreement> {
        self.probe.check_vocabulary(model, &self.settings).await?;
        let engine = self.spec.display_name();
        if let Err(error) = self.probe.check_tokenizer(model, &self.settings).await {
            let error = error_chain(&error);
            warn!(
                engine,
                error, "some texts become other tokens there: fewer blocks will be found again"
            );
        }
        match self.probe.check_template(model, &self.settings).await {
            Template::Same | Template::Unknown => {}
            Template::Differs => warn!(
                engine,
                "its server renders conversations with another chat template: forwarded requests \
                 are routed by other tokens than it computes"
            ),
        }
        Ok(())
    }

    /// Follows the engine's cache events from now on. They are advisory: an engine whose events
    /// cannot be reached serves, and what it holds is estimated until they can.
    async fn listen(
        &self,
        cache: &Arc<CacheView>,
        gone: &CancellationToken,
    ) -> Result<oneshot::Receiver<FormatMismatch>, FormatMismatch> {
        let (sender, receiver) = oneshot::channel();
        match self.dialect().events {
            CacheEvents::Published { decode } => {
                let Some(publisher) = self.publisher(decode) else {
                    return Ok(receiver);
                };
                let first = Listener::connect(publisher.clone(), cache, &self.metrics).await;
                match first {
                    Ok(listener) => self.spawn(gone, sender, listener.run()),
                    Err(EventError::FormatMismatch(mismatch)) => return Err(mismatch),
                    Err(error @ (EventError::Timeout { .. } | EventError::Subscribe { .. })) => {
                        let (engine, error) = (self.spec.display_name(), error_chain(&error));
                        warn!(
                            engine,
                            error,
                            "cache events cannot be reached; estimating what the engine holds"
                        );
                        cache.estimate();
                        let later = LateListener {
                            publisher,
                            cache: Arc::clone(cache),
                            metrics: self.metrics.clone(),
                            retry_interval: self.settings.timing.retry_interval,
                        };
                        self.spawn(gone, sender, later.run());
                    }
                }
            }
            CacheEvents::Polled { path, decode } => {
                let endpoint = Endpoint { path, decode };
                let mut poller = Poller::new(&self.probe.server, endpoint, cache, &self.metrics);
                if !poller.begin().await? {
                    info!(
                        engine = self.spec.display_name(),
                        "the engine returns no cache events yet"
                    );
                }
                self.spawn(gone, sender, poller.run());
            }
            CacheEvents::None => {}
        }
        Ok(receiver)
    }

    /// `None` if the operator has not said where events are published.
    fn publisher(&self, decode: Decode) -> Option<Publisher> {
        Some(Publisher {
            events: self.spec.events.clone()?,
            replay: self.spec.replay.clone(),
            topic: self.spec.topic.clone(),
            decode,
            patience: self.settings.timing.response_timeout,
        })
    }

    /// Runs until the engine is gone, and passes on that its blocks are unusable.
    fn spawn(
        &self,
        gone: &CancellationToken,
        sender: oneshot::Sender<FormatMismatch>,
        listening: impl Future<Output = FormatMismatch> + Send + 'static,
    ) {
        let gone = gone.clone();
        self.tasks.spawn(async move {
            if let Some(mismatch) = gone.run_until_cancelled(listening).await {
                let _ = sender.send(mismatch);
            }
        });
    }

    /// Adds what the engine has drafted to what was known of it.
    fn note(&mut self, load: Option<Load>) -> Load {
        let mut load = load.unwrap_or_default();
        if let Some(report) = load.drafts.take() {
            self.drafts.add(report);
        }
        load
    }

    /// Returns why the engine is gone, once it is.
    async fn stay(&mut self, mut session: Session) -> Loss {
        let timing = self.settings.timing;
        let mut checks = tokio::time::interval(timing.check_interval);
        checks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut last_healthy = Instant::now();
        // Without events the sender is dropped at once, and there is nothing to wait for.
        let mut listening = true;
        loop {
            tokio::select! {
                mismatch = &mut session.mismatch, if listening => match mismatch {
                    Ok(mismatch) => return Loss::FormatMismatch(mismatch),
                    Err(_) => listening = false,
                },
                _ = checks.tick() => {
                    let (healthy, load) = tokio::join!(self.probe.healthy(), self.probe.load());
                    match healthy {
                        Ok(()) => {
                            last_healthy = Instant::now();
                            session.last_sign.seen();
                        }
                        Err(error) if error.is_silence() && session.last_sign.elapsed() >= timing.silent_after => return Loss::Unhealthy(error),
                        Err(error) if !error.is_silence() && last_healthy.elapsed() >= timing.lost_after => return Loss::Unhealthy(error),
                        Err(error) => debug!(engine = self.spec.display_name(), error = error_chain(&error), "health check failed"),
                    }
                    let load = self.note(load);
                    session.report(&load, self.drafts.counts());
                }
            }
        }
    }

    fn fits(&self, about: &About) -> Result<(), FormatMismatch> {
        let router = self.settings.blocks.size;
        match about.block_size {
            // Without events the size of its blocks does not matter.
            Some(engine) if engine != router && self.publishes() => {
                Err(FormatMismatch::BlockSize {
                    engine: engine as usize,
                    router: router as usize,
                })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn dialect(&self) -> &'static Dialect {
        self.spec.kind.dialect()
    }

    /// Whether cache events are expected.
    fn publishes(&self) -> bool {
        match self.dialect().events {
            CacheEvents::Published { .. } => self.spec.events.is_some(),
            CacheEvents::Polled { .. } => true,
            CacheEvents::None => false,
        }
    }

    fn config(&self, about: &About) -> CacheConfig {
        let blocks = self.spec.blocks.or(about.blocks);
        CacheConfig {
            worker: WorkerId(self.spec.worker_id()),
            epoch: self.epoch,
            format: self.settings.blocks,
            most_blocks: blocks.map_or(USUAL_BLOCKS, |blocks| blocks as usize),
            block_size_known: about.block_size.is_some(),
            publishes: self.publishes(),
            omits_zero_cached: self.dialect().omits_zero_cached,
        }
    }

    fn drafter(&self) -> &'static str {
        match self.spec.drafts {
            Some(drafter) => drafter.as_str(),
            None if self.drafts.is_reported() => UNKNOWN_DRAFTER,
            None => "none",
        }
    }

    fn card(&self, about: &About, config: CacheConfig) -> WorkerCard {
        WorkerCard {
            id: config.worker,
            name: self.spec.display_name(),
            model: self.settings.model.clone(),
            blocks: self.settings.blocks,
            total_blocks: u32::try_from(config.most_blocks).unwrap_or(u32::MAX),
            // 0: the router measures it.
            slots: self.spec.slots.or(about.slots).unwrap_or(0),
            max_step_tokens: USUAL_STEP_TOKENS,
            max_context_tokens: about
                .max_context_tokens
                .unwrap_or(self.settings.max_context_tokens),
            gpu: GpuSpec {
                // No engine reports it.
                kind: String::new(),
                count: 1,
                memory_bytes: 0,
            },
            engine: self.spec.kind.to_string(),
            simulated: false,
            abilities: self.spec.kind.abilities(),
            speculation: self.drafter().to_owned(),
            forwards: Vec::new(),
            adapters: about.adapters.clone(),
        }
    }
}

impl Session {
    /// Publishes how busy the engine is, and how far its feed goes.
    fn report(&self, load: &Load, drafts: &SpeculationCounts) {
        let (held, totals) = self.cache.totals();
        let total = self.total_blocks;
        let active = (f64::from(total) * load.usage.clamp(0.0, 1.0)) as u32;
        let held = u32::try_from(held).unwrap_or(u32::MAX);
        let cached = held.saturating_sub(active).min(total - active);
        self.cache.report(FeedMessage::Status(WorkerStatus {
            running: load.running,
            waiting: load.waiting,
            active_blocks: active,
            cached_blocks: cached,
            free_blocks: total - active - cached,
            prompt_tokens: totals.prompt_tokens,
            cached_tokens: totals.cached_tokens,
            output_tokens: totals.output_tokens,
            cache_estimated: self.cache.is_estimated(),
            speculation: drafts.clone(),
            ..WorkerStatus::default()
        }));
    }
}
