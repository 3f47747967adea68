//! The requests of a trace, for whoever sends them to a running server.
//!
//! A prompt is sent in tokens, so that its length and what it has in common with others are exactly
//! those of the trace, whatever the server's tokenizer is.

use std::ops::Range;
use std::sync::Arc;

use contract::{Moment, TokenId};

use crate::content::Content;
use crate::load::Recorded;
use crate::trace::Trace;

/// Stands for answers, which are not read back as tokens.
const ANSWER: u64 = 0xa5;
/// Of no prefix: the server's block size is not ours to know.
const BLOCK_SIZE: u32 = 64;

/// The rows of a trace, in the order in which they are due.
#[derive(Debug)]
pub struct TraceRequests {
    trace: Arc<Trace>,
    load: Recorded,
    answers: Content,
    /// Of each row.
    places: Vec<Place>,
    /// When the trace begins.
    origin: Moment,
}

/// A row to be sent.
#[derive(Debug)]
pub struct TraceRequest {
    /// To be given back when it has ended.
    pub row: usize,
    pub due: Moment,
    pub place: Place,
    pub prompt: Arc<[TokenId]>,
    pub output_tokens: u32,
}

/// Where a row is in its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Counts from 0 in order of beginning.
    pub session: u64,
    /// From 0.
    pub turn: u32,
    pub turns: u32,
}

/// How a trace is sent.
#[derive(Clone, Debug)]
pub struct Sending {
    /// What the trace's clock is divided by.
    pub speed: f64,
    pub seed: u64,
    /// Ids of the tokens that prompts are made of; not none.
    pub words: Range<TokenId>,
    pub origin: Moment,
}

impl TraceRequests {
    pub fn new(trace: Arc<Trace>, sending: Sending) -> Self {
        let Sending {
            speed,
            seed,
            words,
            origin,
        } = sending;
        let load = Recorded::new(Arc::clone(&trace), speed, seed, BLOCK_SIZE);
        Self {
            load: load.of_words(words.clone()),
            answers: Content::new(seed ^ ANSWER).of_words(words),
            places: places(&trace),
            trace,
            origin,
        }
    }

    /// The next that is due now.
    pub fn next(&mut self, now: Moment) -> Option<TraceRequest> {
        let due = self.next_due()?;
        let ask = self.load.next(Moment::ZERO + (now - self.origin))?;
        Some(TraceRequest {
            row: ask.tag,
            due,
            place: self.places[ask.tag],
            prompt: ask.prompt,
            output_tokens: ask.limits.max_tokens,
        })
    }

    /// When to ask again if none ends before. `None` if no more come, but for those that wait for
    /// others to end.
    pub fn next_due(&self) -> Option<Moment> {
        let due = self.load.next_due()?;
        Some(self.origin + (due - Moment::ZERO))
    }

    /// A row has been answered, or has failed: those that wait for it may be sent.
    pub fn ended(&mut self, row: usize, now: Moment) {
        let mut answer = Vec::new();
        if self.trace.continues {
            let tokens = self.trace.rows[row].output_tokens as usize;
            self.answers.block(row as u64, tokens, &mut answer);
        }
        let now = Moment::ZERO + (now - self.origin);
        self.load.ended(row, &answer, now);
    }
}

fn places(trace: &Trace) -> Vec<Place> {
    let mut places = vec![Place::default(); trace.rows.len()];
    let firsts = trace.rows.iter().enumerate();
    let firsts = firsts.filter(|(_, row)| row.arrival.is_some());
    for (session, (first, _)) in (0..).zip(firsts) {
        let chain = std::iter::successors(Some(first), |&row| trace.rows[row].next);
        let rows: Vec<usize> = chain.collect();
        for (turn, &row) in (0..).zip(&rows) {
            places[row] = Place {
                session,
                turn,
                turns: rows.len() as u32,
            };
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::trace::TraceFormat;

    const TURNS: &str = r#"{"session_id": "a", "timestamp": 5, "input_length": 600, "output_length": 40, "hash_ids": [0, 1]}
        {"session_id": "a", "delay": 20, "input_length": 100, "output_length": 20, "hash_ids": [7]}
        {"session_id": "b", "timestamp": 9, "input_length": 700, "output_length": 1, "hash_ids": [0, 1]}"#;

    fn requests(format: TraceFormat) -> TraceRequests {
        let trace = Arc::new(Trace::parse(TURNS, format).unwrap());
        let sending = Sending {
            speed: 2.0,
            seed: 1,
            words: 10..20,
            origin: at(100_000),
        };
        TraceRequests::new(trace, sending)
    }

    fn at(micros: u64) -> Moment {
        Moment::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn rows_are_due_at_their_times_and_turns_after_the_answers_before_them() {
        let mut requests = requests(TraceFormat::Mooncake);
        assert!(requests.next(at(100_000)).is_none());
        let first = requests.next(at(103_000)).unwrap();
        assert_eq!((first.row, first.due), (0, at(102_500)));
        let place = |session, turn, turns| Place {
            session,
            turn,
            turns,
        };
        assert_eq!(first.place, place(0, 0, 2));
        let other = requests.next(at(105_000)).unwrap();
        assert_eq!((other.due, other.place), (at(104_500), place(1, 0, 1)));
        // Equal blocks are equal tokens.
        assert_eq!(first.prompt[..512], other.prompt[..512]);
        assert!(first.prompt.iter().all(|token| (10..20).contains(token)));
        assert_eq!(requests.next_due(), None);
        requests.ended(0, at(200_000));
        assert_eq!(requests.next_due(), Some(at(210_000)));
        let second = requests.next(at(210_000)).unwrap();
        assert_eq!((second.row, second.place), (1, place(0, 1, 2)));
        assert_eq!((second.prompt.len(), second.output_tokens), (100, 20));
    }

    #[test]
    fn what_a_turn_adds_follows_the_prompt_before_it_and_a_stand_in_for_the_answer() {
        let mut requests = requests(TraceFormat::Aiperf);
        let first = requests.next(at(103_000)).unwrap();
        requests.ended(0, at(103_000));
        let second = std::iter::from_fn(|| requests.next(at(900_000))).find(|one| one.row == 1);
        let second = second.unwrap();
        assert_eq!(second.prompt.len(), 740);
        assert_eq!(second.prompt[..600], first.prompt[..]);
    }
}
