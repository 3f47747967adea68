//! Downloads one file, and resumes where the connection broke.

use std::path::Path;

use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderMap};
use http_body_util::BodyExt as _;

use super::client::{Answer, Client, PATIENCE, TRIES};
use crate::error::PullError;
use crate::partial::Partial;

/// A file on the server, and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    pub(super) path: String,
    pub(super) bytes: Option<u64>,
    pub(super) sha256: Option<String>,
}

/// What one request brought.
enum Piece {
    Whole,
    Cut(String),
}

/// Which bytes an answer has.
#[derive(Debug, PartialEq, Eq)]
struct Extent {
    start: u64,
    total: Option<u64>,
}

/// Fetches into `place`, going on behind what an earlier pull has left there. `grown` learns
/// how much is there.
pub(super) async fn download(
    client: &Client,
    remote: &Remote,
    place: &Path,
    grown: &mut (dyn FnMut(u64) + Send),
) -> Result<(), PullError> {
    let mut partial = Partial::resume(place)?;
    let resumed = partial.written() > 0;
    let mut remote = remote.clone();
    complete(client, &mut remote, &mut partial, grown).await?;
    let finished = partial.finish(remote.bytes, remote.sha256.as_deref());
    match finished {
        // What was left there may be from another time; it is gone now.
        Err(PullError::Checksum { .. } | PullError::Size { .. }) if resumed => {
            let mut partial = Partial::create(place)?;
            complete(client, &mut remote, &mut partial, grown).await?;
            partial.finish(remote.bytes, remote.sha256.as_deref())?;
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Asks again as long as every few tries bring something.
async fn complete(
    client: &Client,
    remote: &mut Remote,
    partial: &mut Partial,
    grown: &mut (dyn FnMut(u64) + Send),
) -> Result<(), PullError> {
    let mut fruitless = 0;
    loop {
        if remote.bytes.is_some_and(|bytes| partial.written() > bytes) {
            partial.restart()?;
        }
        if remote.bytes.is_some() && remote.bytes == Some(partial.written()) {
            return Ok(());
        }
        let before = partial.written();
        grown(before);
        let answer = client.get(&remote.path, before).await?;
        let detail = match receive(answer, remote, partial, grown).await? {
            Piece::Whole => return Ok(()),
            Piece::Cut(detail) => detail,
        };
        fruitless = if partial.written() > before {
            0
        } else {
            fruitless + 1
        };
        if fruitless == TRIES {
            let url = client.url(&remote.path);
            return Err(PullError::Http { url, detail });
        }
        client.back_off(fruitless).await;
    }
}

/// Writes what an answer brings. The disk is waited for right here: pulling a model is all
/// that this task does, and the system takes most writes at once.
async fn receive(
    answer: Answer,
    remote: &mut Remote,
    partial: &mut Partial,
    grown: &mut (dyn FnMut(u64) + Send),
) -> Result<Piece, PullError> {
    let response = answer.response;
    let extent = match extent(response.status(), response.headers()) {
        Some(extent) if extent.start == partial.written() => extent,
        // All of it, though the rest was asked for; or nothing that follows.
        Some(extent) if extent.start == 0 => {
            partial.restart()?;
            extent
        }
        Some(_) | None => {
            partial.restart()?;
            return Ok(Piece::Cut(
                "answers with other bytes than asked for".to_owned(),
            ));
        }
    };
    remote.bytes = remote.bytes.or(answer.bytes).or(extent.total);
    remote.sha256 = remote.sha256.take().or(answer.sha256);
    let mut body = response.into_body();
    loop {
        let frame = match tokio::time::timeout(PATIENCE, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Ok(Piece::Cut(format!("is cut off: {error}"))),
            Err(_) => return Ok(Piece::Cut("sends no more".to_owned())),
            Ok(None) => break,
        };
        if let Some(bytes) = frame.data_ref() {
            partial.write(bytes)?;
            grown(partial.written());
        }
        // A server that sends more than it announced is cut off.
        if remote.bytes.is_some_and(|bytes| partial.written() > bytes) {
            break;
        }
    }
    match extent.total {
        Some(total) if partial.written() < total => Ok(Piece::Cut("is cut off".to_owned())),
        Some(_) | None => Ok(Piece::Whole),
    }
}

fn extent(status: StatusCode, headers: &HeaderMap) -> Option<Extent> {
    let text = |name| headers.get(name)?.to_str().ok();
    if status == StatusCode::PARTIAL_CONTENT {
        let (range, total) = text(CONTENT_RANGE)?
            .strip_prefix("bytes ")?
            .split_once('/')?;
        let (start, _) = range.split_once('-')?;
        return Some(Extent {
            start: start.parse().ok()?,
            total: total.parse().ok(),
        });
    }
    (status == StatusCode::OK).then(|| Extent {
        start: 0,
        total: text(CONTENT_LENGTH).and_then(|length| length.parse().ok()),
    })
}
