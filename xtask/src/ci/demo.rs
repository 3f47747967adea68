//! A demo of our own, for steps that look at a running system.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};

use super::{homing, process};
use crate::repository;

/// The demo prints its addresses within 10 seconds; a busy CI machine gets some more.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// The demo stops its load first, so the streams in flight end soon after.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// A running demo, killed when dropped unless it was stopped properly.
pub(super) struct Demo {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Demo {
    /// Starts the demo on free ports, with these options besides.
    pub(super) fn start(options: &[&str]) -> anyhow::Result<Self> {
        let log = repository::target_directory()?.join("demo.log");
        println!("the demo's log is {}", log.display());
        let mut child = Command::new(homing()?)
            .args(["demo", "--http-port", "0", "--console-port", "0"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).context("could not create the log")?)
            .spawn()
            .context("could not start the demo")?;
        let output = child.stdout.take().expect("piped above");
        let (sender, lines) = mpsc::channel();
        // Reads to the end even when nobody listens: a full pipe would block the demo.
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Ok(Self { child, lines })
    }

    /// Waits until the demo has printed where its API is.
    pub(super) fn address(&self) -> anyhow::Result<String> {
        let mut said = String::new();
        loop {
            let line = self
                .lines
                .recv_timeout(START_PATIENCE)
                .map_err(|error| anyhow!("the demo printed no address ({error}), only:\n{said}"))?;
            if let Some(address) = api_address(&line) {
                return Ok(address.to_owned());
            }
            said.push_str(&line);
            said.push('\n');
        }
    }

    /// Asks the demo to stop, as an orchestrator would, and expects a clean exit.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        process::signal(&self.child, "TERM")?;
        let ended = process::wait_within(&mut self.child, STOP_PATIENCE)?;
        let status = ended
            .with_context(|| format!("the demo still runs {STOP_PATIENCE:?} after SIGTERM"))?;
        ensure!(status.success(), "the demo ended with {status}");
        Ok(())
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The host and port in a line such as `  api      http://127.0.0.1:8000`.
fn api_address(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let address = words
        .next()
        .filter(|&word| word == "api")
        .and(words.next())?;
    address.strip_prefix("http://")?.split('/').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_its_line() {
        assert_eq!(
            api_address("  api      http://127.0.0.1:41017"),
            Some("127.0.0.1:41017")
        );
        assert_eq!(
            api_address("api http://[::1]:8000/v1 (simulated)"),
            Some("[::1]:8000")
        );
        assert_eq!(api_address("  console  http://127.0.0.1:3000"), None);
        assert_eq!(api_address("  api"), None);
        assert_eq!(api_address(""), None);
    }
}
