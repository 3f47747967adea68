//! The least HTTP that a check needs.
//!
//! Requests are HTTP/1.0, where a body simply lasts until the server closes: there is no
//! framing to undo. Real clients, with all that HTTP/1.1 asks of them, come in the step
//! `clients`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::Context;

/// Longer than any answer of an idle demo takes, shorter than a CI job's patience.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

pub(super) fn get(address: &str, path: &str) -> anyhow::Result<Answer> {
    exchange(
        address,
        &format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n"),
    )
    .with_context(|| format!("GET {path}"))
}

pub(super) fn post(address: &str, path: &str, body: &serde_json::Value) -> anyhow::Result<Answer> {
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len(),
    );
    exchange(address, &request).with_context(|| format!("POST {path}"))
}

fn exchange(address: &str, request: &str) -> anyhow::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    parse(&answer).with_context(|| format!("not an HTTP answer: {answer:?}"))
}

fn parse(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head
        .strip_prefix("HTTP/1.")?
        .split(' ')
        .nth(1)?
        .parse()
        .ok()?;
    Some(Answer {
        status,
        body: body.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_status_and_what_follows_the_head() {
        let answer = parse("HTTP/1.0 404 Not Found\r\na: b\r\n\r\nno\r\n\r\nmodel");
        assert_eq!(
            answer,
            Some(Answer {
                status: 404,
                body: "no\r\n\r\nmodel".to_owned()
            })
        );
        assert_eq!(parse("HTTP/1.0 200 OK\r\n"), None);
        assert_eq!(parse("SSH-2.0\r\n\r\n"), None);
    }
}
