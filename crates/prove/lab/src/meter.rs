//! Progress of an experiment: a bar on a terminal, a line per cell elsewhere.
//!
//! On standard error, so that results can be piped.

use std::io::IsTerminal as _;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use contract::Clock;

use crate::grid::{Effort, Measured, NEVER, Pace, Progress};
use stats::cell_summary::CellSummary;

const BAR_CELLS: usize = 30;

/// Runs an experiment, shows how far it is, and says how fast it was. Threads are as many as
/// there are cores unless said otherwise.
pub fn timed(
    threads: Option<usize>,
    run: impl FnOnce(&Pace<'_>) -> Vec<Measured>,
) -> Vec<CellSummary> {
    let cells = metered(threads, &NEVER, |pace| {
        let cells = run(pace);
        let efforts: Vec<Effort> = cells.iter().map(|cell| cell.effort).collect();
        (cells, efforts)
    });
    cells.into_iter().map(|cell| cell.summary).collect()
}

/// The same for what may be stopped and tells its effort itself.
pub fn metered<T>(
    threads: Option<usize>,
    stop: &AtomicBool,
    run: impl FnOnce(&Pace<'_>) -> (T, Vec<Effort>),
) -> T {
    let threads = threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    let meter = Meter::start();
    let (result, efforts) = run(&Pace {
        threads,
        progress: &|progress: Progress<'_>| meter.show(progress),
        stop,
    });
    meter.clear();
    let took = meter.clock.now().as_secs_f64();
    let simulated: f64 = efforts.iter().map(|effort| effort.simulated_s).sum();
    let steps: u64 = efforts.iter().map(|effort| effort.steps).sum();
    if steps > 0 {
        eprintln!(
            "{simulated:.0} s of load in {took:.1} s on {threads} thread(s): {:.0} times real time, {steps} engine steps",
            simulated / took,
        );
    }
    result
}

#[derive(Debug)]
struct Meter {
    is_terminal: bool,
    clock: Clock,
}

impl Meter {
    fn start() -> Self {
        Self {
            is_terminal: std::io::stderr().is_terminal(),
            clock: Clock::start(),
        }
    }

    fn show(&self, progress: Progress<'_>) {
        let left = remaining(self.clock.now().as_secs_f64(), progress.share);
        if self.is_terminal {
            status(&bar(progress, left));
        } else {
            let Progress {
                done, total, label, ..
            } = progress;
            eprintln!("{done}/{total} {label} ({:.0} s left)", left.as_secs_f64());
        }
    }

    /// Leaves no half-drawn bar behind.
    fn clear(&self) {
        if self.is_terminal {
            status("");
        }
    }
}

/// Replaces the last status on a terminal.
fn status(text: &str) {
    eprint!("\r\x1b[2K{text}");
}

/// What is left if the rest goes as what is done.
fn remaining(elapsed: f64, share: f64) -> Duration {
    Duration::try_from_secs_f64(elapsed * (1.0 - share) / share).unwrap_or_default()
}

fn bar(progress: Progress<'_>, left: Duration) -> String {
    let filled = (progress.share * BAR_CELLS as f64).round() as usize;
    format!(
        "[{:<BAR_CELLS$}] {}/{}  {:.0} s left  {}",
        "#".repeat(filled.min(BAR_CELLS)),
        progress.done,
        progress.total,
        left.as_secs_f64(),
        progress.label
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_expected_to_go_as_what_is_done() {
        assert_eq!(remaining(10.0, 0.5), Duration::from_secs(10));
        assert_eq!(remaining(10.0, 0.25), Duration::from_secs(30));
        assert_eq!(remaining(10.0, 1.0), Duration::ZERO);
        assert_eq!(remaining(0.0, 0.0), Duration::ZERO, "nothing is known yet");
    }

    #[test]
    fn the_bar_fills() {
        let progress = Progress {
            done: 2,
            total: 4,
            share: 0.5,
            label: "kv at 60",
        };
        let bar = bar(progress, Duration::from_secs(7));
        assert_eq!(bar.matches('#').count(), BAR_CELLS / 2);
        assert!(bar.ends_with("2/4  7 s left  kv at 60"));
    }
}
