//! How long the other side has sent nothing, counted in heartbeats of this process.
//!
//! The wall clock advances while this process is stopped, starved or swapped out. Silence
//! measured by it would blame the other side for a pause of this one, although everything that
//! was sent in the meantime lies unread in its sockets. So silence is counted in this process's
//! own heartbeats: however many were missed during a pause, waking up is one heartbeat, and
//! before the next one everything that has arrived is read.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};

/// How often each side sends a heartbeat.
pub(crate) const BEAT: Duration = Duration::from_millis(250);

/// Our own beats. Those that we slept through are left out.
pub(crate) fn beats() -> Interval {
    let mut beats = tokio::time::interval(BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Skip);
    beats
}

/// Dead connections are noticed by pings too, so that the requests on them end. Pings are
/// measured by the clock on the wall, so they are given the time of a long sleep.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(1);
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Silence {
    beats: u32,
    longest: u32,
}

impl Silence {
    pub(crate) fn new(longest: Duration) -> Self {
        let whole = longest.as_millis().div_ceil(BEAT.as_millis());
        Self {
            beats: 0,
            // The first beat may come right after a word, so it proves nothing.
            longest: u32::try_from(whole).unwrap_or(u32::MAX - 1) + 1,
        }
    }

    pub(crate) fn heard(&mut self) {
        self.beats = 0;
    }

    /// A beat of ours has passed: whether the other side has been silent for too long.
    #[must_use]
    pub(crate) fn is_too_long(&mut self) -> bool {
        self.beats = self.beats.saturating_add(1);
        self.beats >= self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_at_least_as_long_as_said_and_a_word_ends_it() {
        let mut silence = Silence::new(4 * BEAT);
        for _ in 0..3 {
            for beat in 1..5 {
                assert!(!silence.is_too_long(), "after {beat} beats");
            }
            silence.heard();
        }
        let counted = (1..).find(|_| silence.is_too_long());
        assert_eq!(counted, Some(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_sleep_of_ours_is_one_beat() {
        let (mut beats, mut silence) = (beats(), Silence::new(4 * BEAT));
        for _ in 0..3 {
            beats.tick().await;
            assert!(!silence.is_too_long());
        }
        tokio::time::advance(100 * BEAT).await;
        beats.tick().await;
        assert!(!silence.is_too_long(), "we slept, they may not have");
        beats.tick().await;
        assert!(silence.is_too_long());
    }
}
