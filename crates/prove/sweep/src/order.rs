//! The order in which cells are run.
//!
//! A deployment drifts: it warms up, its neighbours get busy. If one mode is always measured
//! first, the drift is counted as its own. So cells are shuffled by default; where a switch of
//! the mode is expensive they can be grouped, and the report says so.

use std::collections::BTreeMap;
use std::str::FromStr;

use contract::random::{Random, mix};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use stats::raw::CellName;

const SHUFFLE: u64 = 0x04de;

/// Levels by the name of a mode.
pub type LevelsOfModes = BTreeMap<String, Vec<u32>>;

/// What of a plan decides which cells there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cells<'a> {
    pub(crate) modes: &'a [String],
    pub(crate) levels: &'a [u32],
    pub(crate) only: &'a LevelsOfModes,
    pub(crate) repeats: u32,
    pub(crate) seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All cells of a repeat shuffled, by the seed.
    Random,
    /// Levels upward; modes forward at one, backward at the next, and the other way round in
    /// the next repeat.
    Abba,
    /// All cells of a mode, then all of the next: as few switches as there can be.
    Grouped,
}

impl Order {
    pub const ALL: [(&str, Self); 3] = [
        ("random", Self::Random),
        ("abba", Self::Abba),
        ("grouped", Self::Grouped),
    ];

    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, order)| *order == self);
        found.map_or("", |(name, _)| name)
    }

    /// Every cell of a plan, once.
    pub(crate) fn cells(self, plan: Cells<'_>) -> Vec<CellName> {
        let mut cells = self.all_cells(plan);
        cells.retain(|cell| {
            let only = plan.only.get(&cell.mode);
            only.is_none_or(|levels| levels.contains(&cell.concurrency))
        });
        cells
    }

    /// As if every mode were run at every level.
    fn all_cells(self, plan: Cells<'_>) -> Vec<CellName> {
        let repeats = 1..=plan.repeats;
        match self {
            Self::Random => repeats.flat_map(|repeat| shuffled(plan, repeat)).collect(),
            Self::Abba => repeats
                .flat_map(|repeat| there_and_back(plan, repeat))
                .collect(),
            Self::Grouped => {
                let of_mode = |mode: &String| {
                    let mode = mode.clone();
                    let repeats = 1..=plan.repeats;
                    repeats.flat_map(move |repeat| {
                        let mode = mode.clone();
                        let levels = plan.levels.iter();
                        levels.map(move |&level| cell(&mode, level, repeat))
                    })
                };
                plan.modes.iter().flat_map(of_mode).collect()
            }
        }
    }
}

fn cell(mode: &str, concurrency: u32, repeat: u32) -> CellName {
    CellName {
        mode: mode.to_owned(),
        concurrency,
        repeat,
    }
}

fn shuffled(plan: Cells<'_>, repeat: u32) -> Vec<CellName> {
    let mut cells = there_and_back(plan, repeat);
    let mut random = Random::new(mix(plan.seed, SHUFFLE, u64::from(repeat)));
    for last in (1..cells.len()).rev() {
        cells.swap(last, random.below(last + 1));
    }
    cells
}

fn there_and_back(plan: Cells<'_>, repeat: u32) -> Vec<CellName> {
    let mut cells = Vec::new();
    for (index, &level) in plan.levels.iter().enumerate() {
        let forward = plan.modes.iter().map(|mode| cell(mode, level, repeat));
        match (index + repeat as usize).is_multiple_of(2) {
            true => cells.extend(forward.rev()),
            false => cells.extend(forward),
        }
    }
    cells
}

/// A name that is none of those known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {what} `{name}`; available: {}", known.join(", "))]
pub struct UnknownName {
    pub what: &'static str,
    pub name: String,
    pub known: Vec<&'static str>,
}

/// The one of `all` that has the name.
pub(crate) fn named<T: Copy>(
    what: &'static str,
    name: &str,
    all: &[(&'static str, T)],
) -> Result<T, UnknownName> {
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|&(_, one)| one).ok_or_else(|| UnknownName {
        what,
        name: name.to_owned(),
        known: all.iter().map(|(known, _)| *known).collect(),
    })
}

impl FromStr for Order {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        named("order", name, &Self::ALL)
    }
}

impl<'de> Deserialize<'de> for Order {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let name = String::deserialize(input)?;
        name.parse().map_err(D::Error::custom)
    }
}

impl Serialize for Order {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::{PartialPlan, Plan};

    fn plan(order: &str) -> Plan {
        let text = format!(
            "levels = [5, 6, 7]\nmodes = \"round-robin,kv\"\nrepeats = 2\norder = \"{order}\""
        );
        PartialPlan::parse(&text).unwrap().resolve(true).unwrap()
    }

    fn told(order: &str) -> Vec<(String, u32, u32)> {
        let cells = plan(order).cells().into_iter();
        cells
            .map(|cell| (cell.mode, cell.concurrency, cell.repeat))
            .collect()
    }

    #[test]
    fn every_order_has_every_cell_once() {
        for (name, order) in Order::ALL {
            assert_eq!(order.name(), name);
            let cells = told(name);
            let different: BTreeSet<_> = cells.iter().collect();
            assert_eq!((cells.len(), different.len()), (12, 12), "{name}");
            assert_eq!(cells, told(name), "{name}: the same each time");
        }
    }

    #[test]
    fn modes_go_there_and_back() {
        let cells = told("abba");
        let firsts: Vec<&str> = cells
            .iter()
            .step_by(2)
            .map(|cell| cell.0.as_str())
            .collect();
        let [rr, kv] = ["round-robin", "kv"];
        // The second repeat begins with the other mode.
        assert_eq!(firsts, [rr, kv, rr, kv, rr, kv]);
        assert_eq!((cells[0].1, cells[0].2, cells[6].2), (5, 1, 2));
    }

    #[test]
    fn a_shuffle_depends_on_the_seed() {
        let shuffled = told("random");
        assert_ne!(shuffled, told("abba"));
        let other = Plan {
            seed: 43,
            ..plan("random")
        };
        assert_ne!(other.cells(), plan("random").cells());
        // Repeats are not mixed: an interrupted sweep has whole ones.
        assert!(shuffled[..6].iter().all(|cell| cell.2 == 1));
    }
}
