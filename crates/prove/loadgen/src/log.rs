//! Recent conversations with their text and measurements, for the console's Conversations
//! pages.
//!
//! Bounded by number; the oldest that is over leaves first. All types are an interface of
//! the web console: fields are added, never renamed.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::Moment;
use serde::Serialize;
use ts_rs::TS;

use crate::record::{RequestRecord, seconds};

#[cfg(test)]
mod tests;

/// Where a conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum ConversationStatus {
    Active,
    /// Answered to its last turn.
    Completed,
    /// Ended early, because load was reduced or stopped.
    Stopped,
    /// A turn failed too often.
    Error,
}

impl ConversationStatus {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Completed => "completed",
            Self::Stopped => "stopped",
            Self::Error => "error",
        }
    }
}

/// One line of the list.
#[derive(Clone, Debug, PartialEq, Serialize, TS)]
pub struct ConversationSummary {
    pub id: Arc<str>,
    /// In order of beginning, from 0.
    pub number: u64,
    pub title: Arc<str>,
    pub status: ConversationStatus,
    pub turns_answered: u32,
    pub turns_planned: u32,
    /// Milliseconds since the Unix epoch.
    pub started_ms: u64,
    /// Since the beginning; for one that is over, until its end.
    pub duration_s: f64,
}

/// A whole conversation.
#[derive(Clone, Debug, PartialEq, Serialize, TS)]
pub struct Conversation {
    #[serde(flatten)]
    pub summary: ConversationSummary,
    pub turns: Vec<Turn>,
}

/// A question, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, TS)]
pub struct Turn {
    pub user: Arc<str>,
    /// `null` until there is an answer.
    pub assistant: Option<Arc<str>>,
    /// Figures of the answer.
    pub answered: Option<RequestRecord>,
    /// Attempts that failed before.
    pub failed: Vec<RequestRecord>,
}

/// What a conversation begins with.
#[derive(Clone, Debug)]
pub struct Opening {
    pub id: Arc<str>,
    pub number: u64,
    pub title: Arc<str>,
    pub turns_planned: u32,
    pub at: Moment,
}

/// Conversations in order of beginning.
#[derive(Debug)]
pub struct Log {
    entries: BTreeMap<u64, Entry>,
    capacity: usize,
    /// Unix milliseconds when the clock showed zero.
    origin_ms: u64,
}

#[derive(Debug)]
struct Entry {
    began: Moment,
    ended: Option<Moment>,
    conversation: Conversation,
}

impl Log {
    pub fn new(capacity: usize, origin_ms: u64) -> Self {
        Self {
            entries: BTreeMap::new(),
            capacity,
            origin_ms,
        }
    }

    pub(crate) fn begin(&mut self, opening: Opening) {
        while self.entries.len() >= self.capacity.max(1) {
            let over = self.entries.iter().find(|(_, entry)| entry.ended.is_some());
            let oldest = over.or(self.entries.iter().next());
            let Some(number) = oldest.map(|(&number, _)| number) else {
                break;
            };
            self.entries.remove(&number);
        }
        let since_origin = (opening.at - Moment::ZERO).as_millis();
        let summary = ConversationSummary {
            id: opening.id,
            number: opening.number,
            title: opening.title,
            status: ConversationStatus::Active,
            turns_answered: 0,
            turns_planned: opening.turns_planned,
            started_ms: self.origin_ms + u64::try_from(since_origin).unwrap_or(0),
            duration_s: 0.0,
        };
        let entry = Entry {
            began: opening.at,
            ended: None,
            conversation: Conversation {
                summary,
                turns: Vec::new(),
            },
        };
        self.entries.insert(opening.number, entry);
    }

    /// The user speaks. A question that is asked again is no second turn.
    pub(crate) fn ask(&mut self, number: u64, turn: u32, user: &Arc<str>) {
        self.change(number, |conversation| {
            let turn = turn as usize;
            if conversation.turns.len() <= turn {
                conversation.turns.resize(turn + 1, Turn::default());
            }
            conversation.turns[turn].user = Arc::clone(user);
        });
    }

    /// A request ended, with an answer or without.
    pub(crate) fn request(&mut self, record: RequestRecord, answer: Option<Arc<str>>) {
        self.change(record.conversation, |conversation| {
            conversation.summary.turns_planned = record.turns;
            let Some(turn) = conversation.turns.get_mut(record.turn as usize) else {
                return;
            };
            match answer {
                Some(text) => {
                    conversation.summary.turns_answered = record.turn + 1;
                    turn.assistant = Some(text);
                    turn.answered = Some(record);
                }
                None => turn.failed.push(record),
            }
        });
    }

    pub(crate) fn end(&mut self, number: u64, status: ConversationStatus, now: Moment) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.ended = Some(now);
            entry.conversation.summary.status = status;
        }
    }

    /// Summaries of the conversations, newest first.
    pub fn list(&self, now: Moment) -> Vec<ConversationSummary> {
        let newest_first = self.entries.values().rev();
        newest_first.map(|entry| entry.summary(now)).collect()
    }

    /// One conversation with its whole text.
    pub fn find(&self, id: &str, now: Moment) -> Option<Conversation> {
        let entry = self
            .entries
            .values()
            .find(|entry| &*entry.conversation.summary.id == id)?;
        Some(entry.whole(now))
    }

    /// All of them, oldest first.
    pub fn all(&self, now: Moment) -> Vec<Conversation> {
        self.entries
            .values()
            .map(|entry| entry.whole(now))
            .collect()
    }

    fn change(&mut self, number: u64, change: impl FnOnce(&mut Conversation)) {
        // One that has left the log is not brought back by its answer.
        if let Some(entry) = self.entries.get_mut(&number) {
            change(&mut entry.conversation);
        }
    }
}

impl Entry {
    fn summary(&self, now: Moment) -> ConversationSummary {
        let lasted = self.ended.unwrap_or(now) - self.began;
        ConversationSummary {
            duration_s: seconds(Moment::ZERO + lasted),
            ..self.conversation.summary.clone()
        }
    }

    fn whole(&self, now: Moment) -> Conversation {
        Conversation {
            summary: self.summary(now),
            turns: self.conversation.turns.clone(),
        }
    }
}
