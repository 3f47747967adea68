//! `chaos`: runs seeds, and names the first that fails.

#![expect(
    clippy::print_stdout,
    reason = "a command-line tool talks on standard output"
)]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::anyhow;
use chaos::plan::Plan;
use chaos::run::{SCRIPTS, expectations};
use chaos::system::Scene;
use chaos::{Outcome, run};
use clap::Parser;
use parking_lot::Mutex;

/// Faults in virtual time, drawn from seeds.
#[derive(Debug, Parser)]
#[command(name = "chaos")]
struct Arguments {
    /// How many seeds to run
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    /// Print what goes wrong in each run
    #[arg(long)]
    verbose: bool,
}

fn main() -> ExitCode {
    match search(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn search(arguments: &Arguments) -> anyhow::Result<()> {
    let scene = Scene::prepare()?;
    let expected = expectations(&scene).map_err(|failure| anyhow!("{failure}"))?;
    let expected = Arc::new(expected);
    let next = AtomicU64::new(arguments.first_seed);
    let end = arguments.first_seed + arguments.seeds;
    let total = Mutex::new(Outcome::default());
    let failed = Mutex::new(None);
    let work = || {
        while failed.lock().is_none() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            if arguments.verbose {
                println!("seed {seed}: {:#?}", Plan::draw(seed, SCRIPTS).faults);
            }
            match run(&scene, &expected, seed) {
                Ok(outcome) => {
                    let mut total = total.lock();
                    total.complete += outcome.complete;
                    total.errors += outcome.errors;
                    total.abandoned += outcome.abandoned;
                }
                Err(failure) => *failed.lock() = Some((seed, failure)),
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    if let Some((seed, failure)) = failed.into_inner() {
        return Err(anyhow!(
            "seed {seed} fails: {failure}\nagain: cargo xtask chaos --seeds 1 --first-seed {seed} --verbose"
        ));
    }
    let Outcome {
        complete,
        errors,
        abandoned,
    } = total.into_inner();
    println!(
        "{} seeds from {}: {complete} complete streams, {errors} explicit errors, {abandoned} \
         abandoned by their client or with their frontend; nothing found",
        arguments.seeds, arguments.first_seed
    );
    Ok(())
}
