//! `homing calibrate`: a profile for the simulator, measured on this machine.

use anyhow::{Context as _, bail, ensure};
use engine::calibration::{self, Facts, Fit, Measurement, Shape};
use engine::sim::Profile;
use engine::{Executor as _, Limits};
use llama::LlamaExecutor;

use crate::args::{CalibrateArgs, SpeculationChoice};
use crate::backend::{Asked, Llama};
use crate::print;

pub(crate) fn run(args: &CalibrateArgs) -> anyhow::Result<()> {
    if args.llama.speculation != SpeculationChoice::None {
        bail!("guesses change what a step does: calibrate without --speculation");
    }
    // Before minutes of measuring, not after.
    let folder = args
        .output
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        ensure!(
            folder.is_dir(),
            "--output: there is no folder {}",
            folder.display()
        );
    }
    let (llama, _) = Llama::read(Asked {
        profile: "",
        seed: 0,
        block_size: None,
        model: &args.model,
        llama: &args.llama,
        workers: Some(args.workers),
    })?;
    let mut executors = (0..args.workers)
        .map(|_| llama.executor())
        .collect::<anyhow::Result<Vec<_>>>()?;
    let limits = executors[0].limits();
    let measurements = measure(&mut executors, &limits, args.repeats as usize)?;
    let fit = calibration::fit(&measurements);
    report(&measurements, &fit);
    let text = profile(&llama, args, &limits, &fit);
    // What was written can be read, or there is a fault here.
    Profile::parse("calibrated", &text)?;
    std::fs::write(&args.output, text).with_context(|| args.output.display().to_string())?;
    print::line(format_args!("\nwrote {}", args.output.display()));
    Ok(())
}

/// All kinds of steps, on all workers at once.
fn measure(
    executors: &mut [LlamaExecutor],
    limits: &Limits,
    rounds: usize,
) -> anyhow::Result<Vec<Measurement>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let shapes = calibration::shapes(limits);
    let kinds = shapes.len();
    let sessions = executors.iter_mut().zip(0..).map(|(executor, worker)| {
        calibration::measure(executor, &shapes, (rounds, worker), move |round| {
            if worker == 0 && round > 0 {
                print::note(format_args!(
                    "round {round} of {rounds}: {kinds} kinds of steps"
                ));
            }
        })
    });
    let mut sessions = runtime.block_on(futures_util::future::try_join_all(sessions))?;
    let measured = shapes.into_iter().enumerate().map(|(index, shape)| {
        let seconds = sessions
            .iter_mut()
            .flat_map(|session| std::mem::take(&mut session[index].1))
            .collect();
        Measurement {
            shape,
            load: sessions[0][index].0,
            seconds: calibration::median(seconds),
        }
    });
    Ok(measured.collect())
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

fn report(measurements: &[Measurement], fit: &Fit) {
    print::line(format_args!(
        "{:<50} {:>10} {:>10} {:>7}",
        "step", "measured", "explained", "off"
    ));
    for measured in measurements {
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
    print::line(format_args!(
        "\na step {:.2} ms, or {:.3} ms a token where that is more; {:.3} ms a sequence, {:.0} ns a token of context, {:.0} ns a pair",
        timing.base * 1e3,
        timing.per_token * 1e3,
        timing.per_sequence * 1e3,
        timing.per_context_token * 1e9,
        timing.attention_per_pair * 1e9
    ));
    print::line(format_args!(
        "half of the steps are explained within {:.1} %, all within {:.1} %",
        median_error * 100.0,
        worst_error * 100.0
    ));
}

fn profile(llama: &Llama, args: &CalibrateArgs, limits: &Limits, fit: &Fit) -> String {
    let options = &llama.options().model;
    let (threads, isa) = (options.threads, options.isa.as_str());
    let method = format!(
        "homing calibrate: {} worker(s) at once with {threads} thread(s) each; the constants explain half of the steps within {:.1} %, all within {:.1} %",
        args.workers,
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
        },
        fit,
    )
}
