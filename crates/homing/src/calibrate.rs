//! `homing calibrate`: a profile for the simulator, measured on this machine.

use std::sync::atomic::AtomicUsize;

use anyhow::{Context as _, bail, ensure};
use contract::Processors;
use contract::random::mix;
use engine::calibration::{self, Facts, Fit, Measurement, Shape};
use engine::sim::Profile;
use engine::{Executor as _, Limits};
use llama::LlamaExecutor;

use crate::args::{CalibrateArgs, SpeculationChoice};
use crate::backend::Llama;
use crate::plan::LLAMA_BLOCK;
use crate::print;

pub(crate) fn run(args: &CalibrateArgs) -> anyhow::Result<()> {
    if args.llama.speculation != SpeculationChoice::None {
        bail!("speculation changes what a step does: calibrate without --speculation");
    }
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
    let (plan, model) = (args.llama.resolve()?, args.model.resolve()?);
    let (llama, _) = Llama::read(&plan, &model, LLAMA_BLOCK, args.workers)?;
    let mut executors = (0..args.workers)
        .map(|_| llama.executor())
        .collect::<anyhow::Result<Vec<_>>>()?;
    let limits = executors[0].limits();
    let measured = measure(&mut executors, &limits, args.repeats as usize)?;
    let fit = calibration::fit(&measured.steps);
    report(&measured, &fit);
    let text = profile(&llama, args, &limits, &measured, &fit);
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
    /// What others had of the machine's processors meanwhile. Times are without it.
    taken: f64,
}

/// Seconds of steps of one shape, over all rounds and workers.
type Seconds = Vec<f64>;

/// All kinds of steps on one worker, on two and so on, in every round: a machine whose own
/// speed changes in the meantime changes all of them.
fn measure(
    executors: &mut [LlamaExecutor],
    limits: &Limits,
    rounds: usize,
) -> anyhow::Result<Measured> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let shapes = calibration::shapes(limits);
    let workers = executors.len();
    let mut seconds: Vec<Vec<Seconds>> = vec![vec![Vec::new(); shapes.len()]; workers];
    // The first round makes room and is not counted.
    measure_at_once(&runtime, executors, &shapes, 0)?;
    let before = processors();
    for round in 1..=rounds {
        print::note(format_args!(
            "round {round} of {rounds}: {} kinds of steps",
            shapes.len()
        ));
        for (at_once, seconds) in (1..).zip(&mut seconds) {
            for session in measure_at_once(&runtime, &mut executors[..at_once], &shapes, round)? {
                let pairs = seconds.iter_mut().zip(session);
                pairs.for_each(|(seconds, one)| seconds.push(one));
            }
        }
    }
    let taken = processors().share_taken_since(before);
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
        shares: match workers {
            1 => Vec::new(),
            _ => medians.iter().map(share).collect(),
        },
        taken,
    })
}

/// A round on all of these workers at once: for each, seconds by shape.
fn measure_at_once(
    runtime: &tokio::runtime::Runtime,
    executors: &mut [LlamaExecutor],
    shapes: &[Shape],
    round: usize,
) -> anyhow::Result<Vec<Seconds>> {
    let company = AtomicUsize::new(executors.len());
    let sessions = executors.iter_mut().zip(0..).map(|(executor, worker)| {
        let seed = mix(round as u64, worker, 0);
        calibration::measure(executor, shapes, seed, &company, &processors)
    });
    let sessions = runtime.block_on(futures_util::future::try_join_all(sessions));
    Ok(sessions?)
}

/// Where the system does not report what others take, nothing is assumed to be taken.
fn processors() -> Processors {
    let stat = std::fs::read_to_string(Processors::FILE).ok();
    stat.and_then(|stat| Processors::parse(&stat))
        .unwrap_or_default()
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
    print::line(format_args!(
        "other processes used {:.1} % of the CPU time; these times exclude it",
        measured.taken * 100.0
    ));
    let workers = measured.shares.len();
    for (computing, part) in (1..workers).zip(&measured.shares) {
        print::line(format_args!(
            "while {computing} of {workers} workers compute, a step takes {:.0} % of that",
            part * 100.0
        ));
    }
}

fn profile(
    llama: &Llama,
    args: &CalibrateArgs,
    limits: &Limits,
    measured: &Measured,
    fit: &Fit,
) -> String {
    let options = &llama.options().model;
    let (threads, isa) = (options.threads, options.isa.as_str());
    let method = format!(
        "homing calibrate: {} worker(s) at once with {threads} thread(s) each, without the {:.1} % of the processors' time that others had; the constants explain half of the steps within {:.1} %, all within {:.1} %",
        args.workers,
        measured.taken * 100.0,
        fit.median_error * 100.0,
        fit.worst_error * 100.0
    );
    let about = format!(
        "{} on a processor, {} worker(s) with {threads} thread(s) each",
        llama.model(),
        args.workers
    );
    calibration::profile(
        &Facts {
            about: &about,
            model: llama.model().as_str(),
            workers: args.workers,
            device: &format!("CPU ({isa})"),
            method: &method,
            limits,
            shares: &measured.shares,
        },
        fit,
    )
}
