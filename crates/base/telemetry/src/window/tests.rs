//! The window against tables and against sorting every sample that was ever seen.

use proptest::prelude::*;

use super::*;

const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];

fn at(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

#[track_caller]
fn check_ranks(samples: &[f64], expected: [f64; 3]) {
    let mut window = Window::default();
    for &sample in samples {
        window.observe(at(5.0), sample, 1);
    }
    assert_eq!(
        window.samples(at(5.0)).quantiles(QUANTILES),
        expected,
        "{samples:?}"
    );
}

#[test]
fn quantiles_are_nearest_ranks() {
    check_ranks(&[7.0], [7.0, 7.0, 7.0]);
    check_ranks(&[1.0, 2.0], [1.0, 2.0, 2.0]);
    check_ranks(&[3.0, 1.0, 2.0], [2.0, 3.0, 3.0]);
    check_ranks(&[4.0, 3.0, 2.0, 1.0], [2.0, 4.0, 4.0]);
    let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
    check_ranks(&hundred, [50.0, 95.0, 99.0]);
    check_ranks(&[f64::NAN, 1.0], [1.0, 1.0, 1.0]);
}

#[test]
fn an_empty_window_has_no_quantile() {
    let mut window = Window::default();
    assert!(
        window
            .samples(at(0.0))
            .quantiles(QUANTILES)
            .iter()
            .all(|value| value.is_nan())
    );
    window.observe(at(0.0), 1.0, 1);
    window.observe(at(0.0), 9.0, 0);
    assert_eq!(window.samples(at(0.0)).quantiles(QUANTILES), [1.0; 3]);
    assert!(
        window
            .samples(at(60.0))
            .quantiles(QUANTILES)
            .iter()
            .all(|value| value.is_nan())
    );
}

#[test]
fn a_sample_leaves_sixty_steps_after_its_own() {
    let mut window = Window::default();
    window.observe(at(10.9), 1.0, 1);
    assert_eq!(window.samples(at(69.999)).quantiles([0.5]), [1.0]);
    assert!(window.samples(at(70.0)).quantiles([0.5])[0].is_nan());
    // Its slot is taken by a newer second; a straggler of the old one changes nothing.
    window.observe(at(70.1), 2.0, 1);
    window.observe(at(10.9), 3.0, 1);
    assert_eq!(window.samples(at(70.1)).quantiles([0.5, 1.0]), [2.0, 2.0]);
}

#[test]
fn a_count_weighs_like_repetition() {
    let mut window = Window::default();
    window.observe(at(0.0), 1.0, 94);
    window.observe(at(1.0), 2.0, 6);
    assert_eq!(
        window.samples(at(1.0)).quantiles(QUANTILES),
        [1.0, 2.0, 2.0]
    );
}

#[test]
fn a_crowded_step_stays_small_and_nearly_exact() {
    let mut window = Window::default();
    let samples = 4 * EXACT_RUNS;
    for sample in 0..samples {
        // A permutation of evenly spread gaps between 10 and 20 milliseconds.
        let position = (sample * 7919) % samples;
        window.observe(at(0.0), 0.01 + 0.01 * position as f64 / samples as f64, 1);
    }
    let kept: usize = window.steps.iter().map(|step| step.runs.len()).sum();
    assert!(kept <= 2 * EXACT_RUNS, "{kept} runs are kept");
    for (quantile, value) in QUANTILES
        .iter()
        .zip(window.samples(at(0.0)).quantiles(QUANTILES))
    {
        let exact = 0.01 + 0.01 * quantile;
        assert!(
            (value / exact - 1.0).abs() < 0.000_2,
            "{value} at {quantile}"
        );
    }
}

proptest! {
    #[test]
    fn the_window_agrees_with_sorting_every_sample(
        samples in prop::collection::vec((0_u64..200_000, 0_u32..50, 1_u64..4), 0..200),
        wait in 0_u64..90_000,
    ) {
        let mut samples = samples;
        samples.sort_unstable();
        let mut window = Window::default();
        for &(millis, value, count) in &samples {
            window.observe(Duration::from_millis(millis), f64::from(value), count);
        }
        let last = samples.last().map_or(0, |&(millis, ..)| millis);
        let now = Duration::from_millis(last + wait);

        let mut inside: Vec<f64> = samples
            .iter()
            .filter(|&&(millis, ..)| millis / 1000 + 60 > now.as_secs())
            .flat_map(|&(_, value, count)| (0..count).map(move |_| f64::from(value)))
            .collect();
        inside.sort_by(f64::total_cmp);
        for (quantile, value) in QUANTILES.iter().zip(window.samples(now).quantiles(QUANTILES)) {
            let rank = (quantile * inside.len() as f64).ceil() as usize;
            match inside.get(rank.saturating_sub(1)) {
                Some(expected) => prop_assert_eq!(value, *expected),
                None => prop_assert!(value.is_nan()),
            }
        }
    }

    #[test]
    fn rounding_moves_a_value_by_less_than_an_eight_thousandth(value in 1e-9_f64..1e9) {
        prop_assert!((round(value) / value - 1.0).abs() <= 1.0 / 8192.0);
    }
}
