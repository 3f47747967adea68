//! `promtool check metrics` against a live demo.
//!
//! The catalogue's tests check names one by one; this checks the page that Prometheus
//! really gets, after a few requests of every fate have left their marks on it.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use serde_json::{Value, json};

use super::http::{self, Answer};
use super::{homing, process};
use crate::repository;

/// The demo prints its addresses within 10 seconds; a busy CI machine gets some more.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// The demo's own grace for streams in flight, of which there are none here, is shorter.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn check() -> anyhow::Result<()> {
    let demo = Demo::start()?;
    let address = demo.address()?;
    println!("demo serves {address}");
    send_requests(&address)?;
    let metrics = http::get(&address, "/metrics")?;
    ensure!(metrics.status == 200, "/metrics answers {}", metrics.status);
    ensure!(
        metrics.body.contains("dynamo_frontend_requests_total{"),
        "/metrics does not count the requests:\n{}",
        metrics.body,
    );
    promtool(&metrics.body)?;
    println!(
        "promtool finds nothing in {} lines",
        metrics.body.lines().count()
    );
    demo.stop()
}

/// One request of every kind that leaves different marks: streamed, whole, refused.
fn send_requests(address: &str) -> anyhow::Result<()> {
    let models = http::get(address, "/v1/models")?;
    let list: Value = serde_json::from_str(&models.body).context("/v1/models is not JSON")?;
    let model = list["data"][0]["id"]
        .as_str()
        .context("/v1/models lists no model")?;
    let messages = json!([{ "role": "user", "content": "What does a page table hold?" }]);
    let chat = "/v1/chat/completions";
    let requests = [
        (
            chat,
            json!({ "model": model, "messages": messages, "max_tokens": 8 }),
            200,
        ),
        (
            chat,
            json!({ "model": model, "messages": messages, "max_tokens": 8, "stream": true }),
            200,
        ),
        (chat, json!({ "model": model, "messages": [] }), 400),
        (
            chat,
            json!({ "model": "unknown", "messages": messages }),
            404,
        ),
        (
            "/v1/completions",
            json!({ "model": model, "prompt": "A page", "max_tokens": 8 }),
            200,
        ),
    ];
    for (path, body, expected) in requests {
        let answer = http::post(address, path, &body)?;
        let Answer { status, body: said } = &answer;
        ensure!(
            *status == expected,
            "POST {path} {body} is answered {status}: {said}"
        );
    }
    Ok(())
}

fn promtool(exposition: &str) -> anyhow::Result<()> {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("could not run promtool")?;
    // It reads everything before it prints anything, so neither side can block the other.
    let mut input = promtool.stdin.take().expect("piped above");
    input.write_all(exposition.as_bytes())?;
    drop(input);
    let output = promtool.wait_with_output()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    ensure!(
        output.status.success() && said.is_empty(),
        "promtool: {}\n{said}",
        output.status
    );
    Ok(())
}

/// A running demo, killed when dropped unless it was stopped properly.
struct Demo {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Demo {
    fn start() -> anyhow::Result<Self> {
        let log = repository::target_directory()?.join("demo.log");
        println!("the demo's log is {}", log.display());
        let mut child = Command::new(homing()?)
            .args([
                "demo",
                "--no-load",
                "--http-port",
                "0",
                "--console-port",
                "0",
            ])
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
    fn address(&self) -> anyhow::Result<String> {
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
    fn stop(mut self) -> anyhow::Result<()> {
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
