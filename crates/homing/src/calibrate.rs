//! `homing calibrate`: a profile for the simulator, measured on this machine or on servers that run.

mod own;
mod upstream;

use anyhow::{Context as _, ensure};
use engine::Limits;
use engine::calibration::{self, Fit, Measurement, Shape};
use engine::sim::Profile;

use crate::args::CalibrateArgs;
use crate::print;

pub(crate) fn run(args: &CalibrateArgs) -> anyhow::Result<()> {
    // Before minutes of measuring, not after.
    let folder = args
        .output
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        ensure!(
            folder.is_dir(),
            "--output: no such folder: {}",
            folder.display()
        );
    }
    let text = match args.upstreams.is_empty() {
        true => own::profile(args)?,
        false => upstream::profile(args)?,
    };
    // What was written can be read, or there is a fault here.
    Profile::parse("calibrated", &text)?;
    std::fs::write(&args.output, text).with_context(|| args.output.display().to_string())?;
    print::line(format_args!("\nwrote {}", args.output.display()));
    Ok(())
}

/// What was measured on all workers at once, and how fewer of them compare.
struct Measured {
    steps: Vec<Measurement>,
    /// What part of a step's time it takes while one worker computes, two, and so on; empty
    /// where there is only one.
    shares: Vec<f64>,
}

/// Seconds of steps of one shape, over all rounds and workers; or of one step of each shape.
type Seconds = Vec<f64>;

/// Workers whose steps can be timed.
trait Workers {
    fn count(&self) -> usize;

    /// Seconds of each shape while the first `at_once` of them work at the same time, once or more
    /// often.
    async fn round(
        &mut self,
        at_once: usize,
        shapes: &[Shape],
        round: usize,
    ) -> anyhow::Result<Vec<Seconds>>;
}

/// All kinds of steps on one worker, on two and so on, in every round: a machine whose own
/// speed changes in the meantime changes all of them.
async fn measure(
    workers: &mut impl Workers,
    shapes: Vec<Shape>,
    limits: &Limits,
    rounds: usize,
) -> anyhow::Result<Measured> {
    ensure!(!shapes.is_empty(), "no kind of step fits the worker");
    let count = workers.count();
    let mut seconds: Vec<Vec<Seconds>> = vec![vec![Vec::new(); shapes.len()]; count];
    for round in 1..=rounds {
        print::note(format_args!(
            "round {round} of {rounds}: {} kinds of steps",
            shapes.len()
        ));
        for (at_once, seconds) in (1..).zip(&mut seconds) {
            for session in workers.round(at_once, &shapes, round).await? {
                let pairs = seconds.iter_mut().zip(session);
                pairs.for_each(|(seconds, one)| seconds.push(one));
            }
        }
    }
    let medians: Vec<Seconds> = seconds
        .into_iter()
        .map(|shapes| shapes.into_iter().map(calibration::median).collect())
        .collect();
    let all = medians.last().context("no worker was measured")?;
    // Of all steps together: a short one may well be over before it has to share a core.
    let share = |some: &Seconds| (some.iter().sum::<f64>() / all.iter().sum::<f64>()).min(1.0);
    let measured = shapes
        .into_iter()
        .zip(all)
        .map(|(shape, seconds)| Measurement {
            shape,
            load: shape.load(limits),
            seconds: *seconds,
        });
    Ok(Measured {
        steps: measured.collect(),
        shares: match count {
            1 => Vec::new(),
            _ => medians.iter().map(share).collect(),
        },
    })
}

fn in_words(shape: &Shape) -> String {
    let mut words = Vec::new();
    if shape.decoding > 0 {
        words.push(format!(
            "{} sequence(s) after {} tokens",
            shape.decoding, shape.context
        ));
    }
    if shape.prefill > 0 {
        words.push(format!(
            "a prompt's {} tokens after {}",
            shape.prefill, shape.prefilled
        ));
    }
    words.join(", ")
}

fn report(measured: &Measured, fit: &Fit) {
    print::line(format_args!(
        "{:<50} {:>10} {:>10} {:>7}",
        "step", "measured", "fitted", "error"
    ));
    for measured in &measured.steps {
        let explained = fit.timing.step(&measured.load).as_secs_f64();
        print::line(format_args!(
            "{:<50} {:>7.2} ms {:>7.2} ms {:>5.1} %",
            in_words(&measured.shape),
            measured.seconds * 1e3,
            explained * 1e3,
            (explained / measured.seconds - 1.0) * 100.0
        ));
    }
    let Fit {
        timing,
        median_error,
        worst_error,
    } = fit;
    let and_or = match timing.overlaps {
        true => "or, where that is more,",
        false => "and",
    };
    print::line(format_args!(
        "\na step {:.2} ms {and_or} {:.3} ms per token; {:.3} ms per sequence, {:.0} ns per token of context, {:.0} ns per pair",
        timing.base * 1e3,
        timing.per_token * 1e3,
        timing.per_sequence * 1e3,
        timing.per_context_token * 1e9,
        timing.attention_per_pair * 1e9
    ));
    print::line(format_args!(
        "the fit is within {:.1} % for half of the steps, within {:.1} % for all",
        median_error * 100.0,
        worst_error * 100.0
    ));
    let workers = measured.shares.len();
    for (computing, part) in (1..workers).zip(&measured.shares) {
        print::line(format_args!(
            "while {computing} of {workers} workers compute, a step takes {:.0} % of that",
            part * 100.0
        ));
    }
}
