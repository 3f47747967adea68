//! What a live sweep looks like while it runs: a bar with the time that is left, the run under
//! way second by second, and a line for every run that has ended. On standard error, so that
//! results can be piped.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use ::loadgen::Snapshot;
use ::sweep::Plan;
use ::sweep::live::{News, Stage};
use contract::{Clock, Moment};
use stats::CellSummary;

const BAR_CELLS: usize = 30;
/// Seconds between two lines about a run where there is no terminal.
const LINE_EVERY: u32 = 30;

#[derive(Debug)]
pub(super) struct View {
    terminal: bool,
    clock: Clock,
    begun: Moment,
    /// Expected from the plan, until a run has shown how long one takes.
    run_takes: Duration,
    runs: usize,
    ended: usize,
    name: String,
    stage: Stage,
    seconds: u32,
    out_of_time: bool,
}

impl View {
    pub(super) fn new(plan: &Plan, runs: usize, clock: Clock) -> Self {
        Self {
            terminal: io::stderr().is_terminal(),
            clock,
            begun: clock.now(),
            run_takes: plan.expected_run(),
            runs,
            ended: 0,
            name: String::new(),
            stage: Stage::Switching,
            seconds: 0,
            out_of_time: false,
        }
    }

    pub(super) fn show(&mut self, news: News<'_>) {
        match news {
            News::Begins { name, .. } => self.name = name.to_string(),
            News::Stage(stage) => {
                self.stage = stage;
                if !self.terminal {
                    line(&format!("{}: {}", self.name, words(stage)));
                }
            }
            News::Second(snapshot) => self.second(snapshot),
            News::Ended(cell) => self.ended(cell),
            News::OutOfTime { left, expected } => {
                self.finish();
                self.out_of_time = true;
                line(&format!(
                    "no time is left for a run of {} s; {left} are left",
                    expected.as_secs()
                ));
            }
        }
    }

    /// Whether the time limit ended the sweep.
    pub(super) fn is_out_of_time(&self) -> bool {
        self.out_of_time
    }

    /// Leaves no half-drawn bar behind.
    pub(super) fn finish(&self) {
        if self.terminal {
            status("");
        }
    }

    fn second(&mut self, snapshot: &Snapshot) {
        let active = snapshot.conversations.active;
        let ttft = snapshot.window.ttft_ms.p95;
        let ttft = ttft.map_or(String::new(), |p95| format!(", TTFT p95 {p95:.0} ms"));
        let state = format!(
            "{}, {}: {active} conversations{ttft}",
            self.name,
            words(self.stage)
        );
        self.seconds += 1;
        if self.terminal {
            status(&format!("{}  {state}", self.bar()));
        } else if self.seconds.is_multiple_of(LINE_EVERY) {
            line(&state);
        }
    }

    fn ended(&mut self, cell: &CellSummary) {
        self.finish();
        if self.ended == 0 {
            line(&heading());
        }
        self.ended += 1;
        self.run_takes = (self.clock.now() - self.begun) / self.ended as u32;
        line(&row(cell));
    }

    fn bar(&self) -> String {
        let total = self.run_takes * self.runs as u32;
        let elapsed = self.clock.now() - self.begun;
        let share = (elapsed.as_secs_f64() / total.as_secs_f64()).clamp(0.0, 1.0);
        let filled = (share * BAR_CELLS as f64).round() as usize;
        let left = total.saturating_sub(elapsed).as_secs();
        format!(
            "[{:<BAR_CELLS$}] {}/{}  {}:{:02} left",
            "#".repeat(filled),
            self.ended,
            self.runs,
            left / 60,
            left % 60
        )
    }
}

/// Overwrites the last status. Does nothing if standard error is closed.
fn status(text: &str) {
    let _ = write!(io::stderr(), "\r\x1b[2K{text}");
}

fn line(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

fn words(stage: Stage) -> &'static str {
    match stage {
        Stage::Switching => "switching the mode and emptying the caches",
        Stage::WarmingUp => "warming up",
        Stage::Measuring => "measuring",
        Stage::Finishing => "waiting for the last answers",
    }
}

fn heading() -> String {
    columns([
        "mode", "conc", "requests", "errors", "TTFT p50", "TTFT p95", "TPOT p95", "tok/s", "hit %",
        "doubts",
    ])
}

fn row(cell: &CellSummary) -> String {
    let number = |value: Option<f64>, digits: usize| {
        value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let doubts: Vec<&str> = cell.guards.iter().map(|guard| guard.kind.name()).collect();
    let level = cell
        .concurrency
        .map_or("-".to_owned(), |level| level.to_string());
    columns([
        &cell.mode,
        &level,
        &cell.requests.to_string(),
        &cell.errors.to_string(),
        &number(cell.ttft_ms.p50, 0),
        &number(cell.ttft_ms.p95, 0),
        &number(cell.tpot_ms.p95, 1),
        &number(Some(cell.tops), 0),
        &number(cell.kv_hit_pct, 1),
        &doubts.join(" "),
    ])
}

fn columns(fields: [&str; 10]) -> String {
    let [
        mode,
        level,
        requests,
        errors,
        ttft50,
        ttft95,
        tpot95,
        tops,
        hit,
        doubts,
    ] = fields;
    format!(
        "{mode:<13} {level:>5} {requests:>8} {errors:>6} {ttft50:>9} {ttft95:>9} {tpot95:>9} \
         {tops:>8} {hit:>6}  {doubts}"
    )
}
