//! What a frontend reports about inference engines that are not ours.

use super::{Metric, Stage, metrics};

pub(super) const STAGE: Stage = Stage {
    title: "Engines",
    about: "Other inference engines behind the router (`--upstream`): whether they are there, and whether what they say about their caches agrees with what they do.",
    metrics: ALL,
};

metrics! {
    ENGINES_JOINED_TOTAL = Metric::counter(
        "homing_engines_joined_total",
        &["engine"],
        "Times the engine became a worker, again after each loss.",
    );
    ENGINES_LOST_TOTAL = Metric::counter(
        "homing_engines_lost_total",
        &["engine"],
        "Times the engine stopped answering or turned out not to fit.",
    );
    ENGINES_EVENT_BLOCKS_TOTAL = Metric::counter(
        "homing_engines_event_blocks_total",
        &["engine", "outcome"],
        "Blocks (or events that name none) in the engine's cache events: `stored`, `removed`, `cleared`, and left out as `unknown_parent`, `unknown_block`, `other_medium`, `other_group`, `other_key`, `partial`, `overflow` or `malformed`.",
    );
    ENGINES_EVENT_GAPS_TOTAL = Metric::counter(
        "homing_engines_event_gaps_total",
        &["engine", "outcome"],
        "Gaps in the engine's cache events: `replayed`, or `forgotten` with everything the engine was thought to hold.",
    );
    ENGINES_ANSWERS_TOTAL = Metric::counter(
        "homing_engines_answers_total",
        &["engine"],
        "Answers in which the engine reported how many prompt tokens were cached.",
    );
    ENGINES_CACHED_MISMATCHES_TOTAL = Metric::counter(
        "homing_engines_cached_mismatches_total",
        &["engine", "found"],
        "Of those, answers in which the engine found a block or more beyond what its events had led to expect (`more`: events came late), or that much `less`.",
    );
    ENGINES_PROMPT_MISMATCHES_TOTAL = Metric::counter(
        "homing_engines_prompt_mismatches_total",
        &["engine"],
        "Forwarded requests whose prompt the engine made into another number of tokens than Homing did to route it.",
    );
}
