//! The served models: what requests for one do not share with requests for another.

use std::sync::Arc;
use std::time::Duration;

use contract::{Clock, FrontendId, ModelName};
use openai::{Model, ObjectKind};
use parking_lot::RwLock;
use preprocess::Preprocessor;
use request_trace::Recorder;
use router::Router;
use tasks::Tasks;
use telemetry::Registry;
use transport::Changes;

use crate::FaultLimits;
use crate::dispatch::{Dispatch, Limits};
use crate::error::ApiError;
use crate::fleet::Fleet;
use crate::metrics::FrontendMetrics;

/// What a model is served with.
#[derive(Debug)]
pub struct ModelParts {
    pub name: ModelName,
    pub preprocessor: Preprocessor,
    pub router: Router,
    /// Names of adapters (LoRA) of the model, which some of its workers have loaded.
    pub adapters: Vec<String>,
    /// Its workers, as they come and go.
    pub changes: Changes,
}

/// One served model.
#[derive(Debug)]
pub(crate) struct ServedModel {
    pub(crate) name: ModelName,
    pub(crate) preprocessor: Preprocessor,
    pub(crate) dispatch: Arc<Dispatch>,
    pub(crate) metrics: Arc<FrontendMetrics>,
    adapters: Vec<String>,
}

impl ServedModel {
    pub(crate) fn start(parts: ModelParts, shared: &Shared, tasks: &Tasks) -> Arc<Self> {
        let metrics = FrontendMetrics::new(&shared.registry, shared.clock, &parts.name);
        let fleet = Fleet::new(
            parts.router.clone(),
            Arc::clone(&metrics),
            shared.id,
            shared.shares_engines,
        );
        tasks.spawn(fleet.clone().tell_loads(tasks.stop.clone()));
        tasks.spawn(fleet.clone().follow(parts.changes, tasks.clone()));
        let dispatch = Arc::new(Dispatch {
            fleet,
            metrics: Arc::clone(&metrics),
            clock: shared.clock,
            tasks: tasks.clone(),
            recorder: shared.recorder.clone(),
            limits: Limits {
                faults: shared.faults,
                reader_lag: shared.reader_lag,
                blocks: parts.router.blocks(),
            },
            router: parts.router,
        });
        Arc::new(Self {
            name: parts.name,
            preprocessor: parts.preprocessor,
            dispatch,
            metrics,
            adapters: parts.adapters,
        })
    }

    /// Whether any worker is a simulation.
    pub(crate) fn simulated(&self) -> bool {
        self.dispatch.fleet.simulated()
    }

    /// Longest prompt plus answer: the model's own, or less where no worker has as much.
    fn max_context_tokens(&self) -> u32 {
        let own = self.preprocessor.max_context_tokens();
        let longest = self.dispatch.fleet.longest_context();
        longest.map_or(own, |longest| longest.min(own))
    }

    /// As `/v1/models` lists it: the model, then its adapters.
    fn describe(&self, created: u64) -> impl Iterator<Item = Model> {
        let base = Model {
            id: self.name.as_str().to_owned(),
            object: ObjectKind::Model,
            created,
            owned_by: "homing".to_owned(),
            max_model_len: Some(self.max_context_tokens()),
            parent: None,
            simulated: self.simulated(),
        };
        let adapters: Vec<Model> = self
            .adapters
            .iter()
            .map(|adapter| Model {
                id: adapter.clone(),
                parent: Some(base.id.clone()),
                ..base.clone()
            })
            .collect();
        std::iter::once(base).chain(adapters)
    }
}

/// What all models of a frontend are served with.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) id: FrontendId,
    pub(crate) shares_engines: bool,
    pub(crate) faults: FaultLimits,
    pub(crate) reader_lag: Duration,
    pub(crate) recorder: Recorder,
}

/// A model that was asked for, perhaps under the name of an adapter.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) model: Arc<ServedModel>,
    pub(crate) adapter: Option<String>,
}

/// The models that are served now, in the order in which they came. Requests keep theirs until
/// they have been answered.
#[derive(Debug, Default)]
pub(crate) struct Models(RwLock<Vec<Arc<ServedModel>>>);

impl Models {
    pub(crate) fn all(&self) -> Vec<Arc<ServedModel>> {
        self.0.read().clone()
    }

    /// Serves a model, in place of the one of the same name.
    pub(crate) fn insert(&self, model: Arc<ServedModel>) {
        let mut models = self.0.write();
        match models.iter_mut().find(|one| one.name == model.name) {
            Some(former) => *former = model,
            None => models.push(model),
        }
    }

    pub(crate) fn remove(&self, name: &ModelName) {
        self.0.write().retain(|model| model.name != *name);
    }

    pub(crate) fn find(&self, name: &str) -> Result<Found, ApiError> {
        let models = self.0.read();
        let named = models.iter().find(|model| model.name.as_str() == name);
        if let Some(model) = named {
            return Ok(Found {
                model: Arc::clone(model),
                adapter: None,
            });
        }
        let has = |model: &&Arc<ServedModel>| model.adapters.iter().any(|one| one == name);
        match models.iter().find(has) {
            Some(model) => Ok(Found {
                model: Arc::clone(model),
                adapter: Some(name.to_owned()),
            }),
            None => Err(ApiError::unknown_model(name, &names(&models))),
        }
    }

    /// The model of a request that names none, or that cannot be read.
    pub(crate) fn first(&self) -> Option<Arc<ServedModel>> {
        self.0.read().first().cloned()
    }

    pub(crate) fn describe(&self, created: u64) -> Vec<Model> {
        let models = self.0.read();
        models
            .iter()
            .flat_map(|model| model.describe(created))
            .collect()
    }
}

/// Under which models can be asked for.
fn names(models: &[Arc<ServedModel>]) -> Vec<String> {
    let names = |model: &Arc<ServedModel>| {
        let own = model.name.to_string();
        std::iter::once(own).chain(model.adapters.clone())
    };
    models.iter().flat_map(names).collect()
}
