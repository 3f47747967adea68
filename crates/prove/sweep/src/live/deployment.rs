//! What a live sweep controls.
//!
//! A `homing` has an API for it. Anything else is controlled by commands that its owner writes:
//! one sets the mode, one empties the caches, one says which mode is in force; an address tells
//! when the server is ready. A mode that nobody confirms is measured and marked.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_client::HttpClient;
use serde_json::{Value, json};

use super::command::{self, CommandError};
use super::scrape::Counters;

const MOST_BYTES: usize = 8 << 20;
/// A server must be ready so many times in a row, so far apart, to count as stable.
const READY_IN_A_ROW: u32 = 3;
const READY_PAUSE: Duration = Duration::from_secs(2);
const READY_PATIENCE: Duration = Duration::from_secs(30 * 60);
const IDLE_PAUSE: Duration = Duration::from_millis(250);

/// What cannot be done with a deployment.
#[derive(Debug, thiserror::Error)]
pub enum DeploymentError {
    #[error("target: {address}: {problem}")]
    Unusable { address: String, problem: String },
    #[error("{field}: {problem}")]
    Hook {
        field: &'static str,
        problem: CommandError,
    },
    #[error("ready-url: {0} was not ready for half an hour")]
    NotReady(String),
}

/// A deployment under test.
#[derive(Debug)]
pub struct Deployment {
    transport: HttpClient,
    /// `http://host:port`, without the API's path.
    root: String,
    control: Control,
    /// The mode that was set last.
    mode: Option<String>,
    workers: Option<u32>,
}

#[derive(Clone, Debug)]
enum Control {
    Homing { token: Option<String> },
    Hooks(Hooks),
}

/// Commands, for a shell; `{mode}` stands for the mode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    pub set_mode: Option<String>,
    pub get_mode: Option<String>,
    pub reset: Option<String>,
    /// Answers with 200 when the deployment is ready.
    pub ready_url: Option<String>,
}

impl Deployment {
    /// A running `homing`, which is asked at once. The token is needed beyond loopback.
    pub async fn homing(
        transport: HttpClient,
        root: &str,
        token: Option<String>,
    ) -> Result<Self, DeploymentError> {
        let mut deployment = Self::new(transport, root, Control::Homing { token });
        let (status, body) = deployment.call("GET", "/workers", None).await?;
        let workers = serde_json::from_slice::<Value>(&body).unwrap_or_default();
        let Some(workers) = workers["workers"]
            .as_array()
            .filter(|_| status.is_success())
        else {
            let problem = "it has no /workers, so it is no homing; \
                           --set-mode-command says how to switch another server's mode";
            return Err(deployment.unusable(problem));
        };
        deployment.workers = Some(workers.len() as u32);
        Ok(deployment)
    }

    /// Any server, through commands.
    pub fn hooks(transport: HttpClient, root: &str, hooks: Hooks) -> Self {
        Self::new(transport, root, Control::Hooks(hooks))
    }

    fn new(transport: HttpClient, root: &str, control: Control) -> Self {
        Self {
            transport,
            root: root.trim_end_matches('/').to_owned(),
            control,
            mode: None,
            workers: None,
        }
    }

    /// How many, if the deployment tells.
    pub fn workers(&self) -> Option<u32> {
        self.workers
    }

    /// Brings a mode into force and waits until the deployment is ready and stable. Says
    /// whether the deployment confirms it.
    pub async fn switch(&mut self, mode: &str) -> Result<bool, DeploymentError> {
        let is_new = self.mode.as_deref() != Some(mode);
        match self.control.clone() {
            Control::Homing { .. } => {
                let body = json!({ "mode": mode }).to_string();
                let (status, answer) = self.call("PUT", "/router", Some(body)).await?;
                if !status.is_success() {
                    return Err(self.refused("PUT /router", status, &answer));
                }
            }
            Control::Hooks(hooks) => {
                if let Some(command) = hooks.set_mode.as_deref().filter(|_| is_new) {
                    command::run(command, mode)
                        .await
                        .map_err(hook("set-mode-command"))?;
                }
                if let Some(address) = &hooks.ready_url {
                    self.wait_ready(address).await?;
                }
            }
        }
        self.mode = Some(mode.to_owned());
        self.confirm(mode).await
    }

    /// Whether the deployment says that it routes in this mode.
    pub async fn confirm(&self, mode: &str) -> Result<bool, DeploymentError> {
        match &self.control {
            Control::Homing { .. } => {
                let (_, body) = self.call("GET", "/router", None).await?;
                let told = serde_json::from_slice::<Value>(&body).unwrap_or_default();
                Ok(told["mode"] == mode)
            }
            Control::Hooks(hooks) => {
                let Some(command) = &hooks.get_mode else {
                    return Ok(false);
                };
                let told = command::run(command, mode).await;
                Ok(told.map_err(hook("get-mode-command"))? == mode)
            }
        }
    }

    /// Empties the caches, if there is a way to.
    pub async fn reset(&self) -> Result<(), DeploymentError> {
        match &self.control {
            Control::Homing { .. } => {
                let (status, body) = self.call("POST", "/reset_prefix_cache", None).await?;
                let told = serde_json::from_slice::<Value>(&body).unwrap_or_default();
                let failed = told["failed"].as_array().is_some_and(|all| !all.is_empty());
                match status.is_success() && !failed {
                    true => Ok(()),
                    false => Err(self.refused("POST /reset_prefix_cache", status, &body)),
                }
            }
            Control::Hooks(hooks) => {
                let mode = self.mode.as_deref().unwrap_or_default();
                if let Some(command) = &hooks.reset {
                    let outcome = command::run(command, mode).await;
                    outcome.map_err(hook("reset-command"))?;
                    if let Some(address) = &hooks.ready_url {
                        self.wait_ready(address).await?;
                    }
                }
                Ok(())
            }
        }
    }

    /// What the server counts, if it does.
    pub async fn counters(&self) -> Option<Counters> {
        let (status, body) = self.call("GET", "/metrics", None).await.ok()?;
        let text = std::str::from_utf8(&body).ok()?;
        status.is_success().then(|| Counters::parse(text))
    }

    /// Waits until nothing runs. Only a `homing` tells.
    pub async fn idle(&self) {
        while let Control::Homing { .. } = self.control {
            let Ok((_, body)) = self.call("GET", "/workers", None).await else {
                return;
            };
            let told = serde_json::from_slice::<Value>(&body).unwrap_or_default();
            let workers = told["workers"].as_array().map_or(&[][..], Vec::as_slice);
            let busy = |worker: &Value| worker["in_flight"].as_u64().unwrap_or(0) > 0;
            if !workers.iter().any(busy) {
                return;
            }
            tokio::time::sleep(IDLE_PAUSE).await;
        }
    }

    async fn wait_ready(&self, address: &str) -> Result<(), DeploymentError> {
        let stable = async {
            let mut in_a_row = 0;
            while in_a_row < READY_IN_A_ROW {
                tokio::time::sleep(READY_PAUSE).await;
                let answer = self.transport.get(address, MOST_BYTES).await;
                let is_ready = answer.is_ok_and(|(status, _)| status.is_success());
                in_a_row = if is_ready { in_a_row + 1 } else { 0 };
            }
        };
        let waited = tokio::time::timeout(READY_PATIENCE, stable).await;
        waited.map_err(|_| DeploymentError::NotReady(address.to_owned()))
    }

    async fn call(
        &self,
        method: &str,
        path: &str,
        body: Option<String>,
    ) -> Result<(StatusCode, Bytes), DeploymentError> {
        let address = format!("{}{path}", self.root);
        let mut request = Request::builder().method(method).uri(&address);
        if let Control::Homing { token: Some(token) } = &self.control {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = Bytes::from(body.unwrap_or_default());
        let answer = self.transport.exchange(request, body, MOST_BYTES).await;
        answer.map_err(|error| self.unusable(&error.to_string()))
    }

    fn refused(&self, what: &str, status: StatusCode, body: &[u8]) -> DeploymentError {
        let told = serde_json::from_slice::<Value>(body).unwrap_or_default();
        let message = told["error"]["message"].as_str().unwrap_or_default();
        let hint = match status {
            StatusCode::UNAUTHORIZED => {
                " (--control-token-env names the variable that holds the token)"
            }
            _ => "",
        };
        self.unusable(&format!("{what} was refused ({status}): {message}{hint}"))
    }

    fn unusable(&self, problem: &str) -> DeploymentError {
        DeploymentError::Unusable {
            address: self.root.clone(),
            problem: problem.to_owned(),
        }
    }
}

fn hook(field: &'static str) -> impl Fn(CommandError) -> DeploymentError {
    move |problem| DeploymentError::Hook { field, problem }
}
