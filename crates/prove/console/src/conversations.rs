//! Which conversations of the log a page wants, and in which order.

use loadgen::log::{ConversationStatus, ConversationSummary};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// Default number of lines in a list.
const LIMIT: usize = 100;

/// What a page asks for.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Query {
    pub(crate) limit: usize,
    pub(crate) status: Option<Status>,
    pub(crate) sort: Sort,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            limit: LIMIT,
            status: None,
            sort: Sort::Newest,
        }
    }
}

/// The log's statuses, as a page spells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Active,
    Completed,
    Stopped,
    Error,
}

impl Status {
    fn covers(self, status: ConversationStatus) -> bool {
        status
            == match self {
                Self::Active => ConversationStatus::Active,
                Self::Completed => ConversationStatus::Completed,
                Self::Stopped => ConversationStatus::Stopped,
                Self::Error => ConversationStatus::Error,
            }
    }
}

/// What comes first. Equals stay newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    Newest,
    Oldest,
    /// By duration.
    Longest,
    /// By answered turns.
    Turns,
}

/// An answer to a [`Query`].
#[derive(Clone, Debug, PartialEq, Serialize, TS)]
pub struct ConversationList {
    pub conversations: Vec<ConversationSummary>,
    /// How many there are beyond the limit, too.
    pub total: usize,
}

/// Chooses from the log's list, which is newest first.
pub(crate) fn choose(mut list: Vec<ConversationSummary>, query: &Query) -> ConversationList {
    if let Some(status) = query.status {
        list.retain(|one| status.covers(one.status));
    }
    match query.sort {
        Sort::Newest => {}
        Sort::Oldest => list.reverse(),
        Sort::Longest => list.sort_by(|one, other| other.duration_s.total_cmp(&one.duration_s)),
        Sort::Turns => list.sort_by_key(|one| std::cmp::Reverse(one.turns_answered)),
    }
    let total = list.len();
    list.truncate(query.limit);
    ConversationList {
        conversations: list,
        total,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64, status: ConversationStatus, duration_s: f64) -> ConversationSummary {
        ConversationSummary {
            id: format!("c{number}").into(),
            number,
            title: "Tides".into(),
            status,
            turns_answered: u32::try_from(number % 2).unwrap(),
            turns_planned: 3,
            started_ms: number,
            duration_s,
        }
    }

    fn numbers(query: &Query) -> (Vec<u64>, usize) {
        let list = vec![
            line(3, ConversationStatus::Active, 2.0),
            line(2, ConversationStatus::Completed, 9.0),
            line(1, ConversationStatus::Completed, 5.0),
        ];
        let chosen = choose(list, query);
        let numbers = chosen.conversations.iter().map(|one| one.number);
        (numbers.collect(), chosen.total)
    }

    #[test]
    fn lists_are_filtered_sorted_and_cut() {
        let sorted = |sort| {
            numbers(&Query {
                sort,
                ..Query::default()
            })
            .0
        };
        assert_eq!(sorted(Sort::Newest), [3, 2, 1]);
        assert_eq!(sorted(Sort::Oldest), [1, 2, 3]);
        assert_eq!(sorted(Sort::Longest), [2, 1, 3]);
        assert_eq!(sorted(Sort::Turns), [3, 1, 2]);
        let query = Query {
            limit: 1,
            status: Some(Status::Completed),
            ..Query::default()
        };
        assert_eq!(numbers(&query), (vec![2], 2));
    }
}
