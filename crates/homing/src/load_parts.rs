//! What a load generator is made of, whichever command runs it: texts, the model that writes
//! questions, and what a server serves.

mod corpus;

use anyhow::{Context as _, bail};
use contract::Clock;
use http_client::{HttpClient, HttpOptions};
use loadgen::client::{Client, ServedModel, Target};
use loadgen::user_model::{self as writer, UserModel};
use loadgen::{Failure, Starter};
use tracing::warn;

use crate::environment::secret;
use crate::plan::{TextPlan, TextSource, UserModelPlan};

/// Where the user model's key is.
const USER_MODEL_KEY: &str = "HOMING_USER_MODEL_API_KEY";

pub(crate) async fn read_texts(plan: &TextPlan) -> anyhow::Result<Vec<Starter>> {
    let starters = match &plan.source {
        TextSource::Corpus(place) => corpus::read(place).await.context("--corpus")?,
        &TextSource::Articles(count) => {
            let articles = preprocess::corpus::articles().iter().take(count);
            let starters = articles.map(|article| Starter::new(article.title, article.text));
            starters.collect()
        }
    };
    Ok(match plan.limit {
        Some(limit) => starters
            .into_iter()
            .map(|starter| starter.cut(limit))
            .collect(),
        None => starters,
    })
}

pub(crate) async fn user_model(
    plan: Option<&UserModelPlan>,
    clock: Clock,
) -> anyhow::Result<Option<UserModel>> {
    let Some(UserModelPlan { url, name }) = plan else {
        return Ok(None);
    };
    let mut target = Target::new(url, "").context("--user-model")?;
    // The user model may be any server: it gets only the standard's fields.
    target.extensions = false;
    if let Ok(key) = secret(USER_MODEL_KEY) {
        target = target.with_key(&key).context(USER_MODEL_KEY)?;
    }
    let transport = HttpClient::network(HttpOptions::default());
    let asking = Client::new(transport.clone(), target.clone(), writer::PATIENCE, clock);
    target.model = match name {
        // It may start later. Until then questions are built in, and counted.
        Some(name) if is_silent(&asking).await => {
            warn!(url, "the user model does not answer yet");
            name.clone()
        }
        name => {
            let served = find_model(&asking, name.as_deref()).await;
            served.context("--user-model")?.name
        }
    };
    let client = Client::new(transport, target, writer::PATIENCE, clock);
    Ok(Some(UserModel::new(client)))
}

async fn is_silent(client: &Client) -> bool {
    matches!(client.models().await, Err(Failure { status: None, .. }))
}

/// Asks what is served, which also tells whether the address and the key are right.
pub(crate) async fn find_model(
    client: &Client,
    wanted: Option<&str>,
) -> anyhow::Result<ServedModel> {
    let base = client.target().base();
    let unlisted = |name: &str| ServedModel {
        name: name.to_owned(),
        simulated: false,
    };
    match (client.models().await, wanted) {
        (Ok(models), Some(wanted)) => match models.iter().find(|model| model.name == wanted) {
            Some(model) => Ok(model.clone()),
            None => {
                let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
                bail!(
                    "{base} does not serve `{wanted}`; it serves {}",
                    names.join(", ")
                )
            }
        },
        (Ok(models), None) => models
            .into_iter()
            .next()
            .with_context(|| format!("{base} lists no model; name one with --model")),
        // Some servers have no list.
        (
            Err(Failure {
                status: Some(404 | 405),
                ..
            }),
            Some(wanted),
        ) => Ok(unlisted(wanted)),
        (Err(failure), _) => {
            let hint = hint(&failure);
            bail!("cannot use {base}: {failure}{hint}")
        }
    }
}

/// What the user may have forgotten.
fn hint(failure: &Failure) -> &'static str {
    match failure.status {
        Some(401 | 403) => " (--api-key-env names the variable that holds the key)",
        _ if failure.message.contains("certificate") => {
            " (--ca-cert names a file of certificates to trust)"
        }
        _ => "",
    }
}
