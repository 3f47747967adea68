//! How many conversations there are at a moment.

use contract::Moment;

/// A level, and times at which it is multiplied.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Conversations at once.
    pub level: u32,
    pub bursts: Vec<Burst>,
    /// Conversations that begin in a second while there are too few; 0 for all at once.
    pub starts_per_second: f64,
}

/// More, or fewer, conversations for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    pub begin: Moment,
    pub end: Moment,
    /// What the level is multiplied by.
    pub factor: f64,
}

impl Schedule {
    /// The same number all the time, from the first moment on.
    pub fn constant(level: u32) -> Self {
        Self {
            level,
            bursts: Vec::new(),
            starts_per_second: 0.0,
        }
    }

    /// How many conversations there should be.
    pub fn target(&self, now: Moment) -> u32 {
        let under_way = |burst: &&Burst| burst.begin <= now && now < burst.end;
        let factor: f64 = self
            .bursts
            .iter()
            .filter(under_way)
            .map(|burst| burst.factor)
            .product();
        (f64::from(self.level) * factor).round() as u32
    }

    /// When the target changes next.
    pub fn next_change(&self, now: Moment) -> Option<Moment> {
        let edges = self
            .bursts
            .iter()
            .flat_map(|burst| [burst.begin, burst.end]);
        edges.filter(|&edge| edge > now).min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_burst_begins_and_ends() {
        let schedule = Schedule {
            bursts: vec![Burst {
                begin: at(10),
                end: at(30),
                factor: 3.0,
            }],
            ..Schedule::constant(40)
        };
        for (second, target, next) in [
            (0, 40, Some(10)),
            (9, 40, Some(10)),
            (10, 120, Some(30)),
            (29, 120, Some(30)),
            (30, 40, None),
        ] {
            assert_eq!(schedule.target(at(second)), target, "at {second} s");
            assert_eq!(
                schedule.next_change(at(second)),
                next.map(at),
                "at {second} s"
            );
        }
    }
}
