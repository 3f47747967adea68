//! Step times of an engine that is seen only through its API: from when its tokens arrive.
//!
//! All moments are seconds on one clock, ascending within an answer.

use super::{Measurement, median};

/// The time of a step while all of these answers are being written: from the moment when the last
/// of them has begun until the first one ends. `None` if fewer than two steps are between.
pub fn step(answers: &[Vec<f64>]) -> Option<f64> {
    // What came all at once does not show when it began and ended.
    let ends = answers.iter().filter_map(|answer| {
        let (first, last) = (*answer.first()?, *answer.last()?);
        (first < last).then_some((first, last))
    });
    let (begun, ended) = ends.fold((f64::MIN, f64::MAX), |(begun, ended), (first, last)| {
        (begun.max(first), ended.min(last))
    });
    let means = answers.iter().map(|answer| {
        let within = |at: &&f64| (begun..=ended).contains(*at);
        let times: Vec<f64> = answer.iter().filter(within).copied().collect();
        let (first, last) = (times.first()?, times.last()?);
        let steps = steps_after_first(&times);
        (steps >= 2).then(|| (last - first) / steps as f64)
    });
    median_of_most(means)
}

/// The middle of what most answers show. Some may show nothing, where text comes late and in pieces.
fn median_of_most(shown: impl ExactSizeIterator<Item = Option<f64>>) -> Option<f64> {
    let count = shown.len();
    let shown: Vec<f64> = shown.flatten().collect();
    (count > 0 && 2 * shown.len() >= count).then(|| median(shown))
}

/// Steps since the first of these tokens.
///
/// A step makes one token, unless the engine speculates: then most of them make several, which arrive
/// together. Now and then several arrive together anyway, where text waits for the rest of a
/// character or of a word.
fn steps_after_first(times: &[f64]) -> usize {
    let after = times.iter().filter(|at| **at > times[0]).count();
    let arrivals = times.windows(2).filter(|pair| pair[1] > pair[0]).count();
    match after * 2 > arrivals * 3 {
        true => arrivals,
        false => after,
    }
}

/// The time of the step in which a prompt was computed beside these answers: how long their tokens
/// had to wait that arrived with the first token of the prompt's own answer, at `first`.
pub fn step_with_prompt(answers: &[Vec<f64>], first: f64) -> Option<f64> {
    let waits = answers.iter().map(|answer| {
        let distance = |pair: &&[f64]| (pair[1] - first).abs();
        let pairs = answer.windows(2).filter(|pair| pair[1] > pair[0]);
        let with = pairs.min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        // Otherwise the answer was over by then, or had not begun.
        (distance(&with) <= with[1] - with[0]).then(|| with[1] - with[0])
    });
    median_of_most(waits)
}

/// What a prompt beside answers waited before its own step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    seconds: f64,
    /// The usual step of these answers.
    step: f64,
}

impl Wait {
    /// `seconds` from the request to the first token, less the step in which it was computed.
    pub fn new(answers: &[Vec<f64>], seconds: f64) -> Self {
        let pairs = answers.iter().flat_map(|answer| answer.windows(2));
        let steps = pairs
            .map(|pair| pair[1] - pair[0])
            .filter(|step| *step > 0.0);
        Self {
            seconds,
            step: median(steps.collect()),
        }
    }
}

/// Whole steps that a busy engine takes between hearing of a request and letting it join. A request
/// comes in the midst of a step, so half a step is no sign of them.
pub fn intake_steps(waits: &[Wait], overhead: f64) -> u32 {
    let steps = waits
        .iter()
        .filter(|wait| wait.step > 0.0)
        .map(|wait| (wait.seconds - overhead) / wait.step - 0.5);
    median(steps.collect()).round().max(0.0) as u32
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
        // Tokens that come in pairs come from one step; one pair among many tokens does not.
        let pairs: Vec<f64> = answer(0.0, 0.1, 8)
            .into_iter()
            .flat_map(|at| [at, at])
            .collect();
        close(step(&[pairs]), 0.1);
        let mut held_back = answer(0.0, 0.1, 20);
        held_back[7] = held_back[8];
        close(step(&[held_back]), 0.1);
        // What came late at first says nothing of when it was made.
        let mut late = answer(0.0, 0.1, 30);
        late[..10].fill(1.0);
        close(step(&[late.clone()]), 0.1);
        let silent = vec![0.5];
        close(step(&[answer(0.0, 0.1, 30), late, silent.clone()]), 0.1);
        let apart = [answer(0.0, 0.1, 5), answer(2.0, 0.1, 5)];
        for too_few in [&apart[..], &[vec![]], &[answer(0.0, 0.1, 2)], &[silent]] {
            assert_eq!(step(too_few), None, "{too_few:?}");
        }
    }

    #[test]
    fn a_prompt_shows_as_a_pause_that_ends_with_its_first_token() {
        let mut paused = answer(0.0, 0.1, 5);
        paused.extend(answer(0.9, 0.1, 5));
        // Text that waited for the rest of a character is a longer pause, of one answer alone.
        let mut waited = answer(0.0, 0.1, 5);
        waited.extend([0.9, 1.6, 1.6, 1.7]);
        let answers = [paused.clone(), waited, paused.clone()];
        close(step_with_prompt(&answers, 0.91), 0.5);
        close(step_with_prompt(&[paused.clone()], 0.89), 0.5);
        assert_eq!(step_with_prompt(&[paused], 5.0), None);
        assert_eq!(step_with_prompt(&[], 0.0), None);
    }

    #[test]
    fn steps_before_a_request_may_join_are_counted() {
        let answers = [answer(0.0, 0.1, 40)];
        let waited = |seconds| Wait::new(&answers, seconds);
        let never = [0.02, 0.05, 0.08].map(waited);
        assert_eq!(intake_steps(&never, 0.0), 0);
        let seven = [0.75, 0.81, 0.70].map(waited);
        assert_eq!(intake_steps(&seven, 0.005), 7);
        assert_eq!(intake_steps(&[], 0.0), 0);
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
