//! The picker under measurement: a child process.

use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::super::server::{cpu_of, started};
use super::servers::Servers;
use crate::ci::fetch;

/// For its servers to join.
const TRIES: u32 = 600;
const PAUSE: Duration = Duration::from_millis(100);
/// More requests than are ever open here, so that nothing waits for a slot, and blocks for all that
/// is said.
const OF_EACH: &str = "slots=2000,blocks=400000";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encryption {
    None,
    Tls,
}

/// Stopped on drop.
#[derive(Debug)]
pub(super) struct Picker {
    child: Child,
    /// Where gateways ask.
    pub(super) address: String,
    metrics: u16,
}

impl Picker {
    pub(super) fn start(
        program: &Path,
        servers: &Servers,
        model: Option<&Path>,
        encryption: Encryption,
    ) -> anyhow::Result<Self> {
        let mut words: Vec<String> = ["epp", "--grpc-port", "0", "--health-port", "0"]
            .map(str::to_owned)
            .to_vec();
        words.extend(["--metrics-port".to_owned(), "0".to_owned()]);
        for address in &servers.addresses {
            words.push(format!("--upstream=openai=http://{address},{OF_EACH}"));
        }
        if let Some(model) = model {
            let path = model.to_str().context("--model-path is not UTF-8")?;
            words.extend(["--model-path".to_owned(), path.to_owned()]);
        }
        if encryption == Encryption::None {
            words.push("--plaintext".to_owned());
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (child, printed) = started(program, &words, "Ctrl-C")?;
        let after = |name: &str| {
            let found = printed
                .iter()
                .find_map(|line| line.trim().strip_prefix(name));
            found.map(str::trim).map(str::to_owned)
        };
        let (Some(address), Some(metrics)) = (after("ext_proc"), after("metrics")) else {
            bail!("the picker printed no address");
        };
        let address = address.split(' ').next().unwrap_or_default().to_owned();
        let metrics = metrics.strip_prefix("http://").unwrap_or(&metrics);
        let port = metrics.split(['/', ':']).nth(1);
        let picker = Self {
            child,
            address,
            metrics: port.context("no port of metrics")?.parse()?,
        };
        picker.wait_for(servers.addresses.len())?;
        Ok(picker)
    }

    fn wait_for(&self, servers: usize) -> anyhow::Result<()> {
        for _ in 0..TRIES {
            let workers = self.ask("/workers")?;
            if workers["workers"]
                .as_array()
                .is_some_and(|all| all.len() == servers)
            {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        bail!("the servers did not join")
    }

    fn ask(&self, path: &str) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&fetch(self.metrics, path)?)?)
    }

    /// Tokens of the prompt that was picked for last. Fails if it was routed without them, which costs
    /// next to nothing.
    pub(super) fn last_prompt_tokens(&self) -> anyhow::Result<u64> {
        let decisions = self.ask("/decisions?limit=1")?;
        let tokens = decisions["decisions"][0]["prompt_tokens"].as_u64();
        tokens
            .filter(|tokens| *tokens > 0)
            .context("the picker did not read the prompt")
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// User plus system time since the start.
    pub(super) fn cpu(&self) -> anyhow::Result<Duration> {
        cpu_of(self.id())
    }
}

impl Drop for Picker {
    fn drop(&mut self) {
        // Best effort: the benchmark is over either way.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
