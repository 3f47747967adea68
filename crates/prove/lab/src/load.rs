//! What is sent next: conversations in a closed loop, or a recorded trace.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use contract::random::mix;
use contract::{HashSeed, Moment, OutputLimits, TokenId, block_chain};
use loadgen::{Driver, Ending, Schedule, Script, Starters, TurnPlan};
use router::Identity;

use crate::ask::{Ask, Label};
use crate::content::{Content, end_of_text};
use crate::dialogue::Dialogue;
use crate::greedy::{FIRST_TAG, Greedy, GreedyPlan};
use crate::trace::Trace;

/// Separates these draws from others with the same seed.
const SAMPLING: u64 = 0x5a;

#[derive(Debug)]
pub(crate) enum Load {
    Conversations(Box<Conversations>),
    Recorded(Box<Recorded>),
}

impl Load {
    /// The next request that is due, if any is.
    pub(crate) fn next(&mut self, now: Moment) -> Option<Ask> {
        match self {
            Self::Conversations(conversations) => conversations.next(now),
            Self::Recorded(recorded) => recorded.next(now),
        }
    }

    /// When to ask again if no request ends before.
    pub(crate) fn next_due(&self, now: Moment) -> Option<Moment> {
        match self {
            Self::Conversations(conversations) => conversations.next_due(now),
            Self::Recorded(recorded) => recorded.next_due(),
        }
    }

    /// Says how a request ended.
    pub(crate) fn ended(&mut self, tag: usize, ending: Ending, answer: &[TokenId], now: Moment) {
        match self {
            Self::Conversations(conversations) => {
                if let (Some(greedy), FIRST_TAG..) = (&mut conversations.greedy, tag) {
                    return greedy.ended(tag, ending, now);
                }
                match ending {
                    Ending::Answered => conversations.dialogues[tag].answer(answer),
                    Ending::Failed => conversations.attempts[tag] += 1,
                    Ending::Impossible => {}
                }
                if ending != Ending::Failed {
                    conversations.attempts[tag] = 0;
                }
                conversations.driver.ended(tag, ending, now);
            }
            Self::Recorded(recorded) => recorded.ended(tag, answer, now),
        }
    }

    /// Sends nothing more.
    pub(crate) fn close(&mut self) {
        match self {
            Self::Conversations(conversations) => {
                conversations.driver.close();
                if let Some(greedy) = &mut conversations.greedy {
                    greedy.close();
                }
            }
            Self::Recorded(recorded) => recorded.due.clear(),
        }
    }
}

/// Not negative as a signed number, which is what the API takes.
fn sampling_seed(seed: u64, conversation: u64, turn: u32) -> u64 {
    mix(seed ^ SAMPLING, conversation, u64::from(turn)) >> 1
}

/// The driver's plans, in tokens.
#[derive(Debug)]
pub(crate) struct Conversations {
    driver: Driver,
    /// By lane.
    dialogues: Vec<Dialogue>,
    /// How often the current turn has failed, by lane.
    attempts: Vec<u32>,
    content: Content,
    is_shared: bool,
    identity: Identity,
    greedy: Option<Greedy>,
    seed: u64,
    block_size: usize,
    eos_tokens: Arc<[TokenId]>,
}

impl Conversations {
    pub(crate) fn new(script: Script, schedule: Schedule, seed: u64, block_size: u32) -> Self {
        Self {
            is_shared: script.starters != Starters::Unique,
            driver: Driver::new(script, schedule, seed),
            dialogues: Vec::new(),
            attempts: Vec::new(),
            content: Content::new(seed),
            identity: Identity::default(),
            greedy: None,
            seed,
            block_size: block_size as usize,
            eos_tokens: end_of_text(),
        }
    }

    /// The same, with a greedy tenant.
    pub(crate) fn beside(mut self, plan: GreedyPlan) -> Self {
        self.identity = plan.others();
        self.greedy = Some(Greedy::new(plan, self.seed, self.block_size));
        self
    }

    fn next(&mut self, now: Moment) -> Option<Ask> {
        if let Some(plan) = self.driver.next(now) {
            return Some(self.assemble(&plan));
        }
        self.greedy.as_mut()?.next(&mut self.content, now)
    }

    fn next_due(&self, now: Moment) -> Option<Moment> {
        let greedy = self.greedy.as_ref().and_then(Greedy::next_due);
        [self.driver.next_due(now), greedy]
            .into_iter()
            .flatten()
            .min()
    }

    fn assemble(&mut self, plan: &TurnPlan) -> Ask {
        if self.dialogues.len() <= plan.lane {
            self.dialogues.resize_with(plan.lane + 1, Dialogue::default);
            self.attempts.resize(plan.lane + 1, 0);
        }
        let dialogue = &mut self.dialogues[plan.lane];
        dialogue.ask(plan, self.is_shared, &mut self.content);
        Ask {
            tag: plan.lane,
            label: Label {
                conversation: plan.conversation,
                turn: plan.turn,
                turns: plan.turns,
                attempt: self.attempts[plan.lane],
                measured: true,
            },
            identity: self.identity,
            sampling_seed: sampling_seed(self.seed, plan.conversation, plan.turn),
            prompt: dialogue.prompt(),
            chain: dialogue.chain(self.block_size).into(),
            limits: OutputLimits {
                max_tokens: plan.max_tokens,
                min_tokens: 0,
                ignore_eos: false,
                eos_tokens: Arc::clone(&self.eos_tokens),
            },
        }
    }
}

/// A trace on its way: rows at their times, or after the row before them in their session.
#[derive(Debug)]
pub(crate) struct Recorded {
    trace: Arc<Trace>,
    /// What the trace's clock is divided by.
    speed: f64,
    due: BinaryHeap<Reverse<(Moment, usize)>>,
    /// What rows that are to come go on from: prompts and answers of those before them. By row,
    /// and only where prompts go on.
    histories: HashMap<usize, Vec<TokenId>>,
    content: Content,
    seed: u64,
    block_size: usize,
    eos_tokens: Arc<[TokenId]>,
}

impl Recorded {
    pub(crate) fn new(trace: Arc<Trace>, speed: f64, seed: u64, block_size: u32) -> Self {
        let rows = trace.rows.iter().enumerate();
        let due = rows
            .filter_map(|(index, row)| {
                let at = row.arrival?.div_f64(speed);
                Some(Reverse((Moment::ZERO + at, index)))
            })
            .collect();
        Self {
            trace,
            speed,
            due,
            histories: HashMap::new(),
            content: Content::new(seed),
            seed,
            block_size: block_size as usize,
            eos_tokens: end_of_text(),
        }
    }

    /// With prompts of other words.
    pub(crate) fn of_words(self, words: Range<TokenId>) -> Self {
        Self {
            content: self.content.of_words(words),
            ..self
        }
    }

    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    pub(crate) fn next(&mut self, now: Moment) -> Option<Ask> {
        let &Reverse((at, index)) = self.due.peek()?;
        if at > now {
            return None;
        }
        self.due.pop();
        let row = &self.trace.rows[index];
        let mut prompt = self.histories.remove(&index).unwrap_or_default();
        self.trace.append(row, &self.content, &mut prompt);
        if let (true, Some(next)) = (self.trace.continues, row.next) {
            self.histories.insert(next, prompt.clone());
        }
        Some(Ask {
            tag: index,
            label: Label {
                conversation: index as u64,
                turn: 0,
                turns: 1,
                attempt: 0,
                measured: true,
            },
            identity: Identity::default(),
            sampling_seed: sampling_seed(self.seed, index as u64, 0),
            chain: block_chain(&prompt, self.block_size, HashSeed::BASE).into(),
            prompt: prompt.into(),
            limits: OutputLimits {
                max_tokens: row.output_tokens,
                min_tokens: 0,
                ignore_eos: true,
                eos_tokens: Arc::clone(&self.eos_tokens),
            },
        })
    }

    pub(crate) fn ended(&mut self, index: usize, answer: &[TokenId], now: Moment) {
        if let Some(next) = self.trace.rows[index].next {
            if let Some(history) = self.histories.get_mut(&next) {
                history.extend_from_slice(answer);
            }
            let pause = self.trace.rows[next].pause.div_f64(self.speed);
            self.due.push(Reverse((now + pause, next)));
        }
    }
}
