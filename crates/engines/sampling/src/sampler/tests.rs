//! Draws have the distribution that was asked for.

use contract::{Penalties, Sampling};
use proptest::prelude::*;

use super::{Before, Draw, NotFinite, Sampler, log_probabilities};

fn sampling(temperature: f32, top_p: f32, top_k: Option<u32>) -> Sampling {
    Sampling {
        temperature,
        top_p,
        top_k,
        ..Sampling::default()
    }
}

fn draw(sampling: &Sampling, seed: u64, position: usize) -> Draw<'_> {
    Draw {
        allowed: None,
        sampling,
        seed,
        position,
        forbidden: &[],
        before: Before::default(),
    }
}

/// What the options leave of a distribution, by the book.
fn expected(logits: &[f32], sampling: &Sampling) -> Vec<f64> {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b)));
    let weight = |id: usize| (f64::from(logits[id]) / f64::from(sampling.temperature)).exp();
    let likeliest = weight(order[0]);
    order.retain(|id| weight(*id) >= f64::from(sampling.min_p) * likeliest);
    order.truncate(sampling.top_k.map_or(logits.len(), |k| k as usize));
    let total: f64 = order.iter().map(|id| weight(*id)).sum();
    let mut kept = vec![0.0; logits.len()];
    let mut sum = 0.0;
    for id in order {
        kept[id] = weight(id);
        sum += weight(id);
        if sum >= f64::from(sampling.top_p) * total {
            break;
        }
    }
    kept.iter().map(|weight| weight / sum).collect()
}

/// Pearson's statistic; cells that are never expected must be empty.
fn chi_square(counts: &[u64], expected: &[f64], draws: u64) -> f64 {
    let mut statistic = 0.0;
    for (count, share) in counts.iter().zip(expected) {
        let mean = share * draws as f64;
        if mean == 0.0 {
            assert_eq!(*count, 0, "a token that cannot come");
        } else {
            statistic += (*count as f64 - mean).powi(2) / mean;
        }
    }
    statistic
}

const LOGITS: [f32; 12] = [
    0.3, 1.7, -0.4, 2.1, 0.9, -1.2, 1.1, 0.0, 1.69, -2.0, 0.5, 2.0,
];
/// The 99.99th percentile with 11 degrees of freedom is 37.4.
const LIMIT: f64 = 37.4;

#[test]
fn draws_have_the_distribution_that_was_asked_for() {
    let cases = [
        sampling(1.0, 1.0, None),
        sampling(0.7, 1.0, Some(5)),
        sampling(1.3, 0.8, None),
        sampling(1.0, 0.9, Some(8)),
        Sampling {
            min_p: 0.2,
            ..sampling(0.9, 1.0, None)
        },
        Sampling {
            min_p: 0.1,
            ..sampling(1.0, 0.7, Some(9))
        },
    ];
    let mut sampler = Sampler::default();
    for case in &cases {
        let draws = 250_000;
        let mut counts = [0u64; LOGITS.len()];
        for position in 0..draws {
            let token = sampler.draw(&LOGITS, draw(case, 7, position)).unwrap();
            counts[token as usize] += 1;
        }
        let statistic = chi_square(&counts, &expected(&LOGITS, case), draws as u64);
        assert!(statistic < LIMIT, "{case:?}: {statistic}");
    }
}

#[test]
fn the_best_is_taken_without_temperature_the_first_of_equals() {
    let cold = sampling(0.0, 1.0, None);
    let mut sampler = Sampler::default();
    assert_eq!(sampler.draw(&LOGITS, draw(&cold, 1, 0)), Ok(3));
    assert_eq!(sampler.draw(&[1.0, 5.0, 5.0], draw(&cold, 1, 0)), Ok(1));
    let forbidden = Draw {
        forbidden: &[3],
        ..draw(&cold, 1, 0)
    };
    assert_eq!(sampler.draw(&LOGITS, forbidden), Ok(11));
}

/// What is left of logits, seen through draws without temperature: each is the best once all
/// better ones are forbidden.
#[test]
fn what_came_before_is_penalised_as_often_as_it_is_told_to() {
    let logits = [4.0, 3.0, 2.0, -1.0, 0.5];
    let before = Before {
        prompt: &[1, 1],
        said: &[0, 2, 0],
        accepted: &[2, 0, 3],
    };
    let cases = [
        // presence, frequency, repetition, and the order that they leave
        (0.0, 0.0, 1.0, [0, 1, 2, 4, 3]),
        // 4-1.5, 3, 2-1.5, -1-1.5, 0.5: the first of equals
        (1.5, 0.0, 1.0, [1, 0, 2, 4, 3]),
        // 4-3*1.25, 3, 2-2*1.25, -1-1.25, 0.5
        (0.0, 1.25, 1.0, [1, 4, 0, 2, 3]),
        // 4/8, 3/8, 2/8, -1*8, 0.5
        (0.0, 0.0, 8.0, [0, 4, 1, 2, 3]),
        // both at once: 4/2-1, 3/2, 2/2-1, -1*2-1, 0.5
        (1.0, 0.0, 2.0, [1, 0, 4, 2, 3]),
    ];
    let mut sampler = Sampler::default();
    for (presence, frequency, repetition, order) in cases {
        let sampling = Sampling {
            penalties: Penalties {
                presence,
                frequency,
                repetition,
            },
            ..sampling(0.0, 1.0, None)
        };
        let left = order.map(|best| {
            let place = order.iter().position(|token| *token == best).unwrap();
            let drawn = Draw {
                forbidden: &order[..place],
                before,
                ..draw(&sampling, 1, 0)
            };
            sampler.draw(&logits, drawn).unwrap()
        });
        assert_eq!(left, order, "{sampling:?}");
    }
}

#[test]
fn numbers_that_are_none_are_noticed() {
    let mut sampler = Sampler::default();
    let warm = sampling(1.0, 1.0, None);
    for bad in [f32::NAN, f32::INFINITY] {
        let drawn = sampler.draw(&[0.0, bad, 1.0], draw(&warm, 1, 0));
        assert_eq!(drawn, Err(NotFinite));
    }
}

#[test]
fn log_probabilities_sum_to_one() {
    let found = log_probabilities(&LOGITS, 3, LOGITS.len());
    let sum: f64 = found.top.iter().map(|(_, log)| f64::from(*log).exp()).sum();
    assert!((sum - 1.0).abs() < 1e-6);
    assert_eq!(found.top[0], (3, found.logprob));
    assert_eq!(log_probabilities(&LOGITS, 0, 2).top.len(), 2);
}

proptest! {
    /// Sorting few first must not change who is left.
    #[test]
    fn a_large_vocabulary_is_cut_as_a_small_one(
        seed: u64,
        top_p in 0.05f32..1.0,
        top_k in prop::option::of(1u32..2000),
    ) {
        let logits: Vec<f32> = (0..3000u64)
            .map(|id| (contract::random::unit(contract::random::mix(seed, 1, id)) * 4.0) as f32)
            .collect();
        let case = sampling(1.0, top_p, top_k);
        let kept = expected(&logits, &case);
        let mut sampler = Sampler::default();
        for position in 0..50 {
            let token = sampler.draw(&logits, draw(&case, seed, position)).unwrap();
            prop_assert!(kept[token as usize] > 0.0);
        }
    }
}
