//! What a deployment consists of, for the page that draws it.
//!
//! A process knows what it is connected to. What is around it (the platform, the gateway, the nodes,
//! where weights are stored) it knows only if somebody says so: `KIND=NAME` or `KIND=NAME,DETAIL`.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// One part of a deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, TS)]
pub struct Part {
    pub kind: PartKind,
    /// What it is: `NATS`, `etcd`, `Envoy Gateway`.
    pub name: String,
    /// Where it is, or how large.
    pub detail: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, TS)]
#[serde(rename_all = "kebab-case")]
pub enum PartKind {
    Platform,
    Gateway,
    Nodes,
    Frontend,
    /// Where workers are found.
    Discovery,
    /// What carries cache events.
    Events,
    /// What carries requests to workers.
    Requests,
    Workers,
    Load,
    /// Writes the questions of simulated users.
    UserModel,
    /// The texts that conversations begin with.
    Corpus,
    /// Where weights are.
    Storage,
    Metrics,
    Dashboards,
}

/// Why a part cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    #[error("`{0}` is not KIND=NAME or KIND=NAME,DETAIL")]
    Form(String),
    #[error(
        "`{0}` is no kind of part: it is one of platform, gateway, nodes, frontend, discovery, events, requests, \
         workers, load, user-model, corpus, storage, metrics, dashboards"
    )]
    Kind(String),
}

impl Part {
    pub fn new(kind: PartKind, name: impl Into<String>, detail: Option<String>) -> Self {
        Self {
            kind,
            name: name.into(),
            detail,
        }
    }
}

impl FromStr for Part {
    type Err = PartError;

    fn from_str(text: &str) -> Result<Self, PartError> {
        let form = || PartError::Form(text.to_owned());
        let (kind, rest) = text.split_once('=').ok_or_else(form)?;
        let (name, detail) = match rest.split_once(',') {
            Some((name, detail)) => (name, Some(detail.trim().to_owned())),
            None => (rest, None),
        };
        if name.trim().is_empty() || detail.as_deref() == Some("") {
            return Err(form());
        }
        let spelled = serde_json::Value::String(kind.trim().to_owned());
        let kind = serde_json::from_value(spelled);
        let kind =
            kind.map_err(|_| PartError::Kind(text.split('=').next().unwrap_or("").to_owned()))?;
        Ok(Self::new(kind, name.trim(), detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_a_kind_a_name_and_perhaps_a_detail() {
        let read = |text: &str| text.parse::<Part>();
        assert_eq!(
            read("gateway=Envoy Gateway"),
            Ok(Part::new(PartKind::Gateway, "Envoy Gateway", None))
        );
        assert_eq!(
            read("nodes=GPU pool, 3 x H200, 2 spare"),
            Ok(Part::new(
                PartKind::Nodes,
                "GPU pool",
                Some("3 x H200, 2 spare".to_owned())
            ))
        );
        assert_eq!(
            read("user-model=Serverless Inference").map(|part| part.kind),
            Ok(PartKind::UserModel)
        );
        for text in ["", "gateway", "gateway=", "gateway= ,x", "gateway=a,"] {
            assert_eq!(read(text), Err(PartError::Form(text.to_owned())), "{text}");
        }
        assert_eq!(read("door=x"), Err(PartError::Kind("door".to_owned())));
    }
}
