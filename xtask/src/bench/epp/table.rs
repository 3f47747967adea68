//! The table of figures, and what they are compared with.

use std::time::Duration;

use anyhow::ensure;

use super::super::client::percentile;
use super::super::figures::say;
use super::texts::Load;

/// CPU per request at 100,000 tokens of the picker of llm-d, as its developers published it.
const THEIR_CPU: Duration = Duration::from_millis(470);
const THEIR_TOKENS: usize = 100_000;
/// What it adds to a body of this size: more than a second, by the same source.
const THEIR_BODY: usize = 220_000;
/// How many times less CPU is wanted, and how little may be added.
const TIMES_LESS: f64 = 20.0;
const MOST_ADDED: Duration = Duration::from_millis(10);
/// Later than this share of the time that the requests came in: the machine did not carry them.
const LATE: f64 = 1.1;
/// At most this far from the size that was published.
const SAME_SIZE: f64 = 0.1;

#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    /// What was wanted; the tokenizer decides.
    pub(super) tokens: usize,
    pub(super) load: Load,
    /// Per second.
    pub(super) rate: u32,
}

impl Case {
    /// Texts of one case are not those of another.
    pub(super) fn seed(&self) -> u64 {
        self.tokens as u64 * 10_000 + u64::from(self.rate) * 10 + u64::from(self.load.warm)
    }
}

/// What a case came to.
#[derive(Debug)]
pub(super) struct Figures {
    /// Of the picker's process.
    pub(super) cpu: Duration,
    /// Requests that were answered with an error.
    pub(super) refused: usize,
    /// Until the last request was done with, and until the last was due.
    pub(super) wall: Duration,
    pub(super) due: Duration,
    pub(super) added: Vec<Duration>,
    /// From when a request was due.
    pub(super) whole: Vec<Duration>,
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    case: Case,
    pub(super) bytes: usize,
    requests: usize,
    refused: usize,
    cpu: Duration,
    achieved: f64,
    carried: bool,
    added: [Duration; 2],
    whole: Duration,
    remark: String,
}

impl Row {
    pub(super) fn new(case: Case, bytes: usize, mut figures: Figures) -> anyhow::Result<Self> {
        let requests = figures.added.len();
        ensure!(requests > 0, "all requests were refused");
        let wall = figures.wall.as_secs_f64();
        let patience = (figures.due.as_secs_f64() * LATE).max(figures.due.as_secs_f64() + 0.2);
        Ok(Self {
            case,
            bytes,
            requests,
            refused: figures.refused,
            // Those that were refused took some of it.
            cpu: figures.cpu / u32::try_from(requests)?,
            achieved: requests as f64 / wall,
            carried: wall <= patience && figures.refused == 0,
            added: [
                percentile(&mut figures.added, 0.50)?,
                percentile(&mut figures.added, 0.99)?,
            ],
            whole: percentile(&mut figures.whole, 0.99)?,
            remark: String::new(),
        })
    }

    pub(super) fn remark(mut self, remark: String) -> Self {
        self.remark = remark;
        self
    }

    fn print(&self) {
        let [median, slow] = self.added.map(milliseconds);
        let kind = ["cold", "warm"][usize::from(self.case.load.warm)];
        let late = match (self.carried, self.refused) {
            (true, _) => String::new(),
            (false, 0) => "  NOT CARRIED".to_owned(),
            (false, refused) => format!("  NOT CARRIED, {refused} refused"),
        };
        say(&format!(
            "{:>7} {:>7.1} {kind} {:>5} {:>8.1} {:>5} {:>9.2} {median:>9.2} {slow:>9.2} {:>9.2}  {}{late}",
            self.case.tokens,
            self.bytes as f64 / 1e3,
            self.case.rate,
            self.achieved,
            self.requests,
            milliseconds(self.cpu),
            milliseconds(self.whole),
            self.remark,
        ));
    }
}

pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// All rows, of all parts.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// A part begins, with a column of its own.
    pub(super) fn begin(&self, remark: &str) {
        let head = " tokens      kB        req/s achieved count    CPU ms added p50       p99 from due p99";
        say(&format!("{head}  {remark}"));
    }

    pub(super) fn add(&mut self, row: Row) {
        row.print();
        self.rows.push(row);
    }

    /// The figures beside what others published, and beside the goals.
    pub(super) fn conclude(&self) {
        let near = |value: usize, published: usize| {
            (value as f64 / published as f64 - 1.0).abs() <= SAME_SIZE
        };
        let long = self
            .rows
            .iter()
            .filter(|row| near(row.case.tokens, THEIR_TOKENS));
        if let Some(most) = long.map(|row| row.cpu).max() {
            let times = THEIR_CPU.as_secs_f64() / most.as_secs_f64();
            say(&format!(
                "\nCPU per request at {THEIR_TOKENS} tokens, the worst row: {:.2} ms; llm-d's picker: {:.0} ms as \
                 published, {times:.0} times as much (goal: at least {TIMES_LESS:.0} times)",
                milliseconds(most),
                milliseconds(THEIR_CPU),
            ));
        }
        let large = self
            .rows
            .iter()
            .filter(|row| near(row.bytes, THEIR_BODY) && row.carried);
        if let Some(most) = large.map(|row| row.added[1]).max() {
            say(&format!(
                "added to a body of {} kB, p99, the worst row that was carried: {:.2} ms; llm-d's picker: more than \
                 1000 ms as published (goal: less than {:.0} ms)",
                THEIR_BODY / 1000,
                milliseconds(most),
                milliseconds(MOST_ADDED),
            ));
        }
    }
}
