//! What a Homing tells of itself.

use std::collections::BTreeMap;

use ::console::{LatestDecision, ModelState, RequestCounts, RouterState, SystemView, WorkerState};
use contract::{WorkerCard, WorkerStatus};
use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Inner, unknown};

/// `GET /workers`
#[derive(Deserialize)]
struct Workers {
    simulated: bool,
    workers: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    card: WorkerCard,
    status: WorkerStatus,
    draining: bool,
    in_flight: u32,
}

/// `GET /decisions`
#[derive(Deserialize)]
struct Decisions {
    decisions: Vec<Value>,
}

/// Its errors.
#[derive(Deserialize)]
struct Failed {
    error: Message,
}

#[derive(Deserialize)]
struct Message {
    message: String,
}

/// Where the router of a model is changed; of all models without one.
pub(super) fn router_path(model: Option<&str>) -> String {
    match model {
        Some(model) => format!("/router?model={}", encoded(model)),
        None => "/router".to_owned(),
    }
}

/// Its own words, or else the status.
pub(super) fn refusal(status: StatusCode, body: &[u8]) -> String {
    match serde_json::from_slice::<Failed>(body) {
        Ok(failed) => failed.error.message,
        Err(_) => format!("status {status}"),
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

impl Inner {
    /// `None` if the target is no Homing, or does not answer.
    pub(super) async fn look_at_homing(&self) -> Option<SystemView> {
        let Workers { simulated, workers } = self.read("/workers").await?;
        let asked = encoded(&self.model);
        let router: RouterState = self.read(&format!("/router?model={asked}")).await?;
        let path = format!("/decisions?limit=1&model={asked}");
        let page = self.read::<Decisions>(&path).await;
        let latest = page.and_then(|page| page.decisions.into_iter().next());
        let mut models: BTreeMap<&str, u32> = BTreeMap::new();
        for worker in &workers {
            *models.entry(worker.card.model.as_str()).or_default() += 1;
        }
        let mut shown = Vec::new();
        for (name, workers) in models {
            let mode = match name == self.model {
                true => router.mode.clone(),
                false => {
                    let other = self.read::<RouterState>(&router_path(Some(name))).await;
                    other.unwrap_or_else(RouterState::unknown).mode
                }
            };
            shown.push(ModelState {
                name: name.to_owned(),
                mode,
                workers,
            });
        }
        let block_size = workers.first().map(|worker| worker.card.blocks.size);
        let others = unknown(&self.model, simulated);
        Some(SystemView {
            models: shown,
            router,
            requests: RequestCounts {
                in_flight: None,
                queued: None,
            },
            block_size: block_size.unwrap_or(others.block_size),
            workers: workers.iter().map(worker_state).collect(),
            last_decision: latest.map(LatestDecision::Elsewhere),
            ..others
        })
    }

    async fn read<T: DeserializeOwned>(&self, path: &str) -> Option<T> {
        let body = self.get(path).await.ok()?;
        serde_json::from_slice(&body).ok()
    }
}

fn worker_state(worker: &Listed) -> WorkerState {
    WorkerState {
        draining: worker.draining,
        in_flight: worker.in_flight,
        ..WorkerState::new(&worker.card, &worker.status)
    }
}
