//! The server under measurement: a child process whose CPU time and memory can be read.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};

/// A running `homing demo`, stopped on drop.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// `127.0.0.1:PORT`
    pub(crate) address: String,
    pub(crate) model: String,
}

impl Server {
    pub(crate) fn start(options: &[&str]) -> anyhow::Result<Self> {
        let mut child = Command::new("target/release/homing")
            .args([
                "demo",
                "--no-load",
                "--http-port",
                "0",
                "--console-port",
                "0",
            ])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start target/release/homing")?;
        let output = child.stdout.take().context("the child has no output")?;
        let (mut address, mut model) = (None, None);
        for line in BufReader::new(output).lines() {
            let line = line?;
            if let Some((_, rest)) = line.split_once(" serves ") {
                model = rest.split(" on ").next().map(str::to_owned);
            }
            if let Some((_, rest)) = line.split_once("api      http://") {
                address = rest.strip_suffix("/v1").map(str::to_owned);
            }
            if line.starts_with("Ctrl-C") {
                break;
            }
        }
        let (Some(address), Some(model)) = (address, model) else {
            bail!("the server printed no address");
        };
        Ok(Self {
            child,
            address,
            model,
        })
    }

    /// User plus system time since the start.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        cpu_of(self.child.id())
    }

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS"))
            .context("no VmRSS")?;
        let kilobytes: u64 = line.split_whitespace().nth(1).context("VmRSS")?.parse()?;
        Ok(kilobytes * 1024)
    }
}

/// User plus system time of a process since its start.
pub(crate) fn cpu_of(process: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The command's name is in parentheses and may hold anything; count from behind it.
    let fields = stat.rsplit_once(')').context("unreadable stat")?.1;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || -> anyhow::Result<u64> { Ok(fields.next().context("stat")?.parse()?) };
    // Linux reports in hundredths of a second on every platform we run on.
    Ok(Duration::from_millis(10 * (ticks()? + ticks()?)))
}

impl Drop for Server {
    fn drop(&mut self) {
        // Best effort: the benchmark is over either way.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
