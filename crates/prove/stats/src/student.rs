//! Coins, Student's t distribution, and what to do when many questions are asked at once.
//!
//! Degrees of freedom are whole numbers here, one less than there are runs, and for those the
//! distribution is a finite sum (Abramowitz and Stegun, 26.7.3 and 26.7.4). Nothing is
//! approximated, and no table ends where somebody needs it.

use std::f64::consts::FRAC_2_PI;

/// How often a t of so many degrees of freedom lies farther from 0 than this one, on either
/// side.
pub(crate) fn two_sided(t: f64, freedom: u32) -> f64 {
    let nu = f64::from(freedom);
    let hypotenuse = (nu + t * t).sqrt();
    if !hypotenuse.is_finite() {
        return 0.0;
    }
    let (sine, cosine) = (t.abs() / hypotenuse, nu.sqrt() / hypotenuse);
    let square = cosine * cosine;
    // Even: 1 + 1/2 c² + 1·3/(2·4) c⁴ + …; odd: c + 2/3 c³ + 2·4/(3·5) c⁵ + …
    let is_even = freedom.is_multiple_of(2);
    let first = if is_even { 1.0 } else { cosine };
    let terms = if is_even {
        freedom / 2
    } else {
        freedom.saturating_sub(1) / 2
    };
    let (mut term, mut sum) = (first, 0.0);
    for index in 0..terms {
        sum += term;
        let next = 2.0 * f64::from(index) + if is_even { 1.0 } else { 2.0 };
        term *= square * next / (next + 1.0);
    }
    let within = match is_even {
        true => sine * sum,
        false => FRAC_2_PI * (sine.atan2(cosine) + sine * sum),
    };
    (1.0 - within).clamp(0.0, 1.0)
}

/// How many of the lowest and of the highest of `count` draws may be left out so that the others
/// still enclose the median of what they were drawn from, but for this share of cases: as a coin
/// that falls on one side so often. `None` if even all of them do not.
pub(crate) fn left_out(count: usize, outside: f64) -> Option<usize> {
    // Of `sides` heads; logarithms, since two to the power of a thousand is no number.
    let mut chance_ln = -(count as f64) * std::f64::consts::LN_2;
    let (mut both_sides, mut found) = (0.0, None);
    for sides in 0..count / 2 {
        both_sides += 2.0 * chance_ln.exp();
        if both_sides > outside {
            break;
        }
        found = Some(sides);
        chance_ln += ((count - sides) as f64 / (sides + 1) as f64).ln();
    }
    found
}

/// Holm's adjustment: each p against as many as are left, the smallest first. If those of at
/// most 0.05 are called significant, at most one report in twenty has even one false positive,
/// however the questions depend on each other.
pub(crate) fn holm(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&left, &right| values[left].total_cmp(&values[right]));
    let mut adjusted = vec![1.0; values.len()];
    let mut at_least = 0.0_f64;
    for (rank, &index) in order.iter().enumerate() {
        let left = (values.len() - rank) as f64;
        at_least = at_least.max(values[index] * left).min(1.0);
        adjusted[index] = at_least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_is_the_one_in_the_tables() {
        for (freedom, outside, t) in [
            (1, 0.05, 12.7062),
            (2, 0.05, 4.30265),
            (4, 0.05, 2.77645),
            (5, 0.05, 2.57058),
            (9, 0.05, 2.26216),
            (10, 0.01, 3.16927),
            (29, 0.05, 2.04523),
            (30, 0.001, 3.64596),
            (999, 0.05, 1.96234),
        ] {
            for t in [t, -t] {
                let found = two_sided(t, freedom);
                assert!(
                    (found - outside).abs() < 2e-5 * outside,
                    "{freedom} {t}: {found}"
                );
            }
        }
        assert_eq!(two_sided(0.0, 4), 1.0);
        assert_eq!(two_sided(f64::INFINITY, 4), 0.0);
    }

    #[test]
    fn runs_enclose_a_median_as_often_as_coins_fall() {
        for (count, expected) in [
            (0, None),
            (1, None),
            (5, None),
            (6, Some(0)),
            (8, Some(0)),
            (9, Some(1)),
            (10, Some(1)),
            (12, Some(2)),
            (20, Some(5)),
            (100, Some(39)),
            (2000, Some(955)),
        ] {
            assert_eq!(left_out(count, 0.05), expected, "{count}");
        }
    }

    #[test]
    fn many_questions_need_better_answers() {
        let near = |found: Vec<f64>, expected: &[f64]| {
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-12, "{found} {expected}");
            }
        };
        near(holm(&[]), &[]);
        near(holm(&[0.04]), &[0.04]);
        near(holm(&[0.01, 0.04, 0.03, 0.005]), &[0.03, 0.06, 0.06, 0.02]);
        near(holm(&[0.9, 0.6]), &[1.0, 1.0]);
        near(holm(&[0.0, 0.0, 1.0]), &[0.0, 0.0, 1.0]);
    }
}
