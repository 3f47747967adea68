//! A Prometheus of our own on a free port, with the shipped configuration.
//!
//! Only what cannot be shipped is changed: where the demo listens and how often it is asked.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::super::{http, process};
use super::PROMETHEUS;
use crate::repository;

/// It is ready within a second; a busy CI machine gets some more.
const START_TRIES: u32 = 600;
const START_PAUSE: Duration = Duration::from_millis(100);
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// Killed when dropped unless it was stopped properly.
pub(super) struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    /// Starts one in a new folder beside copies of the shipped rules.
    pub(super) fn start(name: &str, configuration: &str) -> anyhow::Result<Self> {
        let folder = repository::target_directory()?.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).context("could not clear the folder of the last run")?;
        }
        copy_rules(&folder.join("rules"))?;
        let file = folder.join("prometheus.yml");
        fs::write(&file, configuration)?;
        let checked = Command::new("promtool")
            .args(["check", "config"])
            .arg(&file)
            .status()
            .context("could not run promtool")?;
        ensure!(checked.success(), "promtool rejects {}", file.display());
        // Free now; nobody else is likely to take it in the moment until Prometheus does.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let log = folder.join("prometheus.log");
        println!("prometheus serves {address}, its log is {}", log.display());
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .context("could not start prometheus")?;
        let mut prometheus = Self { child, address };
        prometheus.wait_until_ready()?;
        Ok(prometheus)
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        for _ in 0..START_TRIES {
            if http::get(&self.address, "/-/ready").is_ok_and(|answer| answer.status == 200) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                anyhow::bail!("prometheus ended with {status}; see its log");
            }
            thread::sleep(START_PAUSE);
        }
        anyhow::bail!(
            "prometheus is not ready after {:?}",
            START_PAUSE * START_TRIES
        )
    }

    /// What the API answers under `data`, or its error in its own words.
    pub(super) fn get(&self, path: &str) -> anyhow::Result<Value> {
        let answer = http::get(&self.address, path)?;
        let mut body: Value = serde_json::from_str(&answer.body)
            .with_context(|| format!("{path} answers {}: {}", answer.status, answer.body))?;
        ensure!(body["status"] == "success", "{}", body["error"]);
        Ok(body["data"].take())
    }

    /// The series that a query finds now.
    pub(super) fn query(&self, expression: &str) -> anyhow::Result<Vec<Value>> {
        let mut data = self.get(&format!("/api/v1/query?query={}", encode(expression)))?;
        serde_json::from_value(data["result"].take()).context("the result is no list")
    }

    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        process::signal(&self.child, "TERM")?;
        let ended = process::wait_within(&mut self.child, STOP_PATIENCE)?;
        let status = ended.context("prometheus still runs after SIGTERM")?;
        ensure!(status.success(), "prometheus ended with {status}");
        Ok(())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn copy_rules(to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in repository::root()
        .join(PROMETHEUS)
        .join("rules")
        .read_dir()?
    {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Everything but letters and digits as the bytes of a URL.
pub(super) fn encode(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a string takes everything");
        }
        encoded
    })
}

/// The configuration for a local demo, for one that listens on `address` and is asked every
/// second.
pub(super) fn for_demo(shipped: &str, address: &str) -> anyhow::Result<String> {
    let moved = replace(shipped, "127.0.0.1:8000", address)?;
    hurried(&moved, "5s")
}

/// The configuration for a cluster, with pods of our own in the place of those that the
/// cluster would name. Debian's Prometheus cannot ask a cluster, and there is none to ask.
pub(super) fn for_cluster(shipped: &str, port: u16) -> anyhow::Result<String> {
    let port = port.to_string();
    let pods = [
        // Scraped.
        pod(
            "homing-0",
            &[
                ("annotation_prometheus_io_scrape", "true"),
                ("phase", "Running"),
                ("annotation_prometheus_io_port", &port),
            ],
        ),
        // Nobody asked for this one.
        pod(
            "other-0",
            &[
                ("phase", "Running"),
                ("annotation_prometheus_io_port", &port),
            ],
        ),
        // Ended.
        pod(
            "homing-1",
            &[
                ("annotation_prometheus_io_scrape", "true"),
                ("phase", "Succeeded"),
                ("annotation_prometheus_io_port", &port),
            ],
        ),
    ];
    let pods = format!("static_configs:\n{}", pods.concat());
    let found = replace(
        shipped,
        "kubernetes_sd_configs:\n      - role: pod\n",
        &pods,
    )?;
    hurried(&found, "15s")
}

fn pod(name: &str, facts: &[(&str, &str)]) -> String {
    let prefix = "          __meta_kubernetes_";
    let facts: String = facts
        .iter()
        .map(|(fact, value)| format!("{prefix}pod_{fact}: \"{value}\"\n"))
        .collect();
    format!(
        "      - targets: [\"{name}\"]\n        labels:\n{prefix}namespace: homing\n\
         {prefix}pod_name: {name}\n{prefix}pod_ip: 127.0.0.1\n{prefix}pod_node_name: node-a\n\
         {prefix}pod_label_app_kubernetes_io_name: homing-demo\n{facts}"
    )
}

fn hurried(configuration: &str, interval: &str) -> anyhow::Result<String> {
    let scraped = format!("scrape_interval: {interval}");
    let evaluated = format!("evaluation_interval: {interval}");
    let scraping = replace(configuration, &scraped, "scrape_interval: 1s")?;
    replace(&scraping, &evaluated, "evaluation_interval: 1s")
}

/// Replaces what has to be there exactly once.
fn replace(text: &str, old: &str, new: &str) -> anyhow::Result<String> {
    ensure!(
        text.matches(old).count() == 1,
        "the configuration has to say `{old}` once"
    );
    Ok(text.replace(old, new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_survives_its_way_through_an_address() {
        assert_eq!(encode("a{b=\"c\"}[1m]"), "a%7Bb%3D%22c%22%7D%5B1m%5D");
    }

    #[test]
    fn only_what_must_change_changes() {
        let text = "scrape_interval: 5s\nevaluation_interval: 5s\nat 127.0.0.1:8000\n";
        let changed = "scrape_interval: 1s\nevaluation_interval: 1s\nat 127.0.0.1:9\n";
        assert_eq!(for_demo(text, "127.0.0.1:9").unwrap(), changed);
        assert!(for_demo("something else", "127.0.0.1:9").is_err());
    }
}
