//! The engines of a frontend: a list of them, each with a supervisor.
//!
//! A list may change while the frontend runs. An engine that leaves it is not lost, and nothing is held
//! against it should it come again.

use std::collections::HashSet;

use contract::WorkerId;
use http::HeaderValue;
use http_client::bearer;
use tasks::Tasks;
use telemetry::Registry;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use transport::{Change, Roster};

use crate::drafts::DraftTally;
use crate::http::Server;
use crate::metrics::AdapterMetrics;
use crate::probe::Probe;
use crate::settings::EngineSettings;
use crate::spec::{Drafter, EngineSpec};
use crate::supervisor::{Supervisor, UNKNOWN_DRAFTER};

/// Why the engines cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    #[error("two engines have the id {0}: give one of them another with id=")]
    SameId(u64),
    #[error("two engines have the name {0}: give one of them another with name=")]
    SameName(String),
    #[error("the engines' API key has characters that an HTTP header does not allow")]
    Key,
}

/// The engines of a frontend.
#[derive(Clone, Debug)]
pub struct Engines {
    names: Vec<String>,
}

impl Engines {
    /// Supervises each engine on `tasks` until they are stopped.
    pub fn start(
        specs: Vec<EngineSpec>,
        settings: &EngineSettings,
        roster: &Roster,
        registry: &Registry,
        tasks: &Tasks,
    ) -> Result<Self, StartError> {
        check(&specs)?;
        let names = specs.iter().map(EngineSpec::display_name).collect();
        let launcher = Launcher::new(settings, roster, registry, tasks)?;
        for spec in specs {
            tasks.spawn_until_stop(launcher.supervisor(spec).run());
        }
        Ok(Self { names })
    }

    /// Supervises the engines of a list that changes, on `tasks` until they are stopped: those that
    /// are new in it join, those that are no longer in it leave. A list with an error changes nothing.
    pub fn follow(
        lists: watch::Receiver<Vec<EngineSpec>>,
        settings: &EngineSettings,
        roster: &Roster,
        registry: &Registry,
        tasks: &Tasks,
    ) -> Result<(), StartError> {
        check(&lists.borrow())?;
        let launcher = Launcher::new(settings, roster, registry, tasks)?;
        tasks.spawn_until_stop(follow(lists, launcher));
        Ok(())
    }

    /// Their displayed names, in the order given.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// Whether all of them can be told apart.
fn check(specs: &[EngineSpec]) -> Result<(), StartError> {
    let (mut ids, mut names) = (HashSet::new(), HashSet::new());
    for spec in specs {
        if !ids.insert(spec.worker_id()) {
            return Err(StartError::SameId(spec.worker_id()));
        }
        if !names.insert(spec.display_name()) {
            return Err(StartError::SameName(spec.display_name()));
        }
    }
    Ok(())
}

/// What every supervisor is made with.
struct Launcher {
    settings: EngineSettings,
    roster: Roster,
    registry: Registry,
    tasks: Tasks,
    key: Option<HeaderValue>,
}

impl Launcher {
    fn new(
        settings: &EngineSettings,
        roster: &Roster,
        registry: &Registry,
        tasks: &Tasks,
    ) -> Result<Self, StartError> {
        let key = match &settings.api_key {
            Some(key) => Some(bearer(key).ok_or(StartError::Key)?),
            None => None,
        };
        Ok(Self {
            settings: settings.clone(),
            roster: roster.clone(),
            registry: registry.clone(),
            tasks: tasks.clone(),
            key,
        })
    }

    fn supervisor(&self, spec: EngineSpec) -> Supervisor {
        Supervisor {
            probe: Probe {
                dialect: spec.kind.dialect(),
                server: Server::new(&spec.url, self.key.clone()),
                patience: self.settings.timing.response_timeout,
            },
            metrics: AdapterMetrics::new(&self.registry, &spec.display_name()),
            drafts: DraftTally::new(
                &self.registry,
                spec.worker_id(),
                spec.drafts.map_or(UNKNOWN_DRAFTER, Drafter::as_str),
            ),
            settings: self.settings.clone(),
            roster: self.roster.clone(),
            tasks: self.tasks.clone(),
            epoch: 0,
            refused: None,
            logged: None,
            spec,
        }
    }
}

/// An engine of a list that changes.
struct Listed {
    spec: EngineSpec,
    stop: CancellationToken,
    supervision: JoinHandle<()>,
}

async fn follow(mut lists: watch::Receiver<Vec<EngineSpec>>, launcher: Launcher) {
    let mut listed: Vec<Listed> = Vec::new();
    loop {
        let specs = lists.borrow_and_update().clone();
        match check(&specs) {
            Ok(()) => listed = relist(listed, specs, &launcher).await,
            Err(error) => warn!(%error, "the list of engines was not changed"),
        }
        if lists.changed().await.is_err() {
            // Nobody changes it any more; those that are there stay.
            std::future::pending::<()>().await;
        }
    }
}

/// Lets those go that are not in `specs`, and starts those that are new. One whose options have changed
/// is another.
async fn relist(listed: Vec<Listed>, specs: Vec<EngineSpec>, launcher: &Launcher) -> Vec<Listed> {
    let (mut kept, gone): (Vec<Listed>, Vec<Listed>) = listed
        .into_iter()
        .partition(|one| specs.contains(&one.spec));
    for Listed {
        spec,
        stop,
        supervision,
    } in gone
    {
        info!(engine = spec.display_name(), "engine removed from the list");
        // First from the router, so that the end of its feed is not taken for a failure; and again
        // after the supervisor has ended, should it have joined in between.
        let left = || Change::Left(WorkerId(spec.worker_id()));
        launcher.roster.announce(left()).await;
        stop.cancel();
        let _ = supervision.await;
        launcher.roster.announce(left()).await;
    }
    for spec in specs {
        if kept.iter().any(|one| one.spec == spec) {
            continue;
        }
        let stop = launcher.tasks.stop.child_token();
        let supervisor = launcher.supervisor(spec.clone());
        let until = stop.clone();
        let supervision = launcher.tasks.spawn(async move {
            until.run_until_cancelled(supervisor.run()).await;
        });
        kept.push(Listed {
            spec,
            stop,
            supervision,
        });
    }
    kept
}
