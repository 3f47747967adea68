//! Prometheus and Grafana beside the demo, for people who have them installed.
//!
//! Both are other people's programs: they are started with the files that we ship, watched
//! while they start, and stopped with the demo. Nothing here is needed to serve, so whatever is
//! missing or goes wrong is said and the demo goes on; only a folder that cannot be written is
//! refused, because somebody named it.
//!
//! Ports are chosen before anything is started, so that files and pages can name them.

mod files;
mod server;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ::console::{Part, PartKind};
use anyhow::{Context as _, bail};
use http_client::{HttpClient, HttpOptions};
use tempfile::TempDir;

use self::files::Files;
use self::server::{Server, Start};
use crate::dashboards::lines::Lines;
use crate::plan::ObservabilityPlan;

/// Prometheus is ready within a second, or after it has read what an earlier run left.
const PROMETHEUS_PATIENCE: Duration = Duration::from_secs(15);
/// Grafana makes its database at first, which nobody needs to wait for. It ends sooner than
/// this if something is wrong.
const GRAFANA_PATIENCE: Duration = Duration::from_secs(2);

/// What Grafana is called, with its first words: by old and new releases, and where its
/// packages put it, which is not on the path of ordinary users.
const GRAFANA: [(&str, &[&str]); 4] = [
    ("grafana-server", &[]),
    ("grafana", &["server"]),
    ("/usr/sbin/grafana-server", &[]),
    ("/usr/sbin/grafana", &["server"]),
];
/// Where packages put what the program itself needs.
const GRAFANA_HOME: &str = "/usr/share/grafana";

/// What is to be watched.
#[derive(Debug)]
pub(crate) struct Watched {
    /// Where this machine reaches the demo's API.
    pub(crate) api: SocketAddr,
    pub(crate) lines: Option<Lines>,
}

/// The servers that run beside the demo.
#[derive(Debug)]
pub(crate) struct Observability {
    prometheus: Beside,
    grafana: Beside,
    /// Goes with this, after the servers.
    _folder: Option<TempDir>,
}

/// One of them, or why there is none.
#[derive(Debug)]
enum Beside {
    Runs { url: String, server: Server },
    Missing(String),
}

impl Observability {
    pub(crate) async fn start(plan: &ObservabilityPlan, watched: &Watched) -> anyhow::Result<Self> {
        let (folder, temporary) = folder(plan)?;
        let prometheus = port(plan.prometheus_port, "--prometheus-port");
        let grafana = port(plan.grafana_port, "--grafana-port");
        let url = prometheus.as_ref().map_or("", |(url, _)| url);
        let files = files::write(&folder, watched.api, url, watched.lines.as_ref())
            .context("--observability")?;
        let transport = HttpClient::network(HttpOptions::default());
        let prometheus = match prometheus {
            Ok((url, port)) => start_prometheus(&files, url, port, &transport).await,
            Err(taken) => Beside::Missing(taken.to_string()),
        };
        let grafana = match (&prometheus, grafana) {
            (Beside::Missing(_), _) => {
                Beside::Missing("not started: it shows nothing without Prometheus".to_owned())
            }
            (Beside::Runs { .. }, Err(taken)) => Beside::Missing(taken.to_string()),
            (Beside::Runs { .. }, Ok((url, port))) => {
                start_grafana(&files, url, port, &transport).await
            }
        };
        Ok(Self {
            prometheus,
            grafana,
            _folder: temporary,
        })
    }

    /// Where Prometheus answers queries, if it runs.
    pub(crate) fn prometheus_url(&self) -> Option<&str> {
        match &self.prometheus {
            Beside::Runs { url, .. } => Some(url),
            Beside::Missing(_) => None,
        }
    }

    /// Those that run, for the console's drawing.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let both = [
            (PartKind::Metrics, "Prometheus", &self.prometheus),
            (PartKind::Dashboards, "Grafana", &self.grafana),
        ];
        let running = both
            .into_iter()
            .filter_map(|(kind, name, beside)| match beside {
                Beside::Runs { url, .. } => Some(Part::new(kind, name, Some(url.clone()))),
                Beside::Missing(_) => None,
            });
        running.collect()
    }

    /// What to print: a name, and an address or why there is none.
    pub(crate) fn lines(&self) -> [(&'static str, String); 2] {
        [
            ("prometheus", self.prometheus.to_string()),
            ("grafana", self.grafana.to_string()),
        ]
    }

    /// Ends both. The folder goes afterwards, unless it was named.
    pub(crate) async fn stop(self) {
        tokio::join!(self.grafana.stop(), self.prometheus.stop());
    }
}

impl Beside {
    async fn stop(self) {
        if let Self::Runs { server, .. } = self {
            server.stop().await;
        }
    }

    /// Waits until it answers `path`, or has ended.
    async fn watch(
        url: String,
        mut server: Server,
        path: &str,
        patience: Duration,
        transport: &HttpClient,
    ) -> Self {
        let address = format!("{url}{path}");
        match server.ready(transport, &address, patience).await {
            Start::Ready | Start::Slow => Self::Runs { url, server },
            Start::Ended(words) => Self::Missing(format!("not running; its output:\n{words}")),
        }
    }
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runs { url, .. } => f.write_str(url),
            Self::Missing(why) => f.write_str(why),
        }
    }
}

async fn start_prometheus(files: &Files, url: String, port: u16, transport: &HttpClient) -> Beside {
    let Some(program) = find("prometheus") else {
        return Beside::Missing(
            "not installed; Debian and Ubuntu: sudo apt-get install prometheus\n                 (its own service then has port 9090: add --prometheus-port 0, or disable the service)"
                .to_owned(),
        );
    };
    let mut command = Command::new(program);
    command
        .arg(format!("--config.file={}", files.configuration.display()))
        .arg(format!("--storage.tsdb.path={}", files.data.display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"));
    match Server::spawn(&command, files.logs.join("prometheus.log")) {
        Ok(server) => Beside::watch(url, server, "/-/ready", PROMETHEUS_PATIENCE, transport).await,
        Err(error) => Beside::Missing(format!("not started: {error}")),
    }
}

async fn start_grafana(files: &Files, url: String, port: u16, transport: &HttpClient) -> Beside {
    let found = GRAFANA
        .iter()
        .find_map(|(program, words)| Some((find(program)?, words)));
    let Some((program, words)) = found else {
        return Beside::Missing(
            "not installed (https://grafana.com/grafana/download); \
             the console's page \"Grafana view\" draws the same panels"
                .to_owned(),
        );
    };
    let mut command = Command::new(program);
    command.args(*words);
    if Path::new(GRAFANA_HOME).is_dir() {
        command.arg(format!("--homepath={GRAFANA_HOME}"));
    }
    command.envs(grafana_settings(files, port));
    match Server::spawn(&command, files.logs.join("grafana.log")) {
        Ok(server) => Beside::watch(url, server, "/api/health", GRAFANA_PATIENCE, transport).await,
        Err(error) => Beside::Missing(format!("not started: {error}")),
    }
}

/// Grafana's settings. Everyone on this machine may look without logging in; Grafana contacts no
/// server outside.
fn grafana_settings(files: &Files, port: u16) -> Vec<(&'static str, String)> {
    let path = |path: &Path| path.display().to_string();
    vec![
        ("GF_SERVER_HTTP_ADDR", "127.0.0.1".to_owned()),
        ("GF_SERVER_HTTP_PORT", port.to_string()),
        ("GF_AUTH_ANONYMOUS_ENABLED", "true".to_owned()),
        ("GF_AUTH_ANONYMOUS_ORG_ROLE", "Viewer".to_owned()),
        ("GF_ANALYTICS_REPORTING_ENABLED", "false".to_owned()),
        ("GF_ANALYTICS_CHECK_FOR_UPDATES", "false".to_owned()),
        ("GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES", "false".to_owned()),
        ("GF_PATHS_DATA", path(&files.grafana.join("data"))),
        ("GF_PATHS_LOGS", path(&files.grafana.join("logs"))),
        ("GF_PATHS_PLUGINS", path(&files.grafana.join("plugins"))),
        ("GF_PATHS_PROVISIONING", path(&files.provisioning)),
        (
            "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH",
            path(&files.home_dashboard),
        ),
    ]
}

/// The folder to write into, and what removes it if it is a temporary one.
fn folder(plan: &ObservabilityPlan) -> anyhow::Result<(PathBuf, Option<TempDir>)> {
    match &plan.folder {
        Some(folder) => Ok((folder.clone(), None)),
        None => {
            let temporary = tempfile::Builder::new().prefix("homing-").tempdir();
            let temporary =
                temporary.context("cannot create a temporary folder for --observability")?;
            Ok((temporary.path().to_owned(), Some(temporary)))
        }
    }
}

/// A port that can be listened on now, and the address it gives. Nobody else is likely to take
/// it in the moment until our server does; and finding it taken here keeps us from believing
/// that somebody else's server is ours.
fn port(wanted: u16, option: &str) -> anyhow::Result<(String, u16)> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, wanted));
    let listener = TcpListener::bind(address).and_then(|listener| listener.local_addr());
    match listener {
        Ok(free) => Ok((format!("http://{free}"), free.port())),
        Err(error) => {
            bail!(
                "not started: cannot listen on {address}: {error} ({option}; 0 picks a free port)"
            )
        }
    }
}

/// The file of a program on the path, or at an absolute one.
#[expect(
    clippy::disallowed_methods,
    reason = "this crate is the reader of the environment"
)]
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(program));
    places.find(|place| place.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_named_and_a_free_one_is_found() {
        let (url, free) = port(0, "--prometheus-port").unwrap();
        assert_eq!(url, format!("http://127.0.0.1:{free}"));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = listener.local_addr().unwrap().port();
        let said = port(taken, "--prometheus-port").unwrap_err().to_string();
        assert!(said.contains("--prometheus-port"), "{said}");
    }

    #[test]
    fn programs_are_found_where_they_are() {
        assert!(find("sh").is_some_and(|place| place.ends_with("sh")));
        assert_eq!(find("no-such-program-anywhere"), None);
        assert_eq!(find("/bin/sh"), Some(PathBuf::from("/bin/sh")));
    }
}
