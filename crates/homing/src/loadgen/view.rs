//! What a run looks like while it runs: some lines that are drawn over on a terminal, one
//! line a second elsewhere. Everything goes to standard error, so that standard output has
//! nothing but the result.

use std::io::{self, Write as _};
use std::time::Duration;

use ::loadgen::rolling::Figures;
use ::loadgen::{Phase, Snapshot};
use tokio::sync::watch;

use super::report::milliseconds;

#[derive(Debug)]
pub(super) struct View {
    terminal: bool,
    /// Until when load is sent; `None` if that is open.
    duration: Option<Duration>,
    /// Lines that are on the screen and will be drawn over.
    drawn: usize,
}

impl View {
    pub(super) fn new(terminal: bool, duration: Option<Duration>) -> Self {
        Self {
            terminal,
            duration,
            drawn: 0,
        }
    }

    /// Shows every snapshot, until there are no more.
    pub(super) async fn follow(&mut self, mut snapshots: watch::Receiver<Snapshot>) {
        while snapshots.changed().await.is_ok() {
            let snapshot = snapshots.borrow_and_update().clone();
            self.show(&snapshot);
        }
    }

    /// Takes its lines off the screen.
    pub(super) fn finish(&mut self) {
        if self.terminal {
            self.draw("");
        }
    }

    fn show(&mut self, snapshot: &Snapshot) {
        if self.terminal {
            self.draw(&self.block(snapshot));
        } else {
            // Nobody to tell if standard error is closed.
            let _ = writeln!(io::stderr(), "{}", line(snapshot));
        }
    }

    /// Writes over what was drawn before.
    fn draw(&mut self, text: &str) {
        let mut out = String::new();
        if self.drawn > 0 {
            out = format!("\x1b[{}A\x1b[J", self.drawn);
        }
        out.push_str(text);
        self.drawn = text.lines().count();
        // As above.
        let _ = io::stderr().write_all(out.as_bytes());
    }

    fn block(&self, snapshot: &Snapshot) -> String {
        let window = &snapshot.window;
        let row = |name: &str, figures: &Figures| {
            format!(
                "  {name:<6} {:>9} {:>9} {:>9} {:>9}\n",
                milliseconds(figures.p50),
                milliseconds(figures.p95),
                milliseconds(figures.p99),
                figures.samples,
            )
        };
        let mut text = format!("{}\n\n", headline(snapshot, self.duration));
        text.push_str("  last minute, ms     p50       p95       p99   samples\n");
        text.push_str(&row("TTFT", &window.ttft_ms));
        text.push_str(&row("TPOT", &window.tpot_ms));
        text.push_str(&row("ITL", &window.itl_ms));
        text.push_str(&row("E2E", &window.e2e_ms));
        text.push_str(&format!("\n  {}\n", throughput(snapshot)));
        if let Some(last) = &snapshot.last_failure {
            let message: String = last.failure.to_string().chars().take(90).collect();
            text.push_str(&format!("  {:.0} s ago: {message}\n", last.ago_s));
        }
        text
    }
}

fn line(snapshot: &Snapshot) -> String {
    let (ttft, tpot) = (&snapshot.window.ttft_ms, &snapshot.window.tpot_ms);
    // Told once: the line before this one was a second ago.
    let new = snapshot.last_failure.as_ref();
    let new = new.filter(|last| last.ago_s <= 1.0);
    let latest = new.map_or(String::new(), |last| format!("\n  {}", last.failure));
    format!(
        "{}  TTFT p50 {} p95 {} ms  TPOT p50 {} p95 {} ms  {}{latest}",
        headline(snapshot, None),
        milliseconds(ttft.p50),
        milliseconds(ttft.p95),
        milliseconds(tpot.p50),
        milliseconds(tpot.p95),
        throughput(snapshot),
    )
}

fn headline(snapshot: &Snapshot, of: Option<Duration>) -> String {
    let phase = match snapshot.phase {
        Phase::Stopped => "stopped",
        Phase::Waiting => "waiting for a worker",
        Phase::Running => "running",
        Phase::Paused => "paused",
        Phase::Draining => "draining",
    };
    let counts = &snapshot.conversations;
    let of = of.map_or(String::new(), |of| format!(" of {} s", of.as_secs()));
    format!(
        "{phase} {:.0} s{of}  conversations {} ({} in flight)",
        snapshot.running_s, counts.active, counts.in_flight
    )
}

fn throughput(snapshot: &Snapshot) -> String {
    let (window, totals) = (&snapshot.window, &snapshot.totals);
    let cached = window.cached_pct;
    format!(
        "{:.1} req/s  {:.0} tok/s  cached {}  requests {}  failed {}",
        window.rps,
        window.tops,
        cached.map_or("-".to_owned(), |cached| format!("{cached:.0} %")),
        totals.requests,
        totals.failures,
    )
}
