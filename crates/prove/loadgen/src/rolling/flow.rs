//! Tokens and events of the last minute, counted without a lock.
//!
//! Every event of every answer is counted here, thousands per second, by all the tasks that
//! read; the task that sums the minute up must not make them wait. So a step is one number that
//! is exchanged whole: the second in its upper half, the count in its lower.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

use super::STEPS;

/// Tokens and events counted per second.
#[derive(Debug)]
pub struct Flow {
    tokens: [AtomicU64; STEPS],
    events: [AtomicU64; STEPS],
}

impl Default for Flow {
    fn default() -> Self {
        let empty = || array::from_fn(|_| AtomicU64::new(0));
        Self {
            tokens: empty(),
            events: empty(),
        }
    }
}

impl Flow {
    /// An event came with so many tokens.
    pub fn count(&self, second: u64, tokens: u32) {
        add(&self.tokens, second, tokens);
        add(&self.events, second, 1);
    }

    /// Tokens and events from the second `oldest` to the second `now`.
    pub(crate) fn sum(&self, oldest: u64, now: u64) -> (u64, u64) {
        let sum = |steps: &[AtomicU64; STEPS]| {
            let steps = steps.iter().map(|step| step.load(Ordering::Relaxed));
            let inside = steps.filter(|step| (oldest..=now).contains(&(step >> 32)));
            inside.map(|step| step & COUNT).sum()
        };
        (sum(&self.tokens), sum(&self.events))
    }

    pub(super) fn clear(&self) {
        for step in self.tokens.iter().chain(&self.events) {
            step.store(0, Ordering::Relaxed);
        }
    }
}

const COUNT: u64 = u32::MAX as u64;

fn add(steps: &[AtomicU64; STEPS], second: u64, count: u32) {
    let step = &steps[(second % STEPS as u64) as usize];
    let added = |seen: u64| match (seen >> 32).cmp(&second) {
        std::cmp::Ordering::Equal => Some(seen + u64::from(count)),
        std::cmp::Ordering::Less => Some(second << 32 | u64::from(count)),
        // A minute late.
        std::cmp::Ordering::Greater => None,
    };
    // Refused only for what is too old to count.
    let _ = step.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_minute_is_the_sum_of_its_seconds(
            mut counted in prop::collection::vec((0_u64..200, 0_u32..9), 0..100),
            later in 0_u64..80,
        ) {
            counted.sort_unstable();
            let flow = Flow::default();
            for &(second, tokens) in &counted {
                flow.count(second, tokens);
            }
            let now = counted.last().map_or(0, |&(second, _)| second) + later;
            let oldest = (now + 1).saturating_sub(STEPS as u64);
            let inside = || counted.iter().filter(|(second, _)| *second >= oldest);
            let tokens = inside().map(|&(_, tokens)| u64::from(tokens)).sum::<u64>();
            prop_assert_eq!(flow.sum(oldest, now), (tokens, inside().count() as u64));
        }
    }

    #[test]
    fn threads_lose_nothing_and_what_is_late_is_left_out() {
        let flow = Flow::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|n| flow.count(100 + n / 5_000, 2)));
            }
        });
        flow.count(40, 9);
        assert_eq!(flow.sum(60, 119), (80_000, 40_000));
        flow.clear();
        assert_eq!(flow.sum(0, 119), (0, 0));
    }
}
