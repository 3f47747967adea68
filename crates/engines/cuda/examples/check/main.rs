//! Compares a GPU with the twin: `check [--libraries DIR]... [--only TEXT] [--twin]`.
//!
//! Each case has fresh random inputs and poisoned outputs, and prints a line of JSON: how far the
//! results are from the twin's, by the length of the difference over that of the twin's, and how far
//! they may be; of draws, how many tokens differ, and how many of those by more than rounding. With `--twin` the twin is compared with itself, which tries the cases without a GPU.
//!
//! Whole models: `--goldens DIR` compares with logits of transformers, and
//! `--model PATH --prompts FILE [--corpus FILE]` with the engine that computes on the CPU: greedy texts
//! after the prompts of a golden file, and perplexity of a list of tokens.
//!
//! The exit status is 1 if something failed, 2 if there is no GPU.

mod cases;
mod data;
mod model;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use cuda::ops::Ops;
use cuda::{DeviceOptions, HostOps};
use serde_json::{Value, json};

/// What the twin's memory may hold.
const HOST_BYTES: usize = 8 << 30;

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(refusal) => return refuse(&refusal),
    };
    if arguments.twin {
        let mut ops = HostOps::new(HOST_BYTES);
        let checked = check(&mut ops, &arguments.only);
        return ExitCode::from(u8::from(
            !(checked && models(|| Ok(HostOps::new(HOST_BYTES)), &arguments)),
        ));
    }
    let options = DeviceOptions {
        gpu: 0,
        libraries: arguments.libraries.clone(),
    };
    let mut device = match cuda::open(&options) {
        Ok(device) => device,
        Err(refusal) => return refuse(&refusal.to_string()),
    };
    say(&json!({
        "device": device.name(),
        "cuda": device.driver_version(),
        "bytes": device.total_bytes(),
    }));
    let checked = check(&mut device, &arguments.only);
    drop(device);
    let checked = models(|| Ok(cuda::open(&options)?), &arguments) && checked;
    ExitCode::from(u8::from(!checked))
}

fn refuse(why: &str) -> ExitCode {
    say(&json!({ "refused": why }));
    ExitCode::from(2)
}

#[derive(Default)]
struct Arguments {
    libraries: Vec<PathBuf>,
    /// Only cases whose names have this.
    only: String,
    twin: bool,
    goldens: Option<PathBuf>,
    model: Option<PathBuf>,
    prompts: Option<PathBuf>,
    corpus: Option<PathBuf>,
}

impl Arguments {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut read = Self::default();
        while let Some(word) = words.next() {
            let mut path = || words.next().map(PathBuf::from);
            match word.as_str() {
                "--twin" => read.twin = true,
                "--libraries" => read.libraries.extend(path()),
                "--goldens" => read.goldens = path(),
                "--model" => read.model = path(),
                "--prompts" => read.prompts = path(),
                "--corpus" => read.corpus = path(),
                "--only" => read.only = words.next().unwrap_or_default(),
                other => return Err(format!("unknown argument `{other}`")),
            }
        }
        Ok(read)
    }
}

/// Whole models, if any were named. Whether all that was checked is right.
fn models<O: Ops>(
    mut open: impl FnMut() -> Result<O, Box<dyn std::error::Error>>,
    arguments: &Arguments,
) -> bool {
    let mut right = true;
    let mut note = |what: &str, checked: Result<bool, Box<dyn std::error::Error>>| {
        right &= *checked.as_ref().unwrap_or(&false);
        if let Err(error) = checked {
            say(&json!({ what: "failed", "why": error.to_string() }));
        }
    };
    if let Some(folder) = &arguments.goldens {
        note("goldens", model::goldens(&mut open, folder));
    }
    if let (Some(path), Some(prompts)) = (&arguments.model, &arguments.prompts) {
        let corpus = arguments.corpus.as_deref();
        note("texts", model::texts(&mut open, path, prompts, corpus));
    }
    right
}

/// All cases whose names have a text, each on its own: one that fails keeps no other from running.
/// Whether all are right.
fn check<O: Ops>(ops: &mut O, only: &str) -> bool {
    let mut twin = HostOps::new(HOST_BYTES);
    let (mut checked, mut failed) = (0, 0);
    for case in cases::all() {
        if !case.to_string().contains(only) {
            continue;
        }
        let verdict = match (case.run(ops), case.run(&mut twin)) {
            (Ok(results), Ok(expected)) => case.compare(&results, &expected),
            (Err(error), _) | (_, Err(error)) => {
                json!({ "ok": false, "failed": error.to_string() })
            }
        };
        checked += 1;
        failed += usize::from(verdict["ok"] != json!(true));
        say(&json!({ "case": case.to_string(), "verdict": verdict }));
    }
    say(&json!({ "checked": checked, "failed": failed }));
    failed == 0
}

/// A line, at once: what was found must be seen even if the next case takes the process with it.
fn say(line: &Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
