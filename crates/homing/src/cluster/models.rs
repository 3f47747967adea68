//! The models of a frontend while it runs: started, replaced and retired as the configuration says.
//!
//! A model that is replaced or removed finishes what it has begun: new requests go to its successor
//! or are refused, and its workers are let go when the last answer has ended.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use adapters::SharedEstimates;
use contract::{Clock, FrontendId, ModelName, TokenId};
use frontend::{Frontend, ModelParts};
use openai::{ChatRequest, UnknownFields};
use preprocess::Preprocessor;
use router::Router;
use tasks::Tasks;
use telemetry::Registry;
use tokio::time::Instant;
use tracing::{error, info};
use transport::roster;

use super::membership::{self, JoinTarget};
use crate::plan::{ServingPlan, listed_models};

/// How often it is looked whether a model that goes is idle.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(super) struct RunningModels {
    frontend: Frontend,
    place: Place,
    tasks: Tasks,
    running: Vec<Running>,
}

struct Running {
    name: ModelName,
    words: Option<Vec<OsString>>,
    router: Router,
    /// Its own: they can be stopped while others go on.
    tasks: Tasks,
}

/// What models are served with.
pub(super) struct Place {
    pub(super) registry: Registry,
    pub(super) clock: Clock,
    pub(super) id: FrontendId,
    /// Told among frontends that use the same engines.
    pub(super) shared: Option<SharedEstimates>,
    /// How long a model that goes may take to finish its answers.
    pub(super) grace: Duration,
}

impl RunningModels {
    /// Serves all of `plans`, or fails.
    pub(super) async fn start(
        frontend: Frontend,
        place: Place,
        plans: Vec<ServingPlan>,
        tasks: &Tasks,
    ) -> anyhow::Result<Self> {
        let mut models = Self {
            frontend,
            place,
            tasks: tasks.clone(),
            running: Vec::new(),
        };
        for plan in plans {
            let running = models.serve(plan).await?;
            models.running.push(running);
        }
        Ok(models)
    }

    /// Reads the configuration again. What cannot be read or started changes nothing.
    pub(super) async fn reload(&mut self) {
        let plans = match listed_models() {
            Ok(plans) if plans.is_empty() => {
                info!("nothing to reload: the configuration file lists no models");
                return;
            }
            Ok(plans) => plans,
            Err(error) => {
                error!("the configuration was not reloaded: {error:#}");
                return;
            }
        };
        let names: Vec<ModelName> = plans.iter().map(|plan| plan.served.model.clone()).collect();
        for plan in plans {
            let name = plan.served.model.clone();
            let place = self.running.iter().position(|one| one.name == name);
            if place.is_some_and(|place| self.running[place].words == plan.words) {
                continue;
            }
            match (self.serve(plan).await, place) {
                (Ok(running), None) => {
                    info!(model = %name, "model added");
                    self.running.push(running);
                }
                (Ok(running), Some(place)) => {
                    info!(model = %name, "model replaced");
                    let former = std::mem::replace(&mut self.running[place], running);
                    self.let_go(former, false);
                }
                (Err(error), _) => error!(model = %name, "the model was not changed: {error:#}"),
            }
        }
        let (kept, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.running)
            .into_iter()
            .partition(|one| names.contains(&one.name));
        self.running = kept;
        for former in gone {
            info!(model = %former.name, "model removed");
            self.frontend.retire_model(&former.name);
            self.let_go(former, true);
        }
    }

    async fn serve(&self, plan: ServingPlan) -> anyhow::Result<Running> {
        let Place {
            registry,
            clock,
            id,
            shared,
            ..
        } = &self.place;
        let name = plan.served.model.clone();
        let registry = match &plan.words {
            Some(_) => registry.of_model(name.as_str()),
            None => registry.clone(),
        };
        let tasks = Tasks {
            tracker: self.tasks.tracker.clone(),
            stop: self.tasks.stop.child_token(),
        };
        // Reading a vocabulary takes a second, and others are being served.
        let (model, longest) = (plan.model, plan.served.max_context_tokens);
        let read = tokio::task::spawn_blocking(move || model.preprocessor(longest));
        let preprocessor = read.await??;
        let tokenizer = Arc::clone(preprocessor.tokenizer());
        let router = Router::new(plan.router, &registry, *clock);
        let (roster, changes) = roster();
        let target = JoinTarget {
            roster,
            registry,
            clock: *clock,
            frontend: *id,
            sample_prompt: sample_prompt(&preprocessor),
            tokenizer,
            served: plan.served,
            shared: shared.clone(),
        };
        let parts = ModelParts {
            name: name.clone(),
            preprocessor,
            router: router.clone(),
            adapters: plan.adapters,
            changes,
        };
        if let Err(error) = membership::follow(plan.workers, target, &tasks).await {
            // What had begun to follow workers must not go on without a model.
            tasks.stop.cancel();
            return Err(error);
        }
        self.frontend.serve_model(parts, &tasks);
        Ok(Running {
            name,
            words: plan.words,
            router,
            tasks,
        })
    }

    /// Stops what served a model once it is idle. `forever`: nobody serves it any more.
    fn let_go(&self, former: Running, forever: bool) {
        let patience = Instant::now() + self.place.grace;
        let work = async move {
            let router = &former.router;
            loop {
                // First a pause: a request may have found the model and not its router yet.
                tokio::time::sleep(LOOK_EVERY).await;
                let idle = router.in_flight() == 0 && router.total_queued() == 0;
                if idle || Instant::now() >= patience {
                    break;
                }
            }
            former.tasks.stop.cancel();
            if forever {
                for worker in router.workers() {
                    router.leave(worker.card.id);
                }
            }
        };
        self.tasks.spawn_until_stop(work);
    }
}

/// What the model's template makes of the conversation by which engines are checked.
pub(crate) fn sample_prompt(preprocessor: &Preprocessor) -> Option<Vec<TokenId>> {
    let body = format!(
        r#"{{"model":"m","messages":{}}}"#,
        adapters::SAMPLE_MESSAGES
    );
    let request = ChatRequest::parse(body.as_bytes(), UnknownFields::Refuse).ok()?;
    preprocessor.prompt_of_chat(&request).ok()
}
