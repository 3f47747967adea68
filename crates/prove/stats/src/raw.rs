//! What one run left behind: a line for every request, and a page about the whole.
//!
//! Every figure of a report is computed from these two files, and from nothing else. The page
//! is written last and in one piece, so a cell whose page is there is complete; lines without
//! a page are the rest of a run that was interrupted, and are run again.
//!
//! An interface: fields are added, never renamed.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use loadgen::{Histogram, RequestRecord};
use serde::{Deserialize, Serialize};

/// The version of both files.
pub const SCHEMA: u32 = 1;

/// Which cell of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CellName {
    pub mode: String,
    /// Conversations at once; 0 for a trace, which decides by itself.
    pub concurrency: u32,
    /// From 1.
    pub repeat: u32,
}

impl CellName {
    /// Without an ending, as its files are called.
    pub fn file_stem(&self) -> String {
        let safe = |character: char| match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => character,
            _ => '-',
        };
        let mode: String = self.mode.chars().map(safe).collect();
        format!("{:04}-{mode}-r{}", self.concurrency, self.repeat)
    }
}

impl std::fmt::Display for CellName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            mode,
            concurrency,
            repeat,
        } = self;
        write!(f, "{mode} at {concurrency}, repeat {repeat}")
    }
}

/// One run, unjudged.
#[derive(Clone, Debug, PartialEq)]
pub struct RawCell {
    pub facts: CellFacts,
    /// In the order in which requests ended, those of the warm-up included.
    pub records: Vec<RequestRecord>,
}

/// What is not about a single request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellFacts {
    pub schema: u32,
    #[serde(flatten)]
    pub name: CellName,
    /// The router's mode, where the cell is called otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router_mode: Option<String>,
    /// Of the conversations: the same in all modes and levels of a repeat.
    pub seed: u64,
    pub simulated: bool,
    /// The simulated hardware and model, or the model that was asked for.
    pub profile: String,
    /// How many, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// On the clock of the records.
    pub window_begin_s: f64,
    pub window_end_s: f64,
    /// When the window began, in Unix milliseconds; simulated time has no date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_from_ms: Option<u64>,
    /// Whether load was steady when the window began.
    pub steady: bool,
    /// Whether the deployment said that it routed in this mode.
    pub mode_confirmed: bool,
    /// Sequences that one worker runs at once, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// Of the whole run, from the first request to the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerCounters>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculation: Option<Speculation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_run: Option<VirtualFacts>,
    /// Gaps before tokens, of requests sent in the window.
    pub itl: Histogram,
}

/// What the server counted by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerCounters {
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
}

/// What drafts were worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speculation {
    /// Steps of a sequence that carried a draft.
    pub drafts: u64,
    pub drafted_tokens: u64,
    pub accepted_tokens: u64,
}

/// What only a run in virtual time knows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct VirtualFacts {
    /// Requests placed on a worker whose slots were taken while another had one free.
    pub dispatched_past_slots: u64,
    pub steps: u64,
    /// Warm-up and the wait for the last answers included.
    pub simulated_s: f64,
}

/// Why a cell's files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RawError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}, line {line}: {source}", path.display())]
    Malformed {
        path: PathBuf,
        line: usize,
        source: serde_json::Error,
    },
    #[error("{}: schema {found} is not supported; this version reads {SCHEMA}", path.display())]
    Schema { path: PathBuf, found: u32 },
}

impl RawCell {
    /// The seconds that are measured, on the records' clock.
    pub fn window(&self) -> Range<f64> {
        self.facts.window_begin_s..self.facts.window_end_s
    }

    /// Writes both files into a folder.
    pub fn write(&self, folder: &Path) -> Result<(), RawError> {
        let stem = self.facts.name.file_stem();
        let path = folder.join(format!("{stem}.jsonl"));
        let lines = || {
            let mut file = BufWriter::new(File::create(&path)?);
            for record in &self.records {
                serde_json::to_writer(&mut file, record)?;
                file.write_all(b"\n")?;
            }
            file.flush()
        };
        lines().map_err(at(&path))?;
        let path = folder.join(format!("{stem}.json"));
        let facts = serde_json::to_string(&self.facts).map_err(malformed(&path, 1))?;
        write_whole(&path, &(facts + "\n")).map_err(at(&path))
    }

    /// Reads both files, if the cell is complete.
    pub fn read(folder: &Path, name: &CellName) -> Result<Option<Self>, RawError> {
        let stem = name.file_stem();
        let path = folder.join(format!("{stem}.json"));
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(RawError::File { path, source }),
        };
        let facts: CellFacts = serde_json::from_slice(&text).map_err(malformed(&path, 1))?;
        if facts.schema != SCHEMA {
            let found = facts.schema;
            return Err(RawError::Schema { path, found });
        }
        let path = folder.join(format!("{stem}.jsonl"));
        let mut lines = BufReader::new(File::open(&path).map_err(at(&path))?);
        let mut records = Vec::new();
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).map_err(at(&path))? > 0 {
            let number = records.len() + 1;
            records.push(serde_json::from_slice(&line).map_err(malformed(&path, number))?);
            line.clear();
        }
        Ok(Some(Self { facts, records }))
    }

    /// Whether a cell's page is there.
    pub fn is_complete(folder: &Path, name: &CellName) -> bool {
        folder.join(format!("{}.json", name.file_stem())).exists()
    }
}

/// Writes a file in one piece: nobody ever finds half of it.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let draft = path.with_extension("part");
    fs::write(&draft, text)?;
    fs::rename(draft, path)
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> RawError {
    let path = path.to_owned();
    move |source| RawError::File { path, source }
}

fn malformed(path: &Path, line: usize) -> impl FnOnce(serde_json::Error) -> RawError {
    let path = path.to_owned();
    move |source| RawError::Malformed { path, line, source }
}
