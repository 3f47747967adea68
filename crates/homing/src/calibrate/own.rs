//! A model on this machine: executors of ours are given the batch of each step.

use std::sync::atomic::AtomicUsize;

use anyhow::bail;
use contract::Processors;
use contract::random::mix;
use engine::Executor as _;
use engine::calibration::{self, ExecutorSteps, Facts, Fit, Origins, Shape};
use futures_util::future::try_join_all;
use llama::LlamaExecutor;

use super::{Seconds, Workers, measure, report};
use crate::args::{CalibrateArgs, SpeculationChoice};
use crate::backend::Llama;
use crate::plan::LLAMA_BLOCK;
use crate::print;

/// The text of the profile.
pub(super) fn profile(args: &CalibrateArgs) -> anyhow::Result<String> {
    if args.llama.speculation != SpeculationChoice::None {
        bail!("speculation changes what a step does: calibrate without --speculation");
    }
    let (plan, model) = (args.llama.resolve()?, args.model.resolve()?);
    let (llama, _) = Llama::read(&plan, &model, LLAMA_BLOCK, args.workers)?;
    let mut executors = (0..args.workers)
        .map(|_| llama.executor())
        .collect::<anyhow::Result<Vec<_>>>()?;
    let limits = executors[0].limits();
    let steps = executors
        .iter_mut()
        .map(|executor| ExecutorSteps::new(executor, processors as fn() -> Processors));
    let mut workers = Executors(steps.collect());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let shapes = calibration::shapes(&limits);
    // The first round makes room and is not counted.
    runtime.block_on(workers.round(workers.count(), &shapes, 0))?;
    let before = processors();
    let rounds = args.repeats as usize;
    let measured = runtime.block_on(measure(&mut workers, shapes, &limits, rounds))?;
    let taken = processors().share_taken_since(before);
    let fit = calibration::fit(&measured.steps);
    report(&measured, &fit);
    print::line(format_args!(
        "other processes used {:.1} % of the CPU time; these times exclude it",
        taken * 100.0
    ));
    drop(workers);
    let options = &llama.options().model;
    let about = format!(
        "{} on a processor, {} worker(s) with {} thread(s) each",
        llama.model(),
        args.workers,
        options.threads
    );
    Ok(calibration::profile(
        &Facts {
            about: &about,
            model: llama.model().as_str(),
            workers: args.workers,
            device: &format!("CPU ({})", options.isa.as_str()),
            method: &method(&llama, args, &fit, taken),
            limits: &limits,
            shares: &measured.shares,
            origins: Origins::OWN,
        },
        &fit,
    ))
}

struct Executors<'a>(Vec<ExecutorSteps<'a, LlamaExecutor, fn() -> Processors>>);

impl Workers for Executors<'_> {
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
fn method(llama: &Llama, args: &CalibrateArgs, fit: &Fit, taken: f64) -> String {
    format!(
        "homing calibrate: {} worker(s) at once with {} thread(s) each, without the {:.1} % of the processors' time that others had; the constants explain half of the steps within {:.1} %, all within {:.1} %",
        args.workers,
        llama.options().model.threads,
        taken * 100.0,
        fit.median_error * 100.0,
        fit.worst_error * 100.0
    )
}
