//! A model on this machine: executors of ours are given the batch of each step.

use std::sync::atomic::AtomicUsize;

use anyhow::bail;
use contract::random::mix;
use contract::{ModelName, Processors};
use engine::calibration::{self, ExecutorSteps, Facts, Fit, Origins, Shape};
use engine::{Executor, Limits};
use futures_util::future::try_join_all;

use super::{Seconds, Workers, measure, report};
use crate::args::{CalibrateArgs, EngineChoice, SpeculationChoice};
use crate::backend::{Cuda, Llama};
use crate::plan::REAL_BLOCK;
use crate::print;

/// The text of the profile.
pub(super) fn profile(args: &CalibrateArgs) -> anyhow::Result<String> {
    if args.engine.speculation != SpeculationChoice::None {
        bail!("speculation changes what a step does: calibrate without --speculation");
    }
    let model = args.model.resolve()?;
    match args.engine.engine {
        EngineChoice::Cuda => {
            let (cuda, _) = Cuda::read(&args.engine.cuda()?, &model, args.workers)?;
            let executors = executors(args, || cuda.executor())?;
            let subject = Subject {
                model: cuda.model(),
                device: cuda.device(),
                about: format!("a GPU ({})", cuda.device()),
                each: "on one GPU".to_owned(),
                // What others take of the processors is not taken from the GPU.
                processors: Processors::default,
                // It computes thousands of tokens in a fraction of a second, and a step after a short
                // context does not show what reading a long one costs.
                shapes: |limits| calibration::served_shapes(limits, 1),
            };
            calibrated(args, executors, &subject)
        }
        // There is nothing to measure of a simulation.
        EngineChoice::Llama | EngineChoice::Simulated => {
            let (llama, _) = Llama::read(&args.engine.llama()?, &model, REAL_BLOCK, args.workers)?;
            let executors = executors(args, || llama.executor())?;
            let options = &llama.options().model;
            let subject = Subject {
                model: llama.model(),
                device: format!("CPU ({})", options.isa.as_str()),
                about: "a processor".to_owned(),
                each: format!("with {} thread(s) each", options.threads),
                processors,
                shapes: calibration::shapes,
            };
            calibrated(args, executors, &subject)
        }
    }
}

/// What is measured, in words.
struct Subject<'a> {
    model: &'a ModelName,
    device: String,
    /// Where it computes.
    about: String,
    /// What each worker has.
    each: String,
    /// What of the machine others use, whose share is taken off the times.
    processors: fn() -> Processors,
    /// The kinds of steps that are timed.
    shapes: fn(&Limits) -> Vec<Shape>,
}

fn executors<E>(
    args: &CalibrateArgs,
    executor: impl Fn() -> anyhow::Result<E>,
) -> anyhow::Result<Vec<E>> {
    (0..args.workers).map(|_| executor()).collect()
}

fn calibrated<E: Executor>(
    args: &CalibrateArgs,
    mut executors: Vec<E>,
    subject: &Subject<'_>,
) -> anyhow::Result<String> {
    let limits = executors[0].limits();
    let steps = executors
        .iter_mut()
        .map(|executor| ExecutorSteps::new(executor, subject.processors));
    let mut workers = Executors(steps.collect());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let shapes = (subject.shapes)(&limits);
    // The first round makes room and is not counted.
    runtime.block_on(workers.round(workers.count(), &shapes, 0))?;
    let before = (subject.processors)();
    let rounds = args.repeats as usize;
    let measured = runtime.block_on(measure(&mut workers, shapes, &limits, rounds))?;
    let taken = (subject.processors)().share_taken_since(before);
    let fit = calibration::fit(&measured.steps);
    report(&measured, &fit);
    if taken > 0.0 {
        print::line(format_args!(
            "other processes used {:.1} % of the CPU time; these times exclude it",
            taken * 100.0
        ));
    }
    drop(workers);
    let about = format!(
        "{} on {}, {} worker(s) {}",
        subject.model, subject.about, args.workers, subject.each
    );
    Ok(calibration::profile(
        &Facts {
            about: &about,
            model: subject.model.as_str(),
            workers: args.workers,
            device: &subject.device,
            method: &method(&subject.each, args, &fit, taken),
            limits: &limits,
            shares: &measured.shares,
            origins: Origins::OWN,
        },
        &fit,
    ))
}

struct Executors<'a, E>(Vec<ExecutorSteps<'a, E, fn() -> Processors>>);

impl<E: Executor> Workers for Executors<'_, E> {
    fn count(&self) -> usize {
        self.0.len()
    }

    async fn round(
        &mut self,
        at_once: usize,
        shapes: &[Shape],
        round: usize,
    ) -> anyhow::Result<Vec<Seconds>> {
        let company = AtomicUsize::new(at_once);
        let workers = self.0.iter_mut().take(at_once).zip(0..);
        let sessions = workers.map(|(worker, number)| {
            let seed = mix(round as u64, number, 0);
            calibration::measure(worker, shapes, seed, &company)
        });
        Ok(try_join_all(sessions).await?)
    }
}

/// Where the system does not report what others take, nothing is assumed to be taken.
fn processors() -> Processors {
    let stat = std::fs::read_to_string(Processors::FILE).ok();
    stat.and_then(|stat| Processors::parse(&stat))
        .unwrap_or_default()
}

/// How the times were measured.
fn method(each: &str, args: &CalibrateArgs, fit: &Fit, taken: f64) -> String {
    let others = match taken > 0.0 {
        true => format!(
            ", without the {:.1} % of the processors' time that others had",
            taken * 100.0
        ),
        false => String::new(),
    };
    format!(
        "homing calibrate: {} worker(s) at once {each}{others}; the constants explain half of the steps within {:.1} %, all within {:.1} %",
        args.workers,
        fit.median_error * 100.0,
        fit.worst_error * 100.0
    )
}
