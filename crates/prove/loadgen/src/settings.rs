//! What can be changed while load runs.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::schedule::Schedule;
use crate::script::{Popularity, Script, Starters};

/// Far beyond any target that one process can load.
const MOST_CONVERSATIONS: u32 = 100_000;

/// The knobs of a load generator. Everything applies at once: to the level now, to a
/// running conversation from its next turn on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Conversations at once; without effect while `arrivals_per_second` is set.
    pub concurrency: u32,
    /// Requests in a conversation.
    pub turns: RangeInclusive<u32>,
    /// Seconds that a user thinks before the next turn.
    pub think_time_s: RangeInclusive<f64>,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
    /// Conversations that begin in a second while there are too few; 0 for all at once.
    pub starts_per_second: f64,
    /// At most so many requests per second; `null` for no limit.
    pub max_requests_per_second: Option<f64>,
    /// Open loop: conversations that arrive per second, however slow the running ones are.
    pub arrivals_per_second: Option<f64>,
    /// Whether conversations share their texts. Applies to conversations that begin later.
    pub starters: StarterMode,
    /// Popularity of shared texts: the *k*-th is chosen in proportion to `k` to the power of
    /// minus this; `null` for all alike.
    pub zipf: Option<f64>,
}

/// What a conversation begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum StarterMode {
    /// One of the texts, as it is: workers soon hold them all.
    #[default]
    Shared,
    /// A line of its own before the text, so that nothing of it was cached by another.
    Unique,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            concurrency: 60,
            turns: 3..=5,
            think_time_s: 0.0..=0.0,
            max_tokens: 1024,
            starts_per_second: 10.0,
            max_requests_per_second: None,
            arrivals_per_second: None,
            starters: StarterMode::Shared,
            zipf: None,
        }
    }
}

/// Why settings cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("concurrency is at most {MOST_CONVERSATIONS}")]
    Concurrency,
    #[error("turns must be at least 1, and the range must not be reversed")]
    Turns,
    #[error("think_time_s must be from 0 to 3600 seconds, and the range must not be reversed")]
    ThinkTime,
    #[error("max_tokens must be at least 1")]
    MaxTokens,
    #[error("rates must be above 0 and at most 100000 per second")]
    Rate,
    #[error("zipf must be above 0 and at most 10")]
    Zipf,
}

impl Settings {
    /// Whether they make sense together.
    pub fn check(&self) -> Result<(), SettingsError> {
        let is_rate = |rate: f64| rate > 0.0 && rate <= 1e5;
        let (least, most) = (*self.think_time_s.start(), *self.think_time_s.end());
        if self.concurrency > MOST_CONVERSATIONS {
            Err(SettingsError::Concurrency)
        } else if *self.turns.start() == 0 || self.turns.is_empty() {
            Err(SettingsError::Turns)
        } else if !(0.0 <= least && least <= most && most <= 3600.0) {
            Err(SettingsError::ThinkTime)
        } else if self.max_tokens == 0 {
            Err(SettingsError::MaxTokens)
        } else if [self.max_requests_per_second, self.arrivals_per_second]
            .into_iter()
            .flatten()
            .any(|rate| !is_rate(rate))
            || !(self.starts_per_second == 0.0 || is_rate(self.starts_per_second))
        {
            Err(SettingsError::Rate)
        } else if self
            .zipf
            .is_some_and(|exponent| !(exponent > 0.0 && exponent <= 10.0))
        {
            Err(SettingsError::Zipf)
        } else {
            Ok(())
        }
    }

    pub(crate) fn schedule(&self) -> Schedule {
        Schedule {
            starts_per_second: self.starts_per_second,
            ..Schedule::constant(self.concurrency)
        }
    }

    /// Conversations about one of `pool` texts. Lengths in tokens are the texts' own.
    pub(crate) fn script(&self, pool: u32) -> Script {
        let time = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
        Script {
            turns: self.turns.clone(),
            starters: Starters::Shared {
                pool,
                popularity: match self.zipf {
                    Some(exponent) => Popularity::Zipf { exponent },
                    None => Popularity::Uniform,
                },
            },
            starter_tokens: 0..=0,
            follow_up_tokens: 0..=0,
            think_time: time(*self.think_time_s.start())..=time(*self.think_time_s.end()),
            max_tokens: self.max_tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_partial_and_checked() {
        let read = |json: &str| serde_json::from_str::<Settings>(json);
        let settings = read(r#"{ "concurrency": 180, "turns": { "start": 2, "end": 4 } }"#);
        let settings = settings.unwrap();
        assert_eq!((settings.concurrency, settings.turns.clone()), (180, 2..=4));
        assert_eq!((settings.max_tokens, settings.check()), (1024, Ok(())));
        assert!(read(r#"{ "concurency": 180 }"#).is_err());
        for (json, error) in [
            (
                r#"{ "concurrency": 4000000000 }"#,
                SettingsError::Concurrency,
            ),
            (
                r#"{ "turns": { "start": 5, "end": 3 } }"#,
                SettingsError::Turns,
            ),
            (
                r#"{ "turns": { "start": 0, "end": 3 } }"#,
                SettingsError::Turns,
            ),
            (
                r#"{ "think_time_s": { "start": -1, "end": 3 } }"#,
                SettingsError::ThinkTime,
            ),
            (r#"{ "max_tokens": 0 }"#, SettingsError::MaxTokens),
            (r#"{ "max_requests_per_second": 0 }"#, SettingsError::Rate),
            (r#"{ "arrivals_per_second": -2 }"#, SettingsError::Rate),
            (r#"{ "zipf": 0 }"#, SettingsError::Zipf),
            (r#"{ "zipf": 11 }"#, SettingsError::Zipf),
        ] {
            assert_eq!(read(json).unwrap().check(), Err(error), "{json}");
        }
    }
}
