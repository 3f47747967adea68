//! The file that lines are appended to.
//!
//! Requests never wait for it: lines go through a bounded queue to one task, which serialises and
//! writes them. What does not fit into the queue or into the file is dropped and counted.

use std::io;
use std::path::{Path, PathBuf};

use telemetry::{Counter, Registry, catalog};
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::line::Line;

/// Lines that wait to be written; a prompt of 100,000 tokens has a line of about 130 kB.
const QUEUED_LINES: usize = 1024;
/// Lines that are written together.
const BATCH_LINES: usize = 64;

/// Takes lines. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Option<Sender>);

#[derive(Clone, Debug)]
struct Sender {
    lines: mpsc::Sender<Line>,
    dropped: Counter,
}

/// The other end: a file to which lines are appended.
#[derive(Debug)]
pub struct RecordFile {
    path: PathBuf,
    file: File,
    lines: mpsc::Receiver<Line>,
    bytes: u64,
    most_bytes: u64,
    /// Counts what comes after the end of the file, which has been logged.
    ended: Option<Counter>,
    written: Counter,
    dropped_full: Counter,
    dropped_failed: Counter,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot append to {}", path.display())]
pub struct OpenError {
    path: PathBuf,
    source: io::Error,
}

impl Recorder {
    /// One that records nothing.
    pub fn off() -> Self {
        Self(None)
    }

    /// Whether lines are wanted at all.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Hands a line over.
    pub fn record(&self, line: Line) {
        if let Some(sender) = &self.0
            && sender.lines.try_send(line).is_err()
        {
            sender.dropped.inc();
        }
    }
}

impl RecordFile {
    /// Opens the file, and makes it if it is not there. It grows to `most_bytes`.
    pub async fn open(
        path: &Path,
        most_bytes: u64,
        registry: &Registry,
    ) -> Result<(Recorder, Self), OpenError> {
        let open = async {
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .await?;
            let bytes = file.metadata().await?.len();
            Ok((file, bytes))
        };
        let (file, bytes) = open.await.map_err(|source| OpenError {
            path: path.to_owned(),
            source,
        })?;
        let (sender, lines) = mpsc::channel(QUEUED_LINES);
        let dropped =
            |reason| registry.counter(&catalog::REQUEST_TRACE_DROPPED_LINES_TOTAL, &[reason]);
        let recorder = Recorder(Some(Sender {
            lines: sender,
            dropped: dropped("queue_full"),
        }));
        let file = Self {
            path: path.to_owned(),
            file,
            lines,
            bytes,
            most_bytes,
            ended: None,
            written: registry.counter(&catalog::REQUEST_TRACE_LINES_TOTAL, &[]),
            dropped_full: dropped("file_full"),
            dropped_failed: dropped("failed"),
        };
        Ok((recorder, file))
    }

    /// Writes until `stop` fires, and then what is left.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut batch = Vec::with_capacity(BATCH_LINES);
        loop {
            let received = tokio::select! {
                received = self.lines.recv_many(&mut batch, BATCH_LINES) => received,
                () = stop.cancelled(), if !self.lines.is_closed() => {
                    self.lines.close();
                    continue;
                }
            };
            if received == 0 {
                return;
            }
            self.append(&batch).await;
            batch.clear();
        }
    }

    async fn append(&mut self, batch: &[Line]) {
        let mut text = Vec::new();
        let mut lines = 0;
        for line in batch {
            if let Some(dropped) = &self.ended {
                dropped.inc();
                continue;
            }
            let before = text.len();
            let fits = serde_json::to_writer(&mut text, line).is_ok() && {
                text.push(b'\n');
                self.bytes + text.len() as u64 <= self.most_bytes
            };
            if fits {
                lines += 1;
                continue;
            }
            text.truncate(before);
            self.dropped_full.inc();
            self.ended = Some(self.dropped_full.clone());
            let (path, limit) = (self.path.display(), self.most_bytes);
            warn!(%path, limit, "the request trace is full: nothing more is recorded");
        }
        let write = async {
            self.file.write_all(&text).await?;
            self.file.flush().await
        };
        match write.await {
            Ok(()) => {
                self.bytes += text.len() as u64;
                self.written.add(lines);
            }
            Err(error) => {
                // Half a line may be in the file, and whatever followed it would be spoilt.
                self.ended = Some(self.dropped_failed.clone());
                self.dropped_failed.add(lines);
                let path = self.path.display();
                error!(%path, %error, "cannot write the request trace: nothing more is recorded");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tasks::Tasks;

    use super::*;
    use crate::line::{Replay, Request};

    fn line(id: &str) -> Line {
        let request = Request {
            request_id: id.to_owned(),
            output_tokens: Some(3),
            request_received_ms: Some(1_000),
            total_time_ms: Some(12.5),
            replay: Some(Replay {
                trace_block_size: 16,
                input_length: 17,
                input_sequence_hashes: vec![u64::MAX, 1],
            }),
            ..Request::default()
        };
        Line::request_end(1_012, "s".to_owned(), request)
    }

    async fn written(path: &Path, most_bytes: u64, ids: &[&str]) -> (Vec<String>, String) {
        let registry = Registry::new();
        let tasks = Tasks::new();
        let (recorder, file) = RecordFile::open(path, most_bytes, &registry).await.unwrap();
        tasks.spawn(file.run(tasks.stop.clone()));
        for id in ids {
            recorder.record(line(id));
        }
        tasks.finish().await;
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines().map(|text| {
            let line: Line = serde_json::from_str(text).unwrap();
            line.ended().unwrap().request_id.clone()
        });
        (lines.collect(), registry.render(std::time::Duration::ZERO))
    }

    #[tokio::test]
    async fn what_was_recorded_before_the_end_is_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.jsonl");
        let many: Vec<String> = (0..200).map(|id| id.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let (ids, metrics) = written(&path, u64::MAX, &many).await;
        assert_eq!(ids, many);
        assert!(
            metrics.contains("homing_request_trace_lines_total 200"),
            "{metrics}"
        );
        // A process that starts again goes on.
        let (ids, _) = written(&path, u64::MAX, &["last"]).await;
        assert_eq!((ids.len(), ids.last().unwrap().as_str()), (201, "last"));
    }

    #[tokio::test]
    async fn a_file_grows_to_its_limit_and_ends_with_a_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.jsonl");
        let length = serde_json::to_vec(&line("a")).unwrap().len() as u64 + 1;
        let (ids, metrics) = written(&path, 2 * length + 5, &["a", "b", "c", "d"]).await;
        assert_eq!(ids, ["a", "b"]);
        let dropped = "homing_request_trace_dropped_lines_total{reason=\"file_full\"} 2";
        assert!(metrics.contains(dropped), "{metrics}");
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_opened_is_an_error_at_once() {
        let error = RecordFile::open(Path::new("/nowhere/trace"), 1, &Registry::new()).await;
        assert_eq!(
            error.unwrap_err().to_string(),
            "cannot append to /nowhere/trace"
        );
    }

    #[test]
    fn nothing_is_recorded_unless_asked() {
        assert!(!Recorder::off().is_on());
        Recorder::default().record(line("a"));
    }
}
