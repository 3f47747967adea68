//! Routing rules of other systems, to be run beside ours on the same load.
//!
//! For benchmarks only: the program does not depend on this crate, and no server can be
//! switched to one of these rules. Each file states its rule, the published defaults and
//! where our version is simpler than the original.
//!
//! # How far the comparison is fair
//!
//! - **Books and index are ours.** Every rule sees counters that are exact at every moment
//!   and the index that `kv` sees, running requests included. Many of these systems poll
//!   their engines or guess from what they have routed; here none of that blurs the rule.
//! - **Published defaults, not tuned.** `kv`'s own constants were chosen on these workloads.
//! - **No queue in front of the workers.** A rule's choice is final, and a request that finds
//!   its worker full waits in the engine, as by default in all of these systems. `kv` holds
//!   such requests back until a slot is free; part of its lead under overload is that.
//! - What a rule does beside choosing (rate limits, retries, admission) is left out.

pub mod rule;
pub mod table;

use anyhow::anyhow;
use lab::Contestant;
use router::{BlockWeights, Mode, Policy};

use crate::rule::{Aibrix, Chwbl, Dynamo, LlmD, Lmetric, Lpwl, Smg};

/// A rule's name and how to make it.
type Entry = (&'static str, fn() -> Box<dyn Policy>);

/// Every rule.
const RIVALS: [Entry; 7] = [
    (Smg::NAME, || Box::new(Smg)),
    (Aibrix::NAME, || Box::new(Aibrix)),
    (LlmD::NAME, || Box::new(LlmD)),
    (Lmetric::NAME, || Box::new(Lmetric)),
    (Lpwl::NAME, || Box::new(Lpwl)),
    (Dynamo::NAME, || Box::new(Dynamo)),
    (Chwbl::NAME, || Box::new(Chwbl::default())),
];

/// All rivals, in the order of the table.
pub fn all() -> impl Iterator<Item = Contestant> {
    RIVALS
        .iter()
        .map(|&(name, policy)| Contestant::Rival { name, policy })
}

/// Our modes that say something in a comparison, and all rivals.
pub fn everyone() -> Vec<Contestant> {
    let ours = [
        Mode::RoundRobin,
        Mode::KvBlocks(BlockWeights::default()),
        Mode::Kv,
    ];
    ours.map(Contestant::from)
        .into_iter()
        .chain(all())
        .collect()
}

/// A rival or one of the router's modes, by name.
pub fn contestant(name: &str) -> anyhow::Result<Contestant> {
    if let Some(rival) = all().find(|rival| rival.name() == name) {
        return Ok(rival);
    }
    let known = || all().map(|rival| rival.name()).collect::<Vec<_>>();
    name.parse::<Mode>()
        .map(Contestant::from)
        .map_err(|error| anyhow!("{error}, or a rival: {}", known().join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rivals_and_modes_are_found_by_name() {
        for rival in all() {
            let found = contestant(rival.name()).unwrap();
            assert!(matches!(found, Contestant::Rival { name, policy }
                if name == rival.name() && policy().name() == name));
        }
        for mode in ["kv", "round-robin", "kv_blocks"] {
            assert!(
                matches!(contestant(mode), Ok(Contestant::Mode(_))),
                "{mode}"
            );
        }
        let error = contestant("best").unwrap_err().to_string();
        assert!(error.ends_with("or a rival: smg, aibrix, llm-d, lmetric, lpwl, dynamo, chwbl"));
    }
}
