//! Wires a live sweep: the server that was named, its texts, and who watches.

use ::loadgen::Starter;
use ::loadgen::client::{Client, Patience, Target};
use ::sweep::live::LiveRun;
use ::sweep::live::deployment::{Deployment, Hooks};
use ::sweep::plan::Beside;
use ::sweep::{Folder, Testbed};
use anyhow::Context as _;
use contract::{Clock, Moment};
use http_client::{HttpClient, HttpOptions};
use tokio_util::sync::CancellationToken;

use super::SweepError;
use super::view::View;
use crate::args::SweepArgs;
use crate::environment::secret;
use crate::load_parts::find_model;
use crate::print;
use crate::process::{stop_signal, unix_ms};

/// A server that can be used.
pub(super) struct Reached {
    client: Client,
    deployment: Deployment,
    beside: Vec<(String, Client)>,
    deadline: Option<Moment>,
    drain: bool,
    model: String,
    simulated: bool,
    clock: Clock,
}

/// Makes the runs that are left; how many were completed, and whether time ran out.
pub(super) async fn run(reached: Reached, folder: &Folder) -> Result<(usize, bool), SweepError> {
    let stop = CancellationToken::new();
    let clock = reached.clock;
    let mut view = View::new(folder.plan(), folder.left().len(), clock);
    let articles = preprocess::corpus::articles().iter();
    let starters = articles.map(|article| Starter::new(article.title, article.text));
    let mut sweep = LiveRun {
        folder,
        deployment: reached.deployment,
        client: reached.client,
        beside: reached.beside,
        patience: Patience::default(),
        starters: starters.collect(),
        model: reached.model,
        simulated: reached.simulated,
        clock,
        unix_ms,
        stop: stop.clone(),
        drain: reached.drain,
        deadline: reached.deadline,
        watcher: Box::new(|news| view.show(news)),
    };
    let mut running = Box::pin(sweep.run());
    let outcome = tokio::select! {
        outcome = &mut running => outcome,
        // If signals cannot be heard, a sweep runs to its end.
        Ok(()) = stop_signal() => {
            stop.cancel();
            running.as_mut().await
        }
    };
    drop(running);
    drop(sweep);
    view.finish();
    if stop.is_cancelled() {
        print::note(format_args!("stopped; the current run is not counted"));
    }
    let completed = outcome.map_err(|error| SweepError::Later(error.into()))?;
    Ok((completed, view.is_out_of_time()))
}

/// The server of a testbed, checked before anything is measured or written.
pub(super) async fn reach(args: &SweepArgs, testbed: &Testbed) -> anyhow::Result<Reached> {
    let clock = Clock::start();
    let limit = args.time_limit.as_deref().map(lab::notation::duration);
    let limit = limit.transpose().context("time-limit")?;
    let (address, model) = match testbed {
        Testbed::Homing { target, model, .. } | Testbed::Hooks { target, model, .. } => {
            (target, model)
        }
        Testbed::Virtual { .. } | Testbed::Story { .. } => {
            anyhow::bail!("a virtual sweep has no target server")
        }
    };
    let mut target = Target::new(address, "").context("target")?;
    if let Some(name) = &args.api_key_env {
        target = target.with_key(&secret(name)?).context("api-key-env")?;
    }
    let transport = HttpClient::network(HttpOptions::default());
    let patience = Patience::default();
    let asking = Client::new(transport.clone(), target.clone(), patience, clock);
    let served = find_model(&asking, model.as_deref()).await;
    let served = served.context("target")?;
    target.model.clone_from(&served.name);
    let root = root(address);
    let deployment = match testbed {
        Testbed::Hooks {
            set_mode_command,
            get_mode_command,
            reset_command,
            ready_url,
            ..
        } => {
            let hooks = Hooks {
                set_mode: set_mode_command.clone(),
                get_mode: get_mode_command.clone(),
                reset: reset_command.clone(),
                ready_url: ready_url.clone(),
            };
            Deployment::hooks(transport.clone(), root, hooks)
        }
        Testbed::Homing { .. } | Testbed::Virtual { .. } | Testbed::Story { .. } => {
            let token = args.control_token_env.as_deref().map(secret).transpose()?;
            Deployment::homing(transport.clone(), root, token).await?
        }
    };
    let mut beside = Vec::new();
    if let Testbed::Homing { beside: others, .. } = testbed {
        for Beside { name, target } in others {
            // Of whoever else serves, no more than OpenAI's own fields can be expected.
            let mut other = Target::new(target, &served.name).context("beside")?;
            other.extensions = false;
            let client = Client::new(transport.clone(), other, patience, clock);
            find_model(&client, Some(&served.name))
                .await
                .with_context(|| format!("beside: {name}"))?;
            beside.push((name.clone(), client));
        }
    }
    Ok(Reached {
        client: Client::new(transport, target, patience, clock),
        deployment,
        beside,
        deadline: limit.map(|limit| clock.now() + limit),
        drain: !args.no_drain,
        model: served.name,
        simulated: served.simulated,
        clock,
    })
}

/// An address without the API's path.
pub(crate) fn root(address: &str) -> &str {
    let address = address.trim_end_matches('/');
    address.strip_suffix("/v1").unwrap_or(address)
}
