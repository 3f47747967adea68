//! Step times of an engine that is seen only through its API: from when its tokens arrive.
//!
//! All moments are seconds on one clock, ascending within an answer.

use super::{Measurement, median};

/// The time of a step while all of these answers are being written: from the moment when the last
/// of them has begun until the first one ends. `None` if fewer than two steps are between.
pub fn step(answers: &[Vec<f64>]) -> Option<f64> {
    let begun = answers
        .iter()
        .map(|answer| answer.first().copied())
        .try_fold(f64::MIN, |latest, first| Some(latest.max(first?)))?;
    let ended = answers
        .iter()
        .filter_map(|answer| answer.last().copied())
        .fold(f64::MAX, f64::min);
    let means: Option<Vec<f64>> = answers
        .iter()
        .map(|answer| {
            let within = |at: &&f64| (begun..=ended).contains(*at);
            let times: Vec<f64> = answer.iter().filter(within).copied().collect();
            let (first, last) = (times.first()?, times.last()?);
            // Several tokens at once, as from speculation, are no steps between them.
            let steps = times.windows(2).filter(|pair| pair[1] > pair[0]).count();
            (steps >= 2).then(|| (last - first) / steps as f64)
        })
        .collect();
    means.map(median)
}

/// The time of the step in which a prompt that was sent at `asked` was computed beside these
/// answers: the longest pause in them that ends after that.
pub fn step_with_prompt(answers: &[Vec<f64>], asked: f64) -> Option<f64> {
    let pauses: Option<Vec<f64>> = answers
        .iter()
        .map(|answer| {
            let after = answer.windows(2).filter(|pair| pair[1] > asked);
            after.map(|pair| pair[1] - pair[0]).reduce(f64::max)
        })
        .collect();
    pauses.filter(|pauses| !pauses.is_empty()).map(median)
}

/// What a request takes beyond its step: transfer, parsing, scheduling. It is taken off the times of
/// prompts, which are measured from the request to the first token.
///
/// One token after a cached prefix is the same step as one token of an answer after as many. What
/// the first takes longer is not the step.
pub fn take_off_overhead(measurements: &mut [Measurement]) -> f64 {
    let alone = |context| {
        let same = |one: &&Measurement| {
            let shape = one.shape;
            (shape.decoding, shape.context, shape.prefill) == (1, context, 0)
        };
        measurements.iter().find(same).map(|one| one.seconds)
    };
    let beyond: Vec<f64> = measurements
        .iter()
        .filter(|one| one.shape.decoding == 0 && one.shape.prefill == 1)
        .filter_map(|one| Some(one.seconds - alone(one.shape.prefilled)?))
        .collect();
    let overhead = median(beyond).max(0.0);
    for one in measurements
        .iter_mut()
        .filter(|one| one.shape.decoding == 0)
    {
        // A prompt that came faster than the others' overhead still took some time.
        one.seconds = (one.seconds - overhead).max(one.seconds / 10.0);
    }
    overhead
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::Shape;
    use crate::sim::timing::StepLoad;

    /// An answer that begins at `first` and has a token every `step`.
    fn answer(first: f64, step: f64, tokens: usize) -> Vec<f64> {
        (0..tokens)
            .map(|token| first + step * token as f64)
            .collect()
    }

    fn close(found: Option<f64>, wanted: f64) {
        let found = found.unwrap();
        assert!((found - wanted).abs() < 1e-9, "{found} {wanted}");
    }

    #[test]
    fn a_step_counts_only_while_all_answers_are_written() {
        close(step(&[answer(1.0, 0.1, 20)]), 0.1);
        // The first has fast steps while it is alone.
        let mut early = answer(0.0, 0.01, 50);
        early.extend(answer(0.5, 0.1, 10));
        close(step(&[early, answer(0.6, 0.1, 30)]), 0.1);
        // Pairs of tokens are one step.
        let pairs: Vec<f64> = answer(0.0, 0.1, 8)
            .into_iter()
            .flat_map(|at| [at, at])
            .collect();
        close(step(&[pairs]), 0.1);
        let apart = [answer(0.0, 0.1, 5), answer(2.0, 0.1, 5)];
        for too_few in [&apart[..], &[vec![]], &[answer(0.0, 0.1, 2)]] {
            assert_eq!(step(too_few), None, "{too_few:?}");
        }
    }

    #[test]
    fn a_prompt_shows_as_the_longest_pause_after_it_was_sent() {
        let mut paused = answer(0.0, 0.1, 5);
        paused.extend(answer(0.9, 0.1, 5));
        let mut slow_before = answer(0.0, 0.3, 2);
        slow_before.extend(answer(0.4, 0.1, 1));
        slow_before.extend(answer(0.9, 0.1, 5));
        let answers = [paused.clone(), slow_before, paused];
        close(step_with_prompt(&answers, 0.45), 0.5);
        assert_eq!(step_with_prompt(&answers, 5.0), None);
        assert_eq!(step_with_prompt(&[], 0.0), None);
    }

    #[test]
    fn what_is_not_the_step_is_taken_off_prompts_alone() {
        let measured = |decoding, prefill, prefilled, seconds| Measurement {
            shape: Shape {
                decoding,
                context: if decoding > 0 { 512 } else { 0 },
                prefill,
                prefilled,
            },
            load: StepLoad::default(),
            seconds,
        };
        let mut measurements = [
            measured(1, 0, 0, 0.020),
            measured(0, 1, 512, 0.025),
            measured(0, 1024, 0, 0.105),
            measured(4, 1024, 0, 0.110),
            measured(0, 1, 2048, 9.0),
        ];
        let overhead = take_off_overhead(&mut measurements);
        assert!((overhead - 0.005).abs() < 1e-9, "{overhead}");
        let seconds = measurements.map(|one| (one.seconds * 1e3).round());
        assert_eq!(seconds, [20.0, 20.0, 100.0, 110.0, 8995.0]);
        assert_eq!(take_off_overhead(&mut []), 0.0);
    }
}
