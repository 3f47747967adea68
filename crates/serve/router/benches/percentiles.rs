//! How long single picks take: percentiles, which criterion does not give.
//!
//! Only [`State::place`](router::State::place) is timed; what lets the request go on happens
//! between two picks. The machine may take the core away at any time, so several rounds are
//! made and the best is printed: `name<TAB>value`, in microseconds. Then picks per second.

#![expect(clippy::print_stdout, reason = "prints its figures")]

#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/scene.rs"]
mod scene;

#[expect(clippy::disallowed_types, reason = "benchmarks measure real time")]
use std::time::Instant;

use fleet::Fleet;
use scene::Scene;

const ROUNDS: usize = 7;
const PICKS_PER_ROUND: usize = 10_000;
const RUNS: usize = 301;
const PICKS_PER_RUN: usize = 50;

fn main() {
    for (workers, cache_blocks) in [(64, 8192), (1000, 1024)] {
        let mut fleet = Fleet::new(Scene::conversations(workers, cache_blocks, 2000));
        let rounds: Vec<Round> = (0..ROUNDS).map(|_| Round::run(&mut fleet)).collect();
        for (name, figure) in [
            ("p50", Round::p50 as fn(&Round) -> f64),
            ("p99", Round::p99),
            ("p999", Round::p999),
            ("mean", Round::mean),
        ] {
            let best = rounds.iter().map(figure).fold(f64::INFINITY, f64::min);
            println!("pick-{workers}-{name}\t{:.2}", best / 1e3);
        }
        println!("picks-{workers}\t{:.0}", picks_a_second(&mut fleet));
    }
}

/// With first tokens and releases, by the median of many short runs: a long one would count
/// the time in which the core belonged to somebody else.
fn picks_a_second(fleet: &mut Fleet) -> f64 {
    let mut runs: Vec<u64> = (0..RUNS)
        .map(|_| {
            #[expect(clippy::disallowed_types, reason = "benchmarks measure real time")]
            let begin = Instant::now();
            for _ in 0..PICKS_PER_RUN {
                fleet.pick();
                fleet.settle();
            }
            begin.elapsed().as_nanos() as u64
        })
        .collect();
    runs.sort_unstable();
    1e9 * PICKS_PER_RUN as f64 / runs[RUNS / 2] as f64
}

/// Durations in nanoseconds, ascending.
struct Round(Vec<u64>);

impl Round {
    fn run(fleet: &mut Fleet) -> Self {
        let mut durations = Vec::with_capacity(PICKS_PER_ROUND);
        for _ in 0..PICKS_PER_ROUND {
            #[expect(clippy::disallowed_types, reason = "benchmarks measure real time")]
            let begin = Instant::now();
            fleet.pick();
            durations.push(begin.elapsed().as_nanos() as u64);
            fleet.settle();
        }
        durations.sort_unstable();
        Self(durations)
    }

    fn at(&self, share: f64) -> f64 {
        let at = (share * self.0.len() as f64) as usize;
        self.0.get(at).copied().unwrap_or_default() as f64
    }

    fn p50(&self) -> f64 {
        self.at(0.5)
    }

    fn p99(&self) -> f64 {
        self.at(0.99)
    }

    fn p999(&self) -> f64 {
        self.at(0.999)
    }

    fn mean(&self) -> f64 {
        self.0.iter().sum::<u64>() as f64 / self.0.len() as f64
    }
}
