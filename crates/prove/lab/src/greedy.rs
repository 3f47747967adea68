//! A tenant that sends far more than its share, beside the conversations that are measured.
//!
//! Always the same number of requests open: each that ends is followed by another at once,
//! with a prompt that nobody has seen. Only a burden on the others: none of them is recorded.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use contract::random::mix;
use contract::{HashSeed, Moment, OutputLimits, TokenId, block_chain};
use loadgen::Ending;
use router::Identity;

use crate::ask::{Ask, Label};
use crate::content::{Content, end_of_text};

/// How long it pauses after a refusal: as conversations do.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Separates these draws, texts and tags from others.
const GREEDY: u64 = 0x62;
const FIRST_TEXT: u64 = 1 << 40;
pub(crate) const FIRST_TAG: usize = 1 << 40;

/// The tenants of the conversations, in runs where the router can distinguish them.
const MODEST_TENANT: u64 = 1;
const GREEDY_TENANT: u64 = 2;

/// What the greedy one does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GreedyPlan {
    /// Open at any time.
    pub requests: u32,
    pub prompt_tokens: RangeInclusive<u32>,
    pub max_tokens: u32,
    /// Whether it has a key of its own. If not, nobody can tell it from the conversations.
    pub own_key: bool,
}

impl GreedyPlan {
    /// Whose the conversations beside it are.
    pub(crate) fn others(&self) -> Identity {
        self.tenant(MODEST_TENANT)
    }

    fn tenant(&self, tenant: u64) -> Identity {
        Identity {
            tenant: if self.own_key { tenant } else { 0 },
            ..Identity::default()
        }
    }
}

#[derive(Debug)]
pub(crate) struct Greedy {
    plan: GreedyPlan,
    due: BinaryHeap<Reverse<(Moment, usize)>>,
    sent: u64,
    seed: u64,
    block_size: usize,
    eos_tokens: Arc<[TokenId]>,
    closed: bool,
}

impl Greedy {
    pub(crate) fn new(plan: GreedyPlan, seed: u64, block_size: usize) -> Self {
        let due = (0..plan.requests as usize).map(|place| Reverse((Moment::ZERO, place)));
        Self {
            due: due.collect(),
            plan,
            sent: 0,
            seed,
            block_size,
            eos_tokens: end_of_text(),
            closed: false,
        }
    }

    pub(crate) fn next(&mut self, content: &mut Content, now: Moment) -> Option<Ask> {
        let place = match self.due.peek() {
            Some(&Reverse((at, place))) if at <= now => place,
            _ => return None,
        };
        self.due.pop();
        self.sent += 1;
        let (least, most) = (
            *self.plan.prompt_tokens.start(),
            *self.plan.prompt_tokens.end(),
        );
        let draw = mix(self.seed, GREEDY, self.sent);
        let length = least + (draw % u64::from(most - least + 1)) as u32;
        let mut prompt = Vec::with_capacity(length as usize);
        content.starter(FIRST_TEXT + self.sent, length, false, &mut prompt);
        Some(Ask {
            tag: FIRST_TAG + place,
            label: Label {
                conversation: FIRST_TEXT + self.sent,
                turn: 0,
                turns: 1,
                attempt: 0,
                measured: false,
            },
            identity: self.plan.tenant(GREEDY_TENANT),
            chain: block_chain(&prompt, self.block_size, HashSeed::BASE).into(),
            prompt: prompt.into(),
            limits: OutputLimits {
                max_tokens: self.plan.max_tokens,
                min_tokens: 0,
                ignore_eos: true,
                eos_tokens: Arc::clone(&self.eos_tokens),
            },
            sampling_seed: draw >> 1,
        })
    }

    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    pub(crate) fn ended(&mut self, tag: usize, ending: Ending, now: Moment) {
        if self.closed {
            return;
        }
        let at = match ending {
            Ending::Answered => now,
            Ending::Failed | Ending::Impossible => now + RETRY_PAUSE,
        };
        self.due.push(Reverse((at, tag - FIRST_TAG)));
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.due.clear();
    }
}
