//! Latencies by routing mode and by turn, which show whether conversations hit the cache.
//!
//! Over everything since load was started, so that a mode that was switched off stays on the
//! page beside the one that replaced it. Only answered requests count here, because the mode
//! comes with the answer. Bounded: a server may call its modes as it likes, and conversations
//! may be long.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::histogram::Histogram;
use crate::reading::Answer;
use crate::samples::Percentiles;

/// Most modes that are counted separately; all further ones count as unknown.
const MODES: usize = 16;

/// Most turns that are counted separately; the last one also stands for all later ones.
const TURNS: usize = 16;

/// The mode of requests whose server does not say.
const UNKNOWN: &str = "unknown";

/// What requests felt that were routed under one mode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, TS)]
pub struct ModeFigures {
    pub mode: String,
    /// Turns that had an answer, in order.
    pub turns: Vec<TurnNumberFigures>,
}

/// Figures of all requests with one turn number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, TS)]
pub struct TurnNumberFigures {
    /// From 1. The 16th stands for all later ones too.
    pub turn: u32,
    pub ttft_ms_p50: Option<f64>,
    pub ttft_ms_p95: Option<f64>,
    /// Answers behind these figures.
    pub samples: u64,
    /// Prompt tokens in a hundred that the server had cached.
    pub cached_pct: Option<f64>,
}

/// Counts answers by mode and turn.
#[derive(Clone, Debug, Default)]
pub struct ByMode {
    modes: BTreeMap<String, Vec<Cell>>,
}

#[derive(Clone, Debug, Default)]
struct Cell {
    /// In microseconds: half the counters that nanoseconds would take.
    ttft: Histogram,
    prompt_tokens: u64,
    cached_tokens: u64,
}

impl ByMode {
    /// An answer to a turn (from 0) is complete.
    pub fn observe(&mut self, answer: &Answer, turn: u32) {
        let Some(ttft) = answer.ttft else {
            return;
        };
        let routing = answer.extras.routing.as_ref();
        let mode = routing.map_or(UNKNOWN, |routing| &routing.mode);
        let known = self.modes.contains_key(mode);
        let others = self.modes.keys().filter(|mode| *mode != UNKNOWN).count();
        let mode = match known || others < MODES - 1 {
            true => mode,
            false => UNKNOWN,
        };
        let turns = self.modes.entry(mode.to_owned()).or_default();
        let turn = (turn as usize).min(TURNS - 1);
        if turns.len() <= turn {
            turns.resize(turn + 1, Cell::default());
        }
        turns[turn].observe(ttft, &answer.usage);
    }

    /// In order of the modes' names.
    pub fn figures(&self) -> Vec<ModeFigures> {
        let figures = |(mode, turns): (&String, &Vec<Cell>)| ModeFigures {
            mode: mode.clone(),
            turns: (1..)
                .zip(turns)
                .filter(|(_, cell)| cell.ttft.total() > 0)
                .map(|(turn, cell)| cell.figures(turn))
                .collect(),
        };
        self.modes.iter().map(figures).collect()
    }
}

impl Cell {
    fn observe(&mut self, ttft: Duration, usage: &openai::Usage) {
        let micros = u64::try_from(ttft.as_micros()).unwrap_or(u64::MAX);
        self.ttft.record_nanos(micros, 1);
        let details = usage.prompt_tokens_details.unwrap_or_default();
        self.prompt_tokens += u64::from(usage.prompt_tokens);
        self.cached_tokens += u64::from(details.cached_tokens);
    }

    fn figures(&self, turn: u32) -> TurnNumberFigures {
        // The histogram takes what it counts for nanoseconds.
        let percentiles = self.ttft.percentiles().map(|found| found.scaled(1e6));
        let rounded = |value: f64| (value * 1e3).round() / 1e3;
        let percentile = |which: fn(&Percentiles) -> f64| {
            let found = percentiles.as_ref().map(which);
            found.map(rounded)
        };
        let share = 100.0 * self.cached_tokens as f64 / self.prompt_tokens as f64;
        TurnNumberFigures {
            turn,
            ttft_ms_p50: percentile(|all| all.p50),
            ttft_ms_p95: percentile(|all| all.p95),
            samples: self.ttft.total(),
            cached_pct: (self.prompt_tokens > 0).then(|| rounded(share)),
        }
    }
}

#[cfg(test)]
mod tests {
    use openai::{Routing, Usage};

    use super::*;
    use crate::reading::Extras;

    fn answer(mode: Option<&str>, ttft: u64, cached: u32) -> Answer {
        let routing = mode.map(|mode| Routing {
            mode: mode.to_owned(),
            reason: String::new(),
            blocks: 0,
            queued_ms: 0.0,
            predicted_ttft_ms: 0.0,
            candidates: Vec::new(),
        });
        Answer {
            text: String::new(),
            finish: None,
            ttft: Some(Duration::from_millis(ttft)),
            tpot: None,
            e2e: Duration::from_millis(ttft),
            gaps: Vec::new(),
            usage: Usage::new(100, 1, cached),
            chunks: 1,
            extras: Extras {
                routing,
                ..Extras::default()
            },
        }
    }

    #[test]
    fn turns_are_told_apart_under_each_mode() {
        let mut by_mode = ByMode::default();
        for ttft in 1..=20 {
            by_mode.observe(&answer(Some("kv"), 10 * ttft, 0), 0);
        }
        by_mode.observe(&answer(Some("kv"), 80, 90), 2);
        by_mode.observe(&answer(None, 300, 25), 1);
        let figures = by_mode.figures();
        let [kv, unknown] = &figures[..] else {
            panic!("{figures:?}")
        };
        assert_eq!((&*kv.mode, &*unknown.mode), ("kv", "unknown"));
        let turns: Vec<u32> = kv.turns.iter().map(|one| one.turn).collect();
        assert_eq!(turns, [1, 3], "nobody answered a second turn");
        let near = |found: Option<f64>, expected: f64| {
            let found = found.unwrap();
            assert!((found - expected).abs() <= expected * 0.0005, "{found}");
        };
        near(kv.turns[0].ttft_ms_p50, 100.0);
        near(kv.turns[0].ttft_ms_p95, 190.0);
        near(kv.turns[1].ttft_ms_p50, 80.0);
        assert_eq!(
            (kv.turns[0].samples, kv.turns[0].cached_pct),
            (20, Some(0.0))
        );
        assert_eq!(kv.turns[1].cached_pct, Some(90.0));
        near(unknown.turns[0].ttft_ms_p95, 300.0);
    }

    #[test]
    fn modes_and_turns_are_bounded() {
        let mut by_mode = ByMode::default();
        for mode in 0..40 {
            for turn in [0, 15, 16, 400] {
                by_mode.observe(&answer(Some(&format!("m{mode}")), 5, 0), turn);
            }
        }
        by_mode.observe(&answer(None, 5, 0), 0);
        let figures = by_mode.figures();
        assert_eq!(figures.len(), 16);
        let turns = |mode: &str| {
            let found = figures.iter().find(|one| one.mode == mode).unwrap();
            let turns = found.turns.iter().map(|one| (one.turn, one.samples));
            turns.collect::<Vec<_>>()
        };
        assert_eq!(turns("m3"), [(1, 1), (16, 3)]);
        assert_eq!(turns(UNKNOWN), [(1, 26), (16, 75)]);
    }
}
