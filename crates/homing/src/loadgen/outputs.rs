//! The files that a run leaves.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::loadgen::RequestRecord;
use ::loadgen::live::RecordSink;
use ::loadgen::log::Conversation;
use anyhow::Context as _;
use parking_lot::Mutex;
use serde_json::json;

/// Writes a line per request, if `--record` is set.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    file: Option<(PathBuf, Arc<Mutex<Lines>>)>,
}

#[derive(Debug)]
struct Lines {
    writer: BufWriter<File>,
    /// The first thing that went wrong; nothing is written after it.
    outcome: io::Result<()>,
}

impl Recorder {
    pub(super) fn create(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let file = File::create(path).with_context(|| cannot_write(path))?;
        let lines = Lines {
            writer: BufWriter::new(file),
            outcome: Ok(()),
        };
        Ok(Self {
            file: Some((path.to_owned(), Arc::new(Mutex::new(lines)))),
        })
    }

    pub(super) fn sink(&self) -> Option<RecordSink> {
        let (_, lines) = self.file.as_ref()?;
        let lines = Arc::clone(lines);
        Some(Box::new(move |record, _| lines.lock().write(record)))
    }

    /// Flushes all records to the file, or returns the error.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let Some((path, lines)) = self.file else {
            return Ok(());
        };
        let mut lines = lines.lock();
        let outcome = std::mem::replace(&mut lines.outcome, Ok(()));
        outcome
            .and_then(|()| lines.writer.flush())
            .with_context(|| cannot_write(&path))
    }
}

impl Lines {
    fn write(&mut self, record: &RequestRecord) {
        if self.outcome.is_ok() {
            self.outcome = serde_json::to_writer(&mut self.writer, record)
                .map_err(io::Error::from)
                .and_then(|()| self.writer.write_all(b"\n"));
        }
    }
}

/// One conversation a line, with what its user said and how long answers may be. Questions
/// without an answer are left out, so that a replay asks what was measured.
pub(super) fn export_aiperf(
    path: &Path,
    conversations: &[Conversation],
    max_tokens: u32,
) -> anyhow::Result<()> {
    let mut text = String::new();
    for conversation in conversations {
        let turns: Vec<_> = conversation
            .turns
            .iter()
            .filter(|turn| turn.answered.is_some())
            .map(|turn| json!({ "text": turn.user, "output_length": max_tokens }))
            .collect();
        if turns.is_empty() {
            continue;
        }
        let line = json!({ "session_id": conversation.summary.id, "turns": turns });
        text.push_str(&line.to_string());
        text.push('\n');
    }
    std::fs::write(path, text).with_context(|| cannot_write(path))
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}
