//! The workers of a run: how each is built, and what happens to them.

use contract::{Moment, WorkerCard, WorkerId};
use engine::Limits;
use engine::sim::Profile;
use router::Priors;

/// How a worker is built.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerPlan {
    pub profile: Profile,
    /// Cache size if it is not the profile's.
    pub total_blocks: Option<u32>,
    /// Longest prompt plus answer if it is not the profile's.
    pub max_context_tokens: Option<u32>,
    /// 1 takes the profile's times, 0.5 twice as long.
    pub speed: f64,
}

impl WorkerPlan {
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            total_blocks: None,
            max_context_tokens: None,
            speed: 1.0,
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        let limits = self.profile.limits();
        Limits {
            total_blocks: self.total_blocks.unwrap_or(limits.total_blocks),
            max_context_tokens: self.max_context_tokens.unwrap_or(limits.max_context_tokens),
            ..limits
        }
    }

    pub(crate) fn card(&self, id: WorkerId) -> WorkerCard {
        let limits = self.limits();
        WorkerCard {
            total_blocks: limits.total_blocks,
            max_context_tokens: limits.max_context_tokens,
            ..self.profile.card(id, &format!("worker-{id}"))
        }
    }
}

/// Something that happens to the fleet during a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    pub at: Moment,
    /// Index of the worker.
    pub worker: usize,
    pub kind: ChangeKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChangeKind {
    /// The worker is gone and its streams break off.
    Dies,
    /// It is there again, with an empty cache.
    Returns,
    /// It takes the profile's times divided by this from its next step on.
    Speed(f64),
    /// The router gets the worker's true figures, as if it had learned them. Nothing else
    /// changes: for experiments that compare learning with knowing.
    Told(Priors),
}
