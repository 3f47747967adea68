//! Starts and ends the processes.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::client::get;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_homing");
/// Polls before something that should happen counts as not happening: half a minute.
const LOOKS: u32 = 1200;
const PAUSE: Duration = Duration::from_millis(100);

/// Where a process runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Host<'a> {
    This,
    /// In the network namespace of this name.
    Named(&'a str),
}

impl Host<'_> {
    pub(crate) fn command(self, program: &str) -> Command {
        match self {
            Self::This => Command::new(program),
            Self::Named(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name, program]);
                command
            }
        }
    }
}

/// A process that is killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    command: Command,
    child: Child,
    output: BufReader<ChildStdout>,
    /// What it printed about itself: `address`, `api` and so on.
    pub(crate) address: String,
}

impl Process {
    /// Starts the program and waits until it has printed the line that begins with `key`.
    fn homing(host: Host<'_>, arguments: &[&str], key: &str) -> Self {
        let mut command = host.command(PROGRAM);
        command.args(arguments).args(["--log", "error"]);
        Self::announced(command, key)
    }

    fn announced(mut command: Command, key: &str) -> Self {
        let child = command.stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut process = Self {
            command,
            child,
            output,
            address: String::new(),
        };
        process.address = process.printed(key);
        process
    }

    /// The rest of the next line that begins with `key`.
    pub(crate) fn printed(&mut self, key: &str) -> String {
        for line in self.output.by_ref().lines() {
            let line = line.expect("it prints text");
            if let Some(rest) = line.trim().strip_prefix(key) {
                return rest.trim().to_owned();
            }
        }
        panic!("{:?} did not print {key}", self.command);
    }

    /// With everything that it can log in a file.
    pub(crate) fn logged(arguments: &[&str], key: &str, log: File) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).args(["--log", "debug"]).stderr(log);
        Self::announced(command, key)
    }

    pub(crate) fn worker(arguments: &[&str]) -> Self {
        Self::worker_on(Host::This, arguments)
    }

    pub(crate) fn worker_on(host: Host<'_>, arguments: &[&str]) -> Self {
        let base = ["worker", "--port", "0", "--profile", PROFILE];
        Self::homing(host, &[&base, arguments].concat(), "address")
    }

    pub(crate) fn frontend(arguments: &[&str]) -> Self {
        Self::frontend_on(Host::This, arguments)
    }

    pub(crate) fn frontend_on(host: Host<'_>, arguments: &[&str]) -> Self {
        Self::frontend_in(host.command(PROGRAM), arguments)
    }

    /// With variables in its environment.
    pub(crate) fn frontend_with(variables: &[(&str, &str)], arguments: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.envs(variables.iter().copied());
        Self::frontend_in(command, arguments)
    }

    fn frontend_in(mut command: Command, arguments: &[&str]) -> Self {
        command
            .args(["frontend", "--http-port", "0", "--model-name", MODEL])
            .args(arguments)
            .args(["--log", "error"]);
        let mut process = Self::announced(command, "api");
        process.address = process.address.trim_end_matches("/v1").to_owned();
        process
    }

    /// A load generator with a console, whose address it is. `token` is that of its console.
    pub(crate) fn loadgen(target: &Process, token: &str, arguments: &[&str]) -> Self {
        let port = free_port();
        let mut command = Command::new(PROGRAM);
        command
            .args(["loadgen", "--target", &target.address])
            .args(["--console-port", &port.to_string()])
            .args(arguments)
            .stderr(Stdio::null())
            .stdout(Stdio::piped());
        if !token.is_empty() {
            command.env("HOMING_CONTROL_TOKEN", token);
        }
        let mut child = command.spawn().expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let process = Self {
            command,
            child,
            output,
            address: format!("http://127.0.0.1:{port}"),
        };
        for _ in 0..LOOKS {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return process;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("{:?} does not listen", process.command);
    }

    /// Ends it without a farewell.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it was killed");
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Asks it to read its configuration again.
    pub(crate) fn reload(&self) {
        self.signal("-HUP");
    }

    /// It does nothing at all, and does not know it.
    pub(crate) fn stand_still(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status();
        assert!(sent.expect("kill runs").success());
    }

    pub(crate) fn wait(&mut self) {
        self.child.wait().expect("it ends");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the workers simulate: a small and fast GPU, so that a test takes seconds.
pub(crate) const PROFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/processes/small.toml");
pub(crate) const MODEL: &str = "small";

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    listener.local_addr().expect("it is bound").port()
}

/// The frontend's view of its workers.
pub(crate) async fn workers(frontend: &Process) -> Vec<Value> {
    let text = get(&format!("{}/workers", frontend.address)).await;
    let document: Value = serde_json::from_str(&text).expect("it is JSON");
    document["workers"].as_array().expect("a list").clone()
}

/// A metric's value, summed over its labels.
pub(crate) async fn metric(frontend: &Process, name: &str) -> f64 {
    let text = get(&format!("{}/metrics", frontend.address)).await;
    let lines = text.lines().filter(|line| line.starts_with(name));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

/// Waits until the frontend's workers are as wished; says how long it took.
pub(crate) async fn until(
    what: &str,
    frontend: &Process,
    wished: impl Fn(&[Value]) -> bool,
) -> Duration {
    let began = tokio::time::Instant::now();
    for _ in 0..LOOKS {
        if wished(&workers(frontend).await) {
            return began.elapsed();
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("{what} did not happen: {:#?}", workers(frontend).await);
}

pub(crate) async fn until_metric_exceeds(frontend: &Process, name: &str, bound: f64) {
    for _ in 0..LOOKS {
        if metric(frontend, name).await > bound {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("{name} stayed at {bound}");
}

pub(crate) async fn until_workers(frontend: &Process, count: usize) {
    until(&format!("{count} workers"), frontend, |workers| {
        workers.len() == count
    })
    .await;
}

/// Blocks of a worker as the frontend's index has them, and as the worker itself says.
pub(crate) fn index_is_right(worker: &Value) -> bool {
    let status = &worker["status"];
    let number = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
    number(&status["running"]) == 0
        && number(&status["waiting"]) == 0
        && worker["feed"] == "live"
        && number(&worker["indexed_blocks"]) == number(&status["cached_blocks"])
}

/// Blocks that all workers hold, as they said last.
pub(crate) fn cached_blocks(workers: &[Value]) -> u64 {
    let blocks = workers
        .iter()
        .map(|worker| &worker["status"]["cached_blocks"]);
    blocks.filter_map(Value::as_u64).sum()
}
