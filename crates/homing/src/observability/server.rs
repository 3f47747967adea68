//! A program that runs beside this one and must not outlast it.
//!
//! It has a process group of its own, so that Ctrl-C reaches it only through us, after the demo
//! is done. What it says goes into a file; if it ends by itself, the end of that file is why.
//!
//! # Guarantees
//!
//! - **Asked first.** [`Server::stop`] sends SIGTERM and waits before it kills.
//! - **Never left behind.** Dropped without that, it is killed. If this process is killed, the
//!   kernel sends the SIGTERM, where `setpriv` is there to ask the kernel for it: a process can
//!   only ask for itself.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use http_client::HttpClient;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{sleep, timeout};

/// Often enough that nobody notices.
const POLL: Duration = Duration::from_millis(50);
const ANSWER: Duration = Duration::from_secs(1);
/// Prometheus writes its memory to disk before it ends.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// Of a log, if a program has ended.
const LINES_SHOWN: usize = 4;

/// Sends SIGTERM when the parent has died, and is the program itself otherwise.
const GUARD: [&str; 3] = ["setpriv", "--pdeathsig", "TERM"];

#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    log: PathBuf,
}

/// What became of a server that was started.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Start {
    Ready,
    /// It runs and does not answer yet.
    Slow,
    /// It has ended, with these last words.
    Ended(String),
}

impl Server {
    /// Starts a program with its arguments and environment.
    pub(super) fn spawn(command: &Command, log: PathBuf) -> io::Result<Self> {
        let output = File::create(&log)?;
        let child = guarded(command)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()?;
        Ok(Self { child, log })
    }

    /// Waits until `address` answers, it ends, or patience does.
    pub(super) async fn ready(
        &mut self,
        transport: &HttpClient,
        address: &str,
        patience: Duration,
    ) -> Start {
        let answers = async {
            loop {
                if !self.runs() {
                    return Start::Ended(last_words(&self.log));
                }
                let answer = timeout(ANSWER, transport.get(address, 1 << 20)).await;
                if matches!(answer, Ok(Ok((status, _))) if status.is_success()) {
                    return Start::Ready;
                }
                sleep(POLL).await;
            }
        };
        timeout(patience, answers).await.unwrap_or(Start::Slow)
    }

    fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end, and ends it if it does not.
    pub(super) async fn stop(mut self) {
        // Fails only if it has ended already, and then waiting ends at once.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let ended = async {
            while self.runs() {
                sleep(POLL).await;
            }
        };
        let in_time = timeout(STOP_PATIENCE, ended).await;
        if in_time.is_err() {
            tracing::warn!(log = %self.log.display(), "a server did not stop and is killed");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The same command, such that the program hears of our death if that is possible here.
fn guarded(command: &Command) -> Command {
    let [guard, options @ ..] = GUARD;
    let mut probe = Command::new(guard);
    probe.args(options).arg("true");
    probe.stdin(Stdio::null()).stdout(Stdio::null());
    let possible = probe.stderr(Stdio::null()).status();
    let mut guarded = if possible.is_ok_and(|status| status.success()) {
        let mut guarded = Command::new(guard);
        guarded.args(options).arg(command.get_program());
        guarded
    } else {
        Command::new(command.get_program())
    };
    guarded.args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            guarded.env(name, value);
        }
    }
    guarded
}

/// The errors at the end of a log, or its last lines if it has none.
fn last_words(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let said: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let is_error = |line: &&str| {
        let line = line.to_lowercase();
        ["error", "err=", "panic"]
            .iter()
            .any(|mark| line.contains(mark))
    };
    let mut errors: Vec<&str> = said.iter().copied().filter(is_error).collect();
    if errors.is_empty() {
        errors = said;
    }
    match errors.is_empty() {
        true => "no output".to_owned(),
        false => errors[errors.len().saturating_sub(LINES_SHOWN)..].join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use http_client::HttpOptions;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    async fn start(script: &str, patience: Duration) -> (Server, Start) {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut server = Server::spawn(&shell(script), log).unwrap();
        let transport = HttpClient::network(HttpOptions::default());
        // The port that nobody can listen on.
        let started = server.ready(&transport, "http://127.0.0.1:0/", patience);
        let started = started.await;
        (server, started)
    }

    #[tokio::test]
    async fn one_that_ends_is_quoted() {
        let patience = Duration::from_secs(60);
        for (script, words) in [
            (
                "echo fine; echo error: no >&2; echo bye; exit 1",
                "error: no",
            ),
            ("echo a; echo b", "a\nb"),
            ("exit 3", "no output"),
        ] {
            let (_, started) = start(script, patience).await;
            assert_eq!(started, Start::Ended(words.to_owned()), "{script}");
        }
    }

    #[tokio::test]
    async fn one_that_runs_is_slow_and_ends_when_it_is_asked() {
        let (mut server, started) = start("exec sleep 600", Duration::from_millis(200)).await;
        assert_eq!(started, Start::Slow);
        assert!(server.runs());
        let id = Pid::from_child(&server.child);
        server.stop().await;
        let gone = rustix::process::test_kill_process(id);
        assert_eq!(gone, Err(rustix::io::Errno::SRCH));
    }

    #[tokio::test]
    async fn one_that_is_dropped_is_gone() {
        let (server, _) = start("trap '' TERM; sleep 600", Duration::ZERO).await;
        let id = Pid::from_child(&server.child);
        drop(server);
        let gone = rustix::process::test_kill_process(id);
        assert_eq!(gone, Err(rustix::io::Errno::SRCH));
    }
}
