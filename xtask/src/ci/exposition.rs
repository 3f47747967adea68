//! `promtool check metrics` against a live demo.
//!
//! The catalogue's tests check names one by one; this checks the page that Prometheus
//! really gets, after a few requests of every fate have left their marks on it.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::demo::Demo;
use super::http::{self, Answer};

pub(super) fn check() -> anyhow::Result<()> {
    let demo = Demo::start(&["--no-load"])?;
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
