//! Fits the constants of a profile to measured steps.
//!
//! A step's time is a sum of terms, but for one. Reading weights and computing may hide behind
//! each other, so that only the longer counts. Once it is known for each step which one that is,
//! the best constants follow from linear equations; from the constants follows again which one it
//! is. A few rounds settle that. Or they do not hide, and everything is a sum. Both are tried, and
//! what explains the steps better is taken.
//!
//! A step's error is squared and divided by its time. Were errors relative, short steps would
//! count as much as long ones, and what no constant describes would end up in the long ones,
//! which is where a run's time goes. Were they absolute, short steps would count nothing.

use super::Measurement;
use crate::sim::timing::{StepLoad, Timing};

const CONSTANTS: usize = 5;
/// Rounds after which nothing changes any more.
const ROUNDS: usize = 50;
/// Steps of more tokens are taken to be busy computing at first.
const MANY_TOKENS: u64 = 32;

type Constants = [f64; CONSTANTS];

/// What of weights counts in a step's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weights {
    Read,
    Compute,
    ReadAndCompute,
}

/// Constants and how well they explain what they were made from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    pub timing: Timing,
    /// Half of the steps are off by no more, as a share of their time.
    pub median_error: f64,
    pub worst_error: f64,
}

/// The constants that explain the measurements best; none of them is below 0.
pub fn fit(measurements: &[Measurement]) -> Fit {
    let in_turn = vec![Weights::ReadAndCompute; measurements.len()];
    let in_turn = timing(solve(measurements, &in_turn), false);
    let overlapping = overlapping(measurements);
    let timing = match error(&in_turn, measurements) < error(&overlapping, measurements) {
        true => in_turn,
        false => overlapping,
    };
    let mut errors: Vec<f64> = measurements
        .iter()
        .map(|measured| off(&timing, measured).abs())
        .collect();
    errors.sort_unstable_by(f64::total_cmp);
    Fit {
        timing,
        median_error: errors.get(errors.len() / 2).copied().unwrap_or(0.0),
        worst_error: errors.last().copied().unwrap_or(0.0),
    }
}

/// The best constants if computing hides behind reading weights.
fn overlapping(measurements: &[Measurement]) -> Timing {
    let longer = |computes: bool| match computes {
        true => Weights::Compute,
        false => Weights::Read,
    };
    let mut weights: Vec<Weights> = measurements
        .iter()
        .map(|measured| longer(measured.load.computed_tokens > MANY_TOKENS))
        .collect();
    let mut best = timing([0.0; CONSTANTS], true);
    for _ in 0..ROUNDS {
        let found = timing(solve(measurements, &weights), true);
        if error(&found, measurements) < error(&best, measurements) {
            best = found;
        }
        let next: Vec<Weights> = measurements
            .iter()
            .map(|measured| {
                longer(measured.load.computed_tokens as f64 * found.per_token > found.base)
            })
            .collect();
        if next == weights {
            break;
        }
        weights = next;
    }
    best
}

/// What is to be made least.
fn error(timing: &Timing, measurements: &[Measurement]) -> f64 {
    let errors = measurements
        .iter()
        .map(|measured| off(timing, measured).powi(2) * measured.seconds);
    errors.sum()
}

/// By which share of a step's time the constants miss it.
fn off(timing: &Timing, measured: &Measurement) -> f64 {
    timing.step(&measured.load).as_secs_f64() / measured.seconds - 1.0
}

fn timing(constants: Constants, overlaps: bool) -> Timing {
    let [
        base,
        per_token,
        per_sequence,
        per_context_token,
        attention_per_pair,
    ] = constants;
    Timing {
        base,
        per_token,
        overlaps,
        per_sequence,
        per_context_token,
        wide_batch: 0.0,
        narrow_rows: u32::MAX,
        attention_per_pair,
        draft_per_token: 0.0,
        verify_per_token: 0.0,
    }
}

/// What each constant is multiplied with in a step.
fn amounts(load: &StepLoad, weights: Weights) -> Constants {
    let tokens = load.computed_tokens as f64;
    let [reads, computes] = match weights {
        Weights::Read => [1.0, 0.0],
        Weights::Compute => [0.0, tokens],
        Weights::ReadAndCompute => [1.0, tokens],
    };
    [
        reads,
        computes,
        load.rows as f64,
        load.context_tokens as f64,
        load.attention_pairs as f64,
    ]
}

/// Least squares of errors, each divided by the root of its step's time. A constant that would
/// be below 0 is 0, and the others are sought again.
fn solve(measurements: &[Measurement], weights: &[Weights]) -> Constants {
    let mut wanted = [true; CONSTANTS];
    loop {
        let mut matrix = [[0.0; CONSTANTS + 1]; CONSTANTS];
        for (measured, weights) in measurements.iter().zip(weights) {
            let amounts = amounts(&measured.load, *weights);
            let root = measured.seconds.sqrt();
            let weighed = amounts.map(|amount| amount / root);
            for (row, left) in matrix.iter_mut().zip(weighed) {
                for (cell, right) in row.iter_mut().zip(weighed.iter().chain(&[root])) {
                    *cell += left * right;
                }
            }
        }
        let constants = eliminate(matrix, wanted);
        let least = (0..CONSTANTS).min_by(|a, b| constants[*a].total_cmp(&constants[*b]));
        match least {
            Some(least) if constants[least] < 0.0 => wanted[least] = false,
            _ => return constants,
        }
    }
}

/// Gauss and Jordan's elimination over the wanted unknowns; the others, and those that nothing
/// is known of, are 0.
fn eliminate(
    mut matrix: [[f64; CONSTANTS + 1]; CONSTANTS],
    wanted: [bool; CONSTANTS],
) -> Constants {
    // In units in which each equation's own unknown has the factor 1.
    let scale: Constants = std::array::from_fn(|i| match matrix[i][i] > 0.0 && wanted[i] {
        true => 1.0 / matrix[i][i].sqrt(),
        false => 0.0,
    });
    for (i, row) in matrix.iter_mut().enumerate() {
        for (j, cell) in row.iter_mut().enumerate() {
            *cell *= scale[i] * scale.get(j).unwrap_or(&1.0);
        }
    }
    let mut is_solved = [false; CONSTANTS];
    for pivot in 0..CONSTANTS {
        // What is left of an equation that says nothing new is rounding.
        if matrix[pivot][pivot] < 1e-10 {
            continue;
        }
        is_solved[pivot] = true;
        let chosen = matrix[pivot].map(|cell| cell / matrix[pivot][pivot]);
        for (i, row) in matrix.iter_mut().enumerate() {
            let factor = row[pivot];
            if i == pivot {
                *row = chosen;
            } else {
                for (cell, other) in row.iter_mut().zip(chosen) {
                    *cell -= factor * other;
                }
            }
        }
    }
    std::array::from_fn(|i| match is_solved[i] {
        true => matrix[i][CONSTANTS] * scale[i],
        false => 0.0,
    })
}
