//! What an engine drafts, counted since it started.
//!
//! Engines count in two ways: as running totals, or for each of their latest steps. [`DraftTally`]
//! makes totals of either, and the increase that this frontend's own counters take over. A restart
//! of the engine begins its totals again and loses none of ours.

use contract::SpeculationCounts;
use telemetry::{Counter, Registry, catalog};

/// What an engine says of its drafts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DraftReport {
    /// Since it started.
    Totals(SpeculationCounts),
    /// Of its latest steps, in order. Two reports may share steps.
    Steps(Vec<DraftedStep>),
}

/// The drafts of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraftedStep {
    /// Grows by one with each step of the engine.
    pub number: u64,
    /// Sequences that had one.
    pub drafts: u64,
    pub drafted_tokens: u64,
    pub accepted_tokens: u64,
}

/// The drafts of one engine, through all its restarts.
#[derive(Debug)]
pub(crate) struct DraftTally {
    counts: SpeculationCounts,
    latest_step: Option<u64>,
    registry: Registry,
    /// `worker_id` and `method`.
    labels: [String; 2],
    /// An engine that does not draft has no series.
    counters: Option<[Counter; 3]>,
}

impl DraftTally {
    pub(crate) fn new(registry: &Registry, worker: u64, method: &str) -> Self {
        Self {
            counts: SpeculationCounts::default(),
            latest_step: None,
            registry: registry.clone(),
            labels: [worker.to_string(), method.to_owned()],
            counters: None,
        }
    }

    /// Whether the engine has ever said anything of drafts.
    pub(crate) fn is_reported(&self) -> bool {
        self.counters.is_some()
    }

    /// Since the engine started, as far as it has said.
    pub(crate) fn counts(&self) -> &SpeculationCounts {
        &self.counts
    }

    pub(crate) fn add(&mut self, report: DraftReport) {
        let mut before = figures(&self.counts);
        match report {
            DraftReport::Totals(totals) => self.counts = totals,
            DraftReport::Steps(steps) => self.add_steps(&steps),
        }
        let now = figures(&self.counts);
        if now[0] < before[0] {
            // It has started anew, and counts from 0.
            before = [0; 3];
        }
        let counters = self.counters.get_or_insert_with(|| {
            let labels = self.labels.each_ref().map(String::as_str);
            [
                &catalog::SPECULATION_DRAFTS_TOTAL,
                &catalog::SPECULATION_DRAFTED_TOKENS_TOTAL,
                &catalog::SPECULATION_ACCEPTED_TOKENS_TOTAL,
            ]
            .map(|metric| self.registry.counter(metric, &labels))
        });
        for (counter, (now, before)) in counters.iter().zip(now.into_iter().zip(before)) {
            counter.add(now.saturating_sub(before));
        }
    }

    fn add_steps(&mut self, steps: &[DraftedStep]) {
        let Some(last) = steps.last() else { return };
        if self.latest_step.is_some_and(|latest| last.number < latest) {
            self.counts = SpeculationCounts::default();
            self.latest_step = None;
        }
        for step in steps {
            if self.latest_step.is_some_and(|latest| step.number <= latest) {
                continue;
            }
            self.latest_step = Some(step.number);
            add(&mut self.counts.drafts, step.drafts);
            add(&mut self.counts.drafted_tokens, step.drafted_tokens);
            add(&mut self.counts.accepted_tokens, step.accepted_tokens);
        }
    }
}

/// What a server claims may be any number.
fn add(total: &mut u64, more: u64) {
    *total = total.saturating_add(more);
}

fn figures(counts: &SpeculationCounts) -> [u64; 3] {
    [counts.drafts, counts.drafted_tokens, counts.accepted_tokens]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn totals(drafts: u64, drafted_tokens: u64, accepted_tokens: u64) -> DraftReport {
        DraftReport::Totals(SpeculationCounts {
            drafts,
            drafted_tokens,
            accepted_tokens,
            ..SpeculationCounts::default()
        })
    }

    /// Steps with these numbers, each with 2 drafts of 6 tokens of which 3 were accepted.
    fn steps(numbers: impl IntoIterator<Item = u64>) -> DraftReport {
        let step = |number| DraftedStep {
            number,
            drafts: 2,
            drafted_tokens: 6,
            accepted_tokens: 3,
        };
        DraftReport::Steps(numbers.into_iter().map(step).collect())
    }

    /// What each report makes of the worker's status and of the counters.
    #[track_caller]
    fn check(reports: Vec<(DraftReport, [u64; 3], [u64; 3])>) {
        let registry = Registry::new();
        let mut tally = DraftTally::new(&registry, 7, "eagle3");
        assert!(!tally.is_reported());
        assert_eq!(registry.render(Duration::ZERO), "");
        for (report, shown, counted) in reports {
            tally.add(report);
            assert_eq!(figures(tally.counts()), shown);
            let text = registry.render(Duration::ZERO);
            for (name, value) in ["drafts", "drafted_tokens", "accepted_tokens"]
                .into_iter()
                .zip(counted)
            {
                let line = format!(
                    "homing_speculation_{name}_total{{worker_id=\"7\",method=\"eagle3\"}} {value}\n"
                );
                assert!(text.contains(&line), "{line} is not in\n{text}");
            }
        }
        assert!(tally.is_reported());
    }

    #[test]
    fn totals_begin_again_with_the_engine_and_counters_do_not() {
        check(vec![
            (totals(100, 300, 180), [100, 300, 180], [100, 300, 180]),
            (totals(100, 300, 180), [100, 300, 180], [100, 300, 180]),
            (totals(110, 330, 190), [110, 330, 190], [110, 330, 190]),
            (totals(4, 12, 5), [4, 12, 5], [114, 342, 195]),
        ]);
    }

    #[test]
    fn absurd_numbers_end_at_the_largest() {
        let mut tally = DraftTally::new(&Registry::new(), 7, "eagle3");
        let step = |number| DraftedStep {
            number,
            drafts: u64::MAX,
            drafted_tokens: u64::MAX,
            accepted_tokens: u64::MAX,
        };
        tally.add(DraftReport::Steps(vec![step(0), step(1)]));
        tally.add(DraftReport::Steps(vec![step(2)]));
        assert_eq!(figures(tally.counts()), [u64::MAX; 3]);
    }

    #[test]
    fn each_step_counts_once() {
        check(vec![
            (steps([]), [0, 0, 0], [0, 0, 0]),
            (steps(0..3), [6, 18, 9], [6, 18, 9]),
            (steps(1..5), [10, 30, 15], [10, 30, 15]),
            (steps([]), [10, 30, 15], [10, 30, 15]),
            // Restarted.
            (steps(0..2), [4, 12, 6], [14, 42, 21]),
        ]);
    }
}
