//! The server under measurement: a child process whose CPU time and memory can be read.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::HOMING;

/// A running `homing demo`, or a frontend with its workers; stopped on drop.
#[derive(Debug)]
pub(crate) struct Server {
    /// The one that answers comes first.
    children: Vec<Child>,
    /// `127.0.0.1:PORT`
    pub(crate) address: String,
    pub(crate) model: String,
    /// Where other frontends reach it.
    pub(crate) peers: Option<String>,
}

impl Server {
    pub(crate) fn start(options: &[&str]) -> anyhow::Result<Self> {
        Self::start_program(Path::new(HOMING), options)
    }

    /// Another build of it.
    pub(crate) fn start_program(program: &Path, options: &[&str]) -> anyhow::Result<Self> {
        let command = [
            "demo",
            "--no-load",
            "--http-port",
            "0",
            "--console-port",
            "0",
        ];
        let (child, printed) = started(program, &[&command, options].concat(), "Ctrl-C")?;
        Self::new(vec![child], &printed)
    }

    /// A frontend, and workers in processes of their own; options of the latter and of the
    /// former.
    pub(crate) fn cluster(
        workers: usize,
        options: &[&str],
        frontend: &[&str],
    ) -> anyhow::Result<Self> {
        let (mut children, mut addresses) = (Vec::new(), Vec::new());
        let mut model = None;
        for _ in 0..workers {
            let command = [&["worker", "--port", "0"], options].concat();
            let (child, printed) = started(Path::new(HOMING), &command, "  events")?;
            children.push(child);
            let address = printed
                .iter()
                .find_map(|line| line.trim().strip_prefix("address"));
            addresses.push(address.context("no address")?.trim().to_owned());
            let name = printed
                .iter()
                .find_map(|line| line.split_once(" SIMULATES "));
            let name = name.and_then(|(_, rest)| rest.split(" (").next());
            model = name.map(str::to_owned);
        }
        let model = model.context("a worker names its model")?;
        let list = addresses.join(",");
        let command = [
            "frontend",
            "--http-port",
            "0",
            "--model-name",
            &model,
            "--workers",
            &list,
        ];
        let (child, printed) =
            started(Path::new(HOMING), &[&command, frontend].concat(), "Ctrl-C")?;
        children.insert(0, child);
        let server = Self::new(children, &printed)?;
        // Workers attach within a moment.
        std::thread::sleep(Duration::from_secs(1));
        Ok(server)
    }

    /// A frontend over servers that others started.
    pub(crate) fn frontend(options: &[&str]) -> anyhow::Result<Self> {
        let command = [&["frontend", "--http-port", "0"], options].concat();
        let (child, printed) = started(Path::new(HOMING), &command, "Ctrl-C")?;
        Self::new(vec![child], &printed)
    }

    fn new(children: Vec<Child>, printed: &[String]) -> anyhow::Result<Self> {
        let (mut address, mut model, mut peers) = (None, None, None);
        for line in printed {
            if let Some((_, rest)) = line.split_once(" serves ") {
                let name = rest
                    .split(" on ")
                    .next()
                    .and_then(|name| name.split(", router").next());
                model = name.map(str::to_owned);
            }
            if let Some((_, rest)) = line.split_once("api      http://") {
                address = rest.strip_suffix("/v1").map(str::to_owned);
            }
            if let Some(rest) = line.trim().strip_prefix("peers ") {
                peers = Some(rest.trim().to_owned());
            }
        }
        let (Some(address), Some(model)) = (address, model) else {
            bail!("the server printed no address");
        };
        Ok(Self {
            children,
            address,
            model,
            peers,
        })
    }

    /// The process that answers.
    pub(crate) fn id(&self) -> u32 {
        self.children[0].id()
    }

    /// User plus system time since the start, of all processes.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        let times = self.children.iter().map(|child| cpu_of(child.id()));
        times.sum()
    }

    /// Resident memory of the one that answers, in bytes.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        self.memory("VmRSS")
    }

    /// The most that it ever was.
    pub(crate) fn most_resident(&self) -> anyhow::Result<u64> {
        self.memory("VmHWM")
    }

    fn memory(&self, name: &str) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.children[0].id()))?;
        let line = status.lines().find(|line| line.starts_with(name));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
        Ok(1024 * kilobytes.context("no figure of memory")?.parse::<u64>()?)
    }
}

/// Starts the program, and reads what it prints until a line that begins with `last`.
pub(crate) fn started(
    program: &Path,
    arguments: &[&str],
    last: &str,
) -> anyhow::Result<(Child, Vec<String>)> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let output = child.stdout.take().context("the child has no output")?;
    let mut printed = Vec::new();
    for line in BufReader::new(output).lines() {
        printed.push(line?);
        if printed.last().is_some_and(|line| line.starts_with(last)) {
            break;
        }
    }
    Ok((child, printed))
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
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
