//! Keeps engines as workers: joins those that answer, lets go of those that do not.
//!
//! One task an engine, as for a worker on the network: it asks what the engine is, listens to
//! its events, announces it, and looks every second whether it is still well. When it is not,
//! its feed and its streams end, and the task begins again.

use std::collections::HashSet;
use std::sync::Arc;

use contract::{FeedMessage, GpuSpec, WorkerCard, WorkerId, WorkerStatus};
use tasks::Tasks;
use telemetry::Registry;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use transport::{Change, Member, Roster, feed};

use crate::chain::Cut;
use crate::estimate::USUAL_BLOCKS;
use crate::events::EventError;
use crate::events::poll::Poller;
use crate::events::zmq::Listener;
use crate::figures::{About, Load};
use crate::holdings::{Holdings, Owner};
use crate::http::{Server, bearer};
use crate::link::HttpLink;
use crate::metrics::EngineMetrics;
use crate::mirror::Misfit;
use crate::probe::Probe;
use crate::settings::EngineSettings;
use crate::spec::{EngineKind, EngineSpec};

/// Tokens of one step where the engine does not say: what vLLM takes by default.
const USUAL_STEP_TOKENS: u32 = 8192;

/// Why engines cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    #[error("two engines have the id {0}: give one of them another with id=")]
    SameId(u64),
    #[error("two engines have the name {0}: give one of them another with name=")]
    SameName(String),
    #[error("the engines' API key has characters that no header can carry")]
    Key,
}

/// Why an engine does not join.
#[derive(Debug, thiserror::Error)]
enum JoinError {
    #[error("it does not answer: {0}")]
    Silent(String),
    #[error(transparent)]
    Events(#[from] EventError),
    #[error(transparent)]
    Misfit(#[from] Misfit),
}

/// Why an engine is no worker any more.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("it does not answer: {0}")]
    Silent(String),
    #[error(transparent)]
    Misfit(Misfit),
}

/// The engines of a frontend.
#[derive(Clone, Debug)]
pub struct Engines {
    names: Vec<String>,
}

impl Engines {
    /// Begins to keep each engine on `tasks`, until they are stopped.
    pub fn start(
        specs: Vec<EngineSpec>,
        settings: &EngineSettings,
        roster: &Roster,
        registry: &Registry,
        tasks: &Tasks,
    ) -> Result<Self, StartError> {
        let (mut ids, mut names) = (HashSet::new(), HashSet::new());
        for spec in &specs {
            if !ids.insert(spec.worker_id()) {
                return Err(StartError::SameId(spec.worker_id()));
            }
            if !names.insert(spec.display_name()) {
                return Err(StartError::SameName(spec.display_name()));
            }
        }
        let key = match &settings.api_key {
            Some(key) => Some(bearer(key).ok_or(StartError::Key)?),
            None => None,
        };
        let names = specs.iter().map(EngineSpec::display_name).collect();
        for spec in specs {
            let keeper = Keeper {
                probe: Probe {
                    kind: spec.kind,
                    server: Server::new(&spec.url, key.clone()),
                    patience: settings.pace.patience,
                },
                metrics: EngineMetrics::new(registry, &spec.display_name()),
                settings: settings.clone(),
                roster: roster.clone(),
                tasks: tasks.clone(),
                epoch: 0,
                refused: None,
                complained: None,
                spec,
            };
            tasks.spawn_until_stop(keeper.run());
        }
        Ok(Self { names })
    }

    /// For people, in the order given.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

struct Keeper {
    spec: EngineSpec,
    settings: EngineSettings,
    probe: Probe,
    roster: Roster,
    metrics: EngineMetrics,
    tasks: Tasks,
    /// Counts the times it joined.
    epoch: u64,
    /// Its events have shown that it does not fit. True until it starts again.
    refused: Option<Misfit>,
    /// What was last logged, so that the same is not logged every second.
    complained: Option<String>,
}

/// An engine that has joined.
struct Session {
    holdings: Arc<Holdings>,
    total_blocks: u32,
    /// Resolves if its blocks turn out not to fit.
    misfit: oneshot::Receiver<Misfit>,
    /// Ends its streams and its listener.
    _gone: tokio_util::sync::DropGuard,
}

impl Drop for Session {
    fn drop(&mut self) {
        // The router learns of the loss by the feed's end.
        self.holdings.close();
    }
}

impl Keeper {
    async fn run(mut self) {
        loop {
            self.epoch += 1;
            match self.join().await {
                Ok(session) => {
                    self.complained = None;
                    let end = self.stay(session).await;
                    self.metrics.lost.inc();
                    let (engine, reason) = (self.spec.display_name(), end.to_string());
                    warn!(engine, reason, "engine lost");
                    if let End::Misfit(misfit) = end {
                        self.refused = Some(misfit);
                    }
                }
                Err(error) => self.complain(&error),
            }
            tokio::time::sleep(self.settings.pace.retry).await;
        }
    }

    fn complain(&mut self, error: &JoinError) {
        let text = error.to_string();
        if self.complained.as_ref() != Some(&text) {
            let engine = self.spec.display_name();
            warn!(engine, error = text, "cannot use this engine");
            self.complained = Some(text);
        }
    }

    async fn join(&mut self) -> Result<Session, JoinError> {
        if let Err(error) = self.probe.healthy().await {
            self.refused = None;
            return Err(JoinError::Silent(error));
        }
        if let Some(misfit) = self.refused {
            return Err(misfit.into());
        }
        let about = self.probe.about().await;
        self.fits(&about)?;
        let (publisher, feed) = feed(self.settings.clock);
        let gone = CancellationToken::new();
        let owner = self.owner(&about);
        let holdings = Arc::new(Holdings::new(owner, self.metrics.clone(), publisher));
        let card = self.card(&about, owner);
        let link = HttpLink {
            kind: self.spec.kind,
            model: self.engine_model(&about),
            server: self.probe.server.clone(),
            holdings: Arc::clone(&holdings),
            tokenize: self.settings.tokenize.clone(),
            clock: self.settings.clock,
            pace: self.settings.pace,
            gone: gone.clone(),
        };
        let session = Session {
            misfit: self.listen(&holdings, &gone).await?,
            holdings,
            total_blocks: card.total_blocks,
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
            // It may have told of blocks already.
            warm: true,
            lease: None,
        };
        self.roster.announce(Change::Joined(member)).await;
        Ok(session)
    }

    /// Hears the engine's events from now on.
    async fn listen(
        &self,
        holdings: &Arc<Holdings>,
        gone: &CancellationToken,
    ) -> Result<oneshot::Receiver<Misfit>, JoinError> {
        let (sender, receiver) = oneshot::channel();
        let patience = self.settings.pace.patience;
        let gone = gone.clone();
        if let Some(listener) =
            Listener::connect(&self.spec, patience, holdings, &self.metrics).await?
        {
            self.tasks.spawn(async move {
                if let Some(misfit) = gone.run_until_cancelled(listener.run()).await {
                    let _ = sender.send(misfit);
                }
            });
            return Ok(receiver);
        }
        if self.spec.kind == EngineKind::Trtllm {
            let mut poller = Poller::new(&self.probe.server, holdings, &self.metrics);
            if !poller.begin().await? {
                info!(
                    engine = self.spec.display_name(),
                    "the engine gives no cache events yet"
                );
            }
            self.tasks.spawn(async move {
                if let Some(misfit) = gone.run_until_cancelled(poller.run()).await {
                    let _ = sender.send(misfit);
                }
            });
        }
        Ok(receiver)
    }

    /// Stays until the engine is gone, and says why it is.
    async fn stay(&self, mut session: Session) -> End {
        let pace = self.settings.pace;
        let mut beats = tokio::time::interval(pace.beat);
        beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut heard = Instant::now();
        // Without events the sender is dropped at once, and there is nothing to wait for.
        let mut listening = true;
        loop {
            tokio::select! {
                misfit = &mut session.misfit, if listening => match misfit {
                    Ok(misfit) => return End::Misfit(misfit),
                    Err(_) => listening = false,
                },
                _ = beats.tick() => {
                    let (healthy, load) = tokio::join!(self.probe.healthy(), self.probe.load());
                    match healthy {
                        Ok(()) => heard = Instant::now(),
                        Err(error) if heard.elapsed() >= pace.silence => return End::Silent(error),
                        Err(error) => debug!(engine = self.spec.display_name(), error, "no answer"),
                    }
                    session.report(load);
                }
            }
        }
    }

    fn fits(&self, about: &About) -> Result<(), Misfit> {
        let router = self.settings.block_size;
        match about.block_size {
            // Without events the size of its blocks is its own affair.
            Some(engine) if engine != router && self.publishes() => Err(Misfit::BlockSize {
                engine: engine as usize,
                router: router as usize,
            }),
            Some(_) | None => Ok(()),
        }
    }

    fn publishes(&self) -> bool {
        self.spec.events.is_some() || self.spec.kind == EngineKind::Trtllm
    }

    fn owner(&self, about: &About) -> Owner {
        let blocks = self.spec.blocks.or(about.blocks);
        Owner {
            worker: WorkerId(self.spec.worker_id()),
            epoch: self.epoch,
            cut: Cut {
                block_size: self.settings.block_size as usize,
                lookahead: self.settings.hashing.lookahead as usize,
            },
            most_blocks: blocks.map_or(USUAL_BLOCKS, |blocks| blocks as usize),
            block_size_known: about.block_size.is_some(),
            publishes: self.publishes(),
            omits_zero: self.spec.kind == EngineKind::Sglang,
        }
    }

    fn engine_model(&self, about: &About) -> String {
        let named = self.spec.model.clone().or_else(|| about.model.clone());
        named.unwrap_or_else(|| self.settings.model.to_string())
    }

    fn card(&self, about: &About, owner: Owner) -> WorkerCard {
        WorkerCard {
            id: owner.worker,
            name: self.spec.display_name(),
            model: self.settings.model.clone(),
            block_size: self.settings.block_size,
            total_blocks: u32::try_from(owner.most_blocks).unwrap_or(u32::MAX),
            // 0: the router finds out.
            slots: self.spec.slots.or(about.slots).unwrap_or(0),
            max_step_tokens: USUAL_STEP_TOKENS,
            max_context_tokens: about
                .max_context_tokens
                .unwrap_or(self.settings.max_context_tokens),
            gpu: GpuSpec {
                kind: "unknown".to_owned(),
                count: 1,
                memory_bytes: 0,
            },
            engine: self.spec.kind.to_string(),
            simulated: false,
            logprobs: self.spec.kind == EngineKind::Vllm,
            speculation: "none".to_owned(),
            hashing: self.settings.hashing,
        }
    }
}

impl Session {
    /// Tells the router how busy the engine is, and how far its feed goes.
    fn report(&self, load: Option<Load>) {
        let load = load.unwrap_or_default();
        let (held, totals) = self.holdings.totals();
        let total = self.total_blocks;
        let active = (f64::from(total) * load.usage.clamp(0.0, 1.0)) as u32;
        let held = u32::try_from(held).unwrap_or(u32::MAX);
        let cached = held.saturating_sub(active).min(total - active);
        self.holdings.tell(FeedMessage::Status(WorkerStatus {
            running: load.running,
            waiting: load.waiting,
            active_blocks: active,
            cached_blocks: cached,
            free_blocks: total - active - cached,
            prompt_tokens: totals.prompt_tokens,
            cached_tokens: totals.cached_tokens,
            output_tokens: totals.output_tokens,
            ..WorkerStatus::default()
        }));
    }
}
