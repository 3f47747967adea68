//! What conversations are like.
//!
//! Everything about a conversation is drawn from the seed and its number alone, never from
//! what happened before it. Two runs with the same seed therefore hold the same
//! conversations in the same order of beginning, whatever the routing mode did to their
//! timing: comparisons are paired.

use std::ops::RangeInclusive;
use std::time::Duration;

use contract::random::{mix, unit};

/// Salts that make the random draws of one conversation independent of each other.
const TURNS: u64 = 1;
const STARTER: u64 = 2;
const STARTER_LENGTH: u64 = 3;
const FOLLOW_UP: u64 = 4;
const THINK: u64 = 5;

/// How conversations are drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Requests in one conversation.
    pub turns: RangeInclusive<u32>,
    pub starters: Starters,
    /// Length of a starter: the long text that a conversation is about.
    pub starter_tokens: RangeInclusive<u32>,
    /// Length of what the user says in later turns.
    pub follow_up_tokens: RangeInclusive<u32>,
    /// Between an answer's end and the next turn.
    pub think_time: RangeInclusive<Duration>,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
}

/// What conversations begin with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Starters {
    /// One of `pool` texts, so that conversations share long prefixes.
    Shared { pool: u32, popularity: Popularity },
    /// A text of its own for each conversation.
    Unique,
}

/// Which of the shared texts are chosen how often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    Uniform,
    /// The *k*-th text is chosen in proportion to `k` to the power of `-exponent`.
    Zipf {
        exponent: f64,
    },
}

/// One turn to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnPlan {
    /// Who speaks. Nobody else has this lane until the conversation is over.
    pub lane: usize,
    /// Counts from 0 in order of beginning.
    pub conversation: u64,
    /// The turn's number in its conversation, from 0.
    pub turn: u32,
    /// How many turns the conversation has.
    pub turns: u32,
    /// Names the starter; its content follows from this number.
    pub starter: u64,
    pub starter_tokens: u32,
    /// What the user says in this turn; the first turn is the starter alone.
    pub follow_up_tokens: u32,
    pub max_tokens: u32,
}

/// A script with its seed, ready to draw from.
#[derive(Clone, Debug)]
pub(crate) struct Casting {
    pub(crate) script: Script,
    seed: u64,
    /// For each shared text, the probability of it or one before it; empty if uniform.
    cumulative: Vec<f64>,
}

impl Casting {
    pub(crate) fn new(script: Script, seed: u64) -> Self {
        let cumulative = match script.starters {
            Starters::Shared {
                pool,
                popularity: Popularity::Zipf { exponent },
            } => zipf(pool, exponent),
            Starters::Shared { .. } | Starters::Unique => Vec::new(),
        };
        Self {
            script,
            seed,
            cumulative,
        }
    }

    /// The same seed with another script.
    pub(crate) fn with_script(&self, script: Script) -> Self {
        Self::new(script, self.seed)
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn turns(&self, conversation: u64) -> u32 {
        between(&self.script.turns, self.draw(TURNS, conversation, 0))
    }

    pub(crate) fn starter(&self, conversation: u64) -> u64 {
        let draw = unit(self.draw(STARTER, conversation, 0));
        match self.script.starters {
            Starters::Unique => conversation,
            Starters::Shared { pool, .. } if self.cumulative.is_empty() => {
                (draw * f64::from(pool)) as u64
            }
            Starters::Shared { pool, .. } => {
                let rank = self.cumulative.partition_point(|&up_to| up_to <= draw);
                (rank as u64).min(u64::from(pool) - 1)
            }
        }
    }

    /// The plan of one turn, the same whenever it is asked for.
    pub(crate) fn plan(&self, lane: usize, conversation: u64, turn: u32) -> TurnPlan {
        let script = &self.script;
        let starter = self.starter(conversation);
        let follow_up = self.draw(FOLLOW_UP, conversation, u64::from(turn));
        TurnPlan {
            lane,
            conversation,
            turn,
            turns: self.turns(conversation),
            starter,
            starter_tokens: between(
                &script.starter_tokens,
                self.draw(STARTER_LENGTH, starter, 0),
            ),
            follow_up_tokens: match turn {
                0 => 0,
                _ => between(&script.follow_up_tokens, follow_up),
            },
            max_tokens: script.max_tokens,
        }
    }

    /// How long the user thinks before `turn`.
    pub(crate) fn think_time(&self, conversation: u64, turn: u32) -> Duration {
        let (least, most) = (
            *self.script.think_time.start(),
            *self.script.think_time.end(),
        );
        let share = unit(self.draw(THINK, conversation, u64::from(turn)));
        least + most.saturating_sub(least).mul_f64(share)
    }

    fn draw(&self, what: u64, number: u64, position: u64) -> u64 {
        mix(self.seed ^ what, number, position)
    }
}

fn between(range: &RangeInclusive<u32>, draw: u64) -> u32 {
    let choices = range.end().saturating_sub(*range.start()) + 1;
    range.start() + (unit(draw) * f64::from(choices)) as u32
}

fn zipf(pool: u32, exponent: f64) -> Vec<f64> {
    let weights = (1..=pool).map(|rank| f64::from(rank).powf(-exponent));
    let total: f64 = weights.clone().sum();
    weights
        .scan(0.0, |sum, weight| {
            *sum += weight / total;
            Some(*sum)
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The specification's conversations.
    pub(crate) fn script() -> Script {
        Script {
            turns: 3..=5,
            starters: Starters::Shared {
                pool: 10,
                popularity: Popularity::Uniform,
            },
            starter_tokens: 3500..=4000,
            follow_up_tokens: 20..=40,
            think_time: Duration::ZERO..=Duration::ZERO,
            max_tokens: 1024,
        }
    }

    fn shares(starters: Starters) -> Vec<f64> {
        let casting = Casting::new(
            Script {
                starters,
                ..script()
            },
            7,
        );
        let mut counts = [0_u32; 10];
        for conversation in 0..10_000 {
            counts[casting.starter(conversation) as usize] += 1;
        }
        counts.iter().map(|&n| f64::from(n) / 10_000.0).collect()
    }

    #[test]
    fn starters_are_as_popular_as_told() {
        let uniform = shares(script().starters);
        assert!(uniform.iter().all(|share| (0.085..0.115).contains(share)));
        let zipf = shares(Starters::Shared {
            pool: 10,
            popularity: Popularity::Zipf { exponent: 1.0 },
        });
        // The harmonic number of 10 is 2.929.
        for (rank, share) in (1..).zip(&zipf) {
            let expected = 1.0 / f64::from(rank) / 2.929;
            assert!((share - expected).abs() < 0.015, "{rank}: {share}");
        }
    }

    #[test]
    fn unique_starters_are_never_shared() {
        let unique = Script {
            starters: Starters::Unique,
            ..script()
        };
        let casting = Casting::new(unique, 7);
        let starters: Vec<u64> = (0..100).map(|number| casting.starter(number)).collect();
        assert_eq!(starters, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn lengths_reach_both_ends_of_their_range() {
        let casting = Casting::new(script(), 3);
        let plans: Vec<TurnPlan> = (0..2000).map(|number| casting.plan(0, number, 1)).collect();
        let ends = |value: fn(&TurnPlan) -> u32| {
            let values = plans.iter().map(value);
            (values.clone().min(), values.max())
        };
        assert_eq!(ends(|plan| plan.turns), (Some(3), Some(5)));
        assert_eq!(ends(|plan| plan.follow_up_tokens), (Some(20), Some(40)));
        assert!(
            plans
                .iter()
                .all(|p| (3500..=4000).contains(&p.starter_tokens))
        );
        assert_eq!(casting.plan(0, 5, 0).follow_up_tokens, 0);
    }

    #[test]
    fn a_starter_has_one_length_whoever_begins_with_it() {
        let casting = Casting::new(script(), 3);
        let mut lengths = [None; 10];
        for number in 0..500 {
            let plan = casting.plan(0, number, 0);
            let known = lengths[plan.starter as usize].get_or_insert(plan.starter_tokens);
            assert_eq!(*known, plan.starter_tokens);
        }
    }

    #[test]
    fn users_think_as_long_as_told() {
        let thoughtful = Script {
            think_time: Duration::from_secs(2)..=Duration::from_secs(4),
            ..script()
        };
        let casting = Casting::new(thoughtful, 1);
        let times: Vec<Duration> = (0..500).map(|n| casting.think_time(n, 1)).collect();
        assert!(
            times
                .iter()
                .all(|time| (2.0..=4.0).contains(&time.as_secs_f64()))
        );
        assert!(times.iter().any(|time| time.as_secs_f64() < 2.1));
        assert!(times.iter().any(|time| time.as_secs_f64() > 3.9));
        assert_eq!(Casting::new(script(), 1).think_time(9, 1), Duration::ZERO);
    }
}
