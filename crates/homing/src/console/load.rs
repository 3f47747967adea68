//! The load generator behind a console: a client like any other, over a socket.

use std::time::Duration;

use contract::Clock;
use http_client::{HttpClient, HttpOptions};
use loadgen::client::{Client, Patience, Target};
use loadgen::warm::warm;
use loadgen::{LiveConfig, LiveParts, LoadGenerator, Readiness, Starter};
use telemetry::Registry;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tracing::info;

use crate::load_parts::{read_texts, user_model};
use crate::plan::LoadPlan;
use crate::process::unix_ms;

/// The server that is asked.
pub(crate) struct LoadTarget<'a> {
    pub(crate) url: String,
    pub(crate) model: &'a str,
    pub(crate) api_key: Option<&'a str>,
    pub(crate) clock: Clock,
    pub(crate) registry: &'a Registry,
}

/// A load generator that is stopped, and how it begins.
pub(crate) struct PreparedLoad {
    pub(crate) generator: LoadGenerator,
    pub(crate) opening: Opening,
}

/// What happens once the server listens.
pub(crate) struct Opening {
    generator: LoadGenerator,
    client: Client,
    /// Sent once to warm caches.
    texts: Vec<Starter>,
    seed: u64,
    autostart: bool,
    server: Readiness,
    /// Lets load begin that was started.
    begin: watch::Sender<bool>,
}

impl Opening {
    pub(crate) async fn run(mut self) {
        // Started before it can begin: until then whoever watches sees it wait, and can stop it.
        if self.autostart {
            self.generator.start().await;
        }
        if !self.server.first_answer().await {
            info!("no worker has joined yet: load waits for the first");
            self.server.ready().await;
            info!("the first worker has joined");
        }
        if !self.texts.is_empty() {
            let answered = warm(&self.client, &self.texts, self.seed).await;
            info!(answered, texts = self.texts.len(), "caches warmed");
        }
        self.begin.send_replace(true);
    }
}

pub(crate) async fn load_generator(
    plan: LoadPlan,
    at: LoadTarget<'_>,
) -> anyhow::Result<PreparedLoad> {
    let mut target = Target::new(&at.url, at.model)?;
    if let Some(key) = at.api_key {
        target = target.with_key(key)?;
    }
    let transport = HttpClient::network(HttpOptions::default());
    let client = Client::new(transport, target, Patience::default(), at.clock);
    let starters = read_texts(&plan.texts).await?;
    let texts = match plan.warm {
        true => starters.clone(),
        false => Vec::new(),
    };
    let server = Readiness::follow(client.clone(), None, &TaskTracker::new());
    let (begin, ready) = Readiness::told();
    let config = LiveConfig {
        settings: plan.settings,
        seed: plan.seed,
        sampling_seeds: true,
        warmup: Duration::ZERO,
        unix_ms: unix_ms(),
    };
    let parts = LiveParts {
        client: client.clone(),
        starters,
        user_model: user_model(plan.user_model.as_ref(), at.clock).await?,
        registry: at.registry.clone(),
        clock: at.clock,
        records: None,
        ready,
    };
    // Its tasks end with its last handle, which the console holds: nobody can wait for them.
    let generator = LoadGenerator::spawn(config, parts, &TaskTracker::new())?;
    Ok(PreparedLoad {
        generator: generator.clone(),
        opening: Opening {
            generator,
            client,
            texts,
            seed: plan.seed,
            autostart: plan.autostart,
            server,
            begin,
        },
    })
}
