//! What goes wrong, and when: drawn from a seed before the run begins.

use std::time::Duration;

use contract::random::Random;

/// Workers in every run.
pub const WORKERS: u64 = 3;
/// Trouble ends here; then the system has time to come to rest.
pub const TROUBLE: Duration = Duration::from_secs(60);

/// Prompts that a batch may have: more than twice the slots of all workers.
pub const MOST_PROMPTS: usize = 30;

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    pub at: Duration,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// The worker's process ends; a new one takes its place after the pause.
    Crash { worker: u64, back_after: Duration },
    /// The connection to the worker breaks, and comes back; the worker lives on.
    Disconnect { worker: u64, back_after: Duration },
    /// Its answers stop coming for a while.
    Stall { worker: u64, lasts: Duration },
    /// Each chunk comes so much later.
    Slow {
        worker: u64,
        by: Duration,
        lasts: Duration,
    },
    /// Its events are lost, repeated or reordered, each with this chance in a hundred.
    BadEvents {
        worker: u64,
        lost: u64,
        repeated: u64,
        swapped: u64,
        lasts: Duration,
    },
    /// None of its events arrive.
    Partition { worker: u64, lasts: Duration },
    /// The frontend's process ends, and another starts.
    FrontendRestart,
    /// Its cache is emptied.
    CacheReset,
}

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visitor {
    /// Which of the scripted conversations.
    pub script: usize,
    pub arrives: Duration,
    pub manner: Manner,
}

/// How a client behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Has its conversation, and reads every answer as it comes.
    Reads,
    /// Hangs up after so many bytes of its first answer.
    HangsUp { after: usize },
    /// Asks, and never looks at the answer.
    NeverReads,
    /// Reads one byte per second.
    Drips,
    /// Asks for so many completions in one request.
    Batch { prompts: usize, stream: bool },
    /// Has so many conversations at once, as one client.
    Greedy { conversations: usize },
}

impl Manner {
    fn draw(draws: &mut Random) -> Self {
        match draws.below(16) {
            0 | 1 => Self::HangsUp {
                after: draws.below(12_000),
            },
            2 | 3 => Self::NeverReads,
            4 => Self::Drips,
            5 => Self::Batch {
                prompts: 2 + draws.below(MOST_PROMPTS - 1),
                stream: draws.below(2) == 0,
            },
            6 => Self::Greedy {
                conversations: 5 + draws.below(20),
            },
            _ => Self::Reads,
        }
    }
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub faults: Vec<Fault>,
    pub visitors: Vec<Visitor>,
    /// Of the router's modes.
    pub mode: &'static str,
    /// Requests that may wait, for each worker.
    pub queue_limit: u32,
    pub seed: u64,
}

impl Plan {
    pub fn draw(seed: u64, scripts: usize) -> Self {
        let mut draws = Random::new(seed);
        let draws = &mut draws;
        let mode = ["kv", "kv", "kv-blocks", "least-loaded"][draws.below(4)];
        let faults = 1 + draws.below(8);
        let mut faults: Vec<Fault> = (0..faults).map(|_| Fault::draw(draws)).collect();
        faults.sort_by_key(|fault| fault.at);
        let visitors = 6 + draws.below(18);
        let visitors = (0..visitors).map(|_| Visitor {
            script: draws.below(scripts),
            arrives: between(draws, 0, TROUBLE.as_millis() as u64 * 3 / 4),
            manner: Manner::draw(draws),
        });
        let visitors = visitors.collect();
        let queue_limit = [1, 256][draws.below(2)];
        Self {
            faults,
            visitors,
            mode,
            queue_limit,
            seed,
        }
    }
}

impl Fault {
    fn draw(draws: &mut Random) -> Self {
        let at = between(draws, 0, TROUBLE.as_millis() as u64);
        let worker = draws.below(WORKERS as usize) as u64;
        let lasts = between(draws, 100, 20_000);
        let back_after = between(draws, 1, 10_000);
        let what = match draws.below(10) {
            0 | 1 => What::Crash { worker, back_after },
            2 => What::Disconnect { worker, back_after },
            3 => What::Stall { worker, lasts },
            4 => What::Slow {
                worker,
                by: between(draws, 1, 500),
                lasts,
            },
            5 | 6 => What::BadEvents {
                worker,
                lost: draws.below(30) as u64,
                repeated: draws.below(30) as u64,
                swapped: draws.below(30) as u64,
                lasts,
            },
            7 => What::Partition { worker, lasts },
            8 => What::FrontendRestart,
            _ => What::CacheReset,
        };
        Self { at, what }
    }
}

fn between(draws: &mut Random, least: u64, most: u64) -> Duration {
    Duration::from_millis(least + draws.below((most - least) as usize) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_plan() {
        let (one, same) = (Plan::draw(7, 5), Plan::draw(7, 5));
        assert_eq!(one.faults, same.faults);
        assert_eq!(one.visitors, same.visitors);
        let kinds: std::collections::BTreeSet<_> = (0..300)
            .flat_map(|seed| Plan::draw(seed, 5).faults)
            .map(|fault| format!("{:?}", std::mem::discriminant(&fault.what)))
            .collect();
        assert_eq!(kinds.len(), 8, "every kind of fault is drawn");
        let manners: std::collections::BTreeSet<_> = (0..300)
            .flat_map(|seed| Plan::draw(seed, 5).visitors)
            .map(|visitor| format!("{:?}", std::mem::discriminant(&visitor.manner)))
            .collect();
        assert_eq!(manners.len(), 6, "every kind of client is drawn");
    }
}
