//! How fast steps of large models are, with random weights:
//! `speed [--libraries DIR]... [--only NAME]... [--scheduled] [--load DIR] [--twin]`.
//!
//! The shapes are those of Llama 3 with 70 and with 8 billion weights, in FP8 with keys and values in FP8.
//! A line of JSON for each measurement: the step that is recorded and replayed, its products alone, its
//! attention alone with the rate at which it reads, and what is left; then a prompt. Drawing tokens has lines
//! of its own, and the name `draw`. With `--scheduled` steps as a worker runs them, from the scheduler's plan
//! to the tokens in their streams. With `--load` only how long a folder's weights take. With `--twin` a tiny
//! shape on the host, which tries the program without a GPU.

mod draw;
mod indices;
mod scheduled;
mod shape;
mod step;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use cuda::ops::{Ops, OpsError};
use cuda::{DeviceOptions, HostOps};
use serde_json::{Value, json};
use tokio::time::Instant;

use self::scheduled::Plan;
use self::shape::Shape;
use self::step::{Model, Part};

/// Tokens that each sequence has, and those of a prompt: what others measured with.
const CONTEXT: usize = 4900;
const PROMPT: usize = 3504;
const BATCHES: [usize; 4] = [1, 16, 32, 64];

fn main() -> ExitCode {
    let mut options = DeviceOptions::default();
    let mut twin = false;
    let mut only = Vec::new();
    let (mut is_scheduled, mut load) = (false, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--twin" => twin = true,
            "--only" => only.extend(arguments.next()),
            "--scheduled" => is_scheduled = true,
            "--load" => load = arguments.next().map(PathBuf::from),
            "--libraries" => options
                .libraries
                .extend(arguments.next().map(PathBuf::from)),
            other => {
                say(&json!({ "refused": format!("unknown argument `{other}`") }));
                return ExitCode::from(2);
            }
        }
    }
    if twin && is_scheduled {
        let plan = Plan {
            batches: &[1, 3],
            context: 100,
            prompt: 70,
            most: 256,
        };
        let open = || Ok(HostOps::new(4 << 30));
        let measured = scheduled::measure(open, &shape::TINY, &plan, &mut say);
        return done(measured);
    }
    if twin {
        let mut ops = HostOps::new(1 << 30);
        measure(&mut ops, &shape::TINY, &[1, 3], (100, 70), 1);
        draws(&mut ops, shape::TINY.vocabulary, &[1, 3], 1);
        return ExitCode::SUCCESS;
    }
    let mut device = match cuda::open(&options) {
        Ok(device) => device,
        Err(refusal) => {
            say(&json!({ "refused": refusal.to_string() }));
            return ExitCode::from(2);
        }
    };
    say(&json!({ "device": device.name(), "cuda": device.driver_version() }));
    if let Some(folder) = load {
        return done(scheduled::load(&mut device, &folder).map(|line| say(&line)));
    }
    let is_asked = |what: &str| only.is_empty() || only.iter().any(|name| name == what);
    if is_scheduled {
        drop(device);
        return scheduled_steps(&options, is_asked);
    }
    if is_asked("draw") {
        draws(&mut device, shape::SMALL.vocabulary, &BATCHES, 100);
    }
    for shape in [&shape::LARGE, &shape::SMALL] {
        if is_asked(shape.name) {
            measure(&mut device, shape, &BATCHES, (CONTEXT, PROMPT), 10);
            device.forget_recorded();
        }
    }
    ExitCode::SUCCESS
}

/// Each opens the device for itself: its memory is divided as a worker divides it.
fn scheduled_steps(options: &DeviceOptions, is_asked: impl Fn(&str) -> bool) -> ExitCode {
    let plan = Plan {
        batches: &BATCHES,
        context: CONTEXT,
        prompt: PROMPT,
        most: 8192,
    };
    let shapes = [&shape::LARGE, &shape::SMALL];
    let mut shapes = shapes.iter().filter(|shape| is_asked(shape.name));
    done(shapes.try_for_each(|shape| {
        scheduled::measure(|| Ok(cuda::open(options)?), shape, &plan, &mut say)
    }))
}

fn done(measured: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&json!({ "failed": error.to_string() }));
            ExitCode::FAILURE
        }
    }
}

/// Everything of a shape. What fails is said, and the rest goes on.
fn measure<O: Ops>(
    ops: &mut O,
    shape: &'static Shape,
    batches: &[usize],
    (context, prompt): (usize, usize),
    repeats: u32,
) {
    let begun = Instant::now();
    let most = batches.iter().copied().max().unwrap_or(1);
    let model = match Model::new(ops, shape, most, context.max(prompt), prompt) {
        Ok(model) => model,
        Err(error) => return say(&json!({ "shape": shape.name, "failed": error.to_string() })),
    };
    let made = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    if let Err(error) = model.prepare(ops, most.max(prompt), most) {
        return say(&json!({ "shape": shape.name, "failed": error.to_string() }));
    }
    say(&json!({
        "shape": shape.name,
        "weight_bytes": shape.weight_bytes(),
        "made_in_s": made,
        "products_searched_in_s": begun.elapsed().as_secs_f64(),
    }));
    for batch in batches {
        let line = decode(ops, &model, *batch, context, repeats);
        say(&line.unwrap_or_else(|error| json!({ "batch": batch, "failed": error.to_string() })));
    }
    let line = prefill(ops, &model, prompt);
    say(&line.unwrap_or_else(|error| json!({ "prompt": prompt, "failed": error.to_string() })));
}

/// The lines of drawing.
fn draws<O: Ops>(ops: &mut O, vocabulary: usize, batches: &[usize], repeats: u32) {
    for batch in batches {
        match draw::measure(ops, vocabulary, *batch, repeats) {
            Ok(lines) => lines.iter().for_each(say),
            Err(error) => say(&json!({ "draw": "failed", "why": error.to_string() })),
        }
    }
}

fn prefill<O: Ops>(ops: &mut O, model: &Model<O>, prompt: usize) -> Result<Value, OpsError> {
    model.place_prompt(ops, prompt)?;
    let mut of = |part| -> Result<f64, OpsError> {
        model.prefill(ops, prompt, part)?;
        time(ops, model, 2, |ops| model.prefill(ops, prompt, part))
    };
    let (step, products) = (of(Part::Step)?, of(Part::Products)?);
    let (attention, glue) = (of(Part::Attention)?, of(Part::Glue)?);
    Ok(json!({
        "shape": model.shape.name,
        "prompt": prompt,
        "step_ms": step,
        "products_ms": products,
        "attention_ms": attention,
        "attention_tflop_s": model.shape.attention_operations(prompt) / attention / 1e9,
        "glue_ms": glue,
    }))
}

fn decode<O: Ops>(
    ops: &mut O,
    model: &Model<O>,
    batch: usize,
    context: usize,
    repeats: u32,
) -> Result<Value, OpsError> {
    model.place(ops, batch, context)?;
    let mut of = |part| -> Result<f64, OpsError> {
        // Run as it is, recorded, and warm.
        for _ in 0..3 {
            model.decode(ops, batch, context, part)?;
        }
        time(ops, model, repeats, |ops| {
            model.decode(ops, batch, context, part)
        })
    };
    let (step, products, attention) = (of(Part::Step)?, of(Part::Products)?, of(Part::Attention)?);
    let (glue, head) = (of(Part::Glue)?, of(Part::Head)?);
    let cached = model.shape.cached_bytes(context) * batch;
    Ok(json!({
        "shape": model.shape.name,
        "batch": batch,
        "context": context,
        "step_ms": step,
        "products_ms": products,
        "head_ms": head,
        "attention_ms": attention,
        "attention_tb_s": cached as f64 / attention / 1e9,
        "glue_ms": glue,
        "likeliest": model.tokens(ops, batch)?,
    }))
}

/// Milliseconds for each of several runs.
fn time<O: Ops>(
    ops: &mut O,
    model: &Model<O>,
    repeats: u32,
    mut run: impl FnMut(&mut O) -> Result<(), OpsError>,
) -> Result<f64, OpsError> {
    model.tokens(ops, 1)?;
    let begun = Instant::now();
    for _ in 0..repeats {
        run(ops)?;
    }
    model.tokens(ops, 1)?;
    Ok(begun.elapsed().as_secs_f64() * 1e3 / f64::from(repeats))
}

/// A line, at once: what was measured must be seen even if the rest fails.
fn say(line: &Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
