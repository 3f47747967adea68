//! Dashboards that were made for Grafana, for a page that draws them without it.
//!
//! The caller that creates a console passes the files in, so that this crate knows none of them.
//! They are served unchanged: the page reads the same text that Grafana would.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// A dashboard's own JSON, and what it calls itself there.
#[derive(Clone, Debug)]
pub struct Dashboard {
    pub(crate) name: DashboardName,
    pub(crate) json: Bytes,
}

impl Dashboard {
    /// From a file that Grafana would take; an error if it has no `uid` or no `title`.
    pub fn parse(json: impl Into<Bytes>) -> serde_json::Result<Self> {
        let json = json.into();
        let name = serde_json::from_slice(&json)?;
        Ok(Self { name, json })
    }
}

/// How a dashboard is found and what it is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct DashboardName {
    pub uid: String,
    pub title: String,
}

/// What the page of dashboards can show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, TS)]
pub struct DashboardList {
    pub dashboards: Vec<DashboardName>,
    /// The address of the Prometheus that answers their queries; `null` if there is none.
    pub prometheus: Option<String>,
}
