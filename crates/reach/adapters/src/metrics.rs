//! The metrics of one engine.

use telemetry::{Counter, Registry, catalog};

use crate::engine_cache::Tally;

#[derive(Clone, Debug)]
pub(crate) struct AdapterMetrics {
    registry: Registry,
    engine: String,
    pub(crate) joined: Counter,
    pub(crate) lost: Counter,
    pub(crate) answers: Counter,
    pub(crate) prompt_mismatches: Counter,
}

impl AdapterMetrics {
    pub(crate) fn new(registry: &Registry, engine: &str) -> Self {
        let counter = |metric| registry.counter(metric, &[engine]);
        Self {
            registry: registry.clone(),
            engine: engine.to_owned(),
            joined: counter(&catalog::ENGINES_JOINED_TOTAL),
            lost: counter(&catalog::ENGINES_LOST_TOTAL),
            answers: counter(&catalog::ENGINES_ANSWERS_TOTAL),
            prompt_mismatches: counter(&catalog::ENGINES_PROMPT_MISMATCHES_TOTAL),
        }
    }

    /// An answer found a block or more beyond what was expected, or less.
    pub(crate) fn mismatch(&self, more: bool) {
        let found = if more { "more" } else { "less" };
        let labels = [self.engine.as_str(), found];
        self.registry
            .counter(&catalog::ENGINES_CACHED_MISMATCHES_TOTAL, &labels)
            .inc();
    }

    /// Events were lost, and whether a replay brought them back.
    pub(crate) fn gap(&self, repaired: bool) {
        let outcome = if repaired { "replayed" } else { "forgotten" };
        let labels = [self.engine.as_str(), outcome];
        self.registry
            .counter(&catalog::ENGINES_EVENT_GAPS_TOTAL, &labels)
            .inc();
    }

    pub(crate) fn malformed(&self) {
        self.count("malformed", 1);
    }

    pub(crate) fn tally(&self, tally: &Tally) {
        for (outcome, count) in [
            ("stored", tally.stored_blocks),
            ("removed", tally.removed_blocks),
            ("cleared", tally.cleared),
            ("unknown_parent", tally.unknown_parent),
            ("unknown_block", tally.unknown_block),
            ("other_medium", tally.other_medium),
            ("other_group", tally.other_group),
            ("other_key", tally.other_key),
            ("partial", tally.partial),
            ("overflow", tally.overflows),
        ] {
            self.count(outcome, count);
        }
    }

    /// Looks the counter up each time, because batches come only once per step.
    fn count(&self, outcome: &str, count: u64) {
        if count > 0 {
            let labels = [self.engine.as_str(), outcome];
            self.registry
                .counter(&catalog::ENGINES_EVENT_BLOCKS_TOTAL, &labels)
                .add(count);
        }
    }
}
