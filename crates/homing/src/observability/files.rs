//! What Prometheus and Grafana read: the shipped files, with the addresses and paths of this
//! demo in the place of the usual ones.
//!
//! The same files that people use by hand, so there is one set of labels, rules and dashboards.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use crate::dashboards;
use crate::dashboards::lines::Lines;

const SCRAPING: &str = include_str!("../../../../dashboards/prometheus/demo.yml");
const RECORDING: &str = include_str!("../../../../dashboards/prometheus/rules/recording.yml");
const ALERTS: &str = include_str!("../../../../dashboards/prometheus/rules/alerts.yml");
const DATASOURCE: &str =
    include_str!("../../../../dashboards/grafana/provisioning/datasources/prometheus.yml");
const PROVIDER: &str =
    include_str!("../../../../dashboards/grafana/provisioning/dashboards/homing.yml");

/// Where everything lies in the folder.
#[derive(Clone, Debug)]
pub(super) struct Files {
    /// Of Prometheus.
    pub(super) configuration: PathBuf,
    pub(super) data: PathBuf,
    pub(super) provisioning: PathBuf,
    /// The dashboard that Grafana opens with.
    pub(super) home_dashboard: PathBuf,
    pub(super) grafana: PathBuf,
    pub(super) logs: PathBuf,
}

impl Files {
    fn within(folder: &Path) -> Self {
        let grafana = folder.join("grafana");
        Self {
            configuration: folder.join("prometheus.yml"),
            data: folder.join("prometheus-data"),
            provisioning: grafana.join("provisioning"),
            home_dashboard: grafana.join("dashboards").join(dashboards::HOME),
            logs: folder.to_owned(),
            grafana,
        }
    }
}

/// Writes all of it, for a demo whose API is at `api` and a Prometheus at `prometheus`.
pub(super) fn write(
    folder: &Path,
    api: SocketAddr,
    prometheus: &str,
    lines: Option<&Lines>,
) -> anyhow::Result<Files> {
    // Programs that are started elsewhere read these paths.
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let folder = fs::canonicalize(folder)?;
    let files = Files::within(&folder);
    let boards = files.grafana.join("dashboards");
    dashboards::write(&boards, lines)?;
    let texts = [
        (files.configuration.clone(), scraping(api)?),
        (folder.join("rules/recording.yml"), RECORDING.to_owned()),
        (folder.join("rules/alerts.yml"), ALERTS.to_owned()),
        (
            files.provisioning.join("datasources/prometheus.yml"),
            datasource(prometheus)?,
        ),
        (
            files.provisioning.join("dashboards/homing.yml"),
            provider(&boards)?,
        ),
    ];
    for (path, text) in texts {
        let cannot = || format!("cannot write {}", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(cannot)?;
        }
        fs::write(&path, text).with_context(cannot)?;
    }
    Ok(files)
}

fn scraping(api: SocketAddr) -> anyhow::Result<String> {
    replace(SCRAPING, "\"127.0.0.1:8000\"", &quoted(&api.to_string()))
}

fn datasource(prometheus: &str) -> anyhow::Result<String> {
    replace(DATASOURCE, "http://127.0.0.1:9090", &quoted(prometheus))
}

fn provider(boards: &Path) -> anyhow::Result<String> {
    let path = boards.to_str().context("the path is not valid Unicode")?;
    replace(PROVIDER, "/var/lib/grafana/dashboards", &quoted(path))
}

/// As a string of JSON, which YAML reads as well, whatever is in it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Replaces what has to be there exactly once: a shipped file that has changed must not be
/// used with the usual address.
fn replace(text: &str, old: &str, new: &str) -> anyhow::Result<String> {
    ensure!(
        text.matches(old).count() == 1,
        "a shipped file must contain `{old}` exactly once"
    );
    Ok(text.replace(old, new))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed<'a>(shipped: &'a str, written: &'a str) -> Vec<(&'a str, &'a str)> {
        assert_eq!(shipped.lines().count(), written.lines().count());
        let pairs = shipped.lines().zip(written.lines());
        pairs
            .filter(|(old, new)| old != new)
            .map(|(old, new)| (old.trim(), new.trim()))
            .collect()
    }

    #[test]
    fn only_addresses_and_paths_differ_from_what_is_shipped() {
        let api = "[::1]:4711".parse().unwrap();
        assert_eq!(
            changed(SCRAPING, &scraping(api).unwrap()),
            [(
                r#"- targets: ["127.0.0.1:8000"]"#,
                r#"- targets: ["[::1]:4711"]"#
            )]
        );
        assert_eq!(
            changed(DATASOURCE, &datasource("http://127.0.0.1:1").unwrap()),
            [("url: http://127.0.0.1:9090", r#"url: "http://127.0.0.1:1""#)]
        );
        let written = provider(Path::new("/a b/#c: d")).unwrap();
        assert_eq!(
            changed(PROVIDER, &written),
            [("path: /var/lib/grafana/dashboards", r#"path: "/a b/#c: d""#)]
        );
    }

    #[test]
    fn the_rules_lie_where_the_configuration_looks_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let api = "127.0.0.1:1".parse().unwrap();
        let files = write(folder.path(), api, "http://127.0.0.1:2", None).unwrap();
        let rules = SCRAPING.lines().map(str::trim);
        let rules: Vec<_> = rules
            .filter_map(|line| line.strip_prefix("- rules/"))
            .collect();
        assert_eq!(rules.len(), 2);
        for name in rules {
            let beside = files.configuration.with_file_name("rules");
            assert!(beside.join(name).is_file(), "{name}");
        }
        assert!(files.home_dashboard.is_file());
        assert!(files.configuration.is_absolute());
    }
}
