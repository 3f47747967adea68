//! Whether load has settled.

use loadgen::LoadGenerator;

/// Seconds that are compared with as many before them.
const SPAN: u64 = 10;
/// By how much tokens may differ between the two.
const TOLERANCE: f64 = 0.10;

/// Whether all conversations have begun and tokens arrive as fast as they did before.
pub(super) fn is_steady(generator: &LoadGenerator, concurrency: u32) -> bool {
    let late = generator.tokens_of_late(SPAN);
    let before = generator.tokens_of_late(2 * SPAN) - late;
    let active = generator.snapshot().conversations.active;
    active >= concurrency && is_level(before, late)
}

fn is_level(before: u64, late: u64) -> bool {
    let (before, late) = (before as f64, late as f64);
    before > 0.0 && (late - before).abs() <= TOLERANCE * before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_changes_little_is_level() {
        for (before, late, expected) in [
            (1000, 1000, true),
            (1000, 1099, true),
            (1000, 901, true),
            (1000, 1200, false),
            (1000, 0, false),
            (0, 0, false),
        ] {
            assert_eq!(is_level(before, late), expected, "{before} {late}");
        }
    }
}
