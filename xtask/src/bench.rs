//! `cargo xtask bench`: benchmarks that print figures. None of them asserts a time.

mod aiperf;
mod client;
mod collector;
mod dynamo;
mod epp;
mod figures;
mod frontend;
mod gpu;
mod hostile;
mod llama;
mod loadgen;
mod mock;
mod network;
mod overload;
mod peers;
mod prediction;
mod real_tokenizer;
mod router;
mod server;

use std::ffi::OsString;
use std::process::Command;

use anyhow::ensure;
use clap::Subcommand;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Bench {
    /// What the frontend costs: CPU per request and token, added latency, memory
    ///
    /// Starts the shipped build of `homing demo` with workers that take no time and drives
    /// it over loopback from this process, so every figure is the whole path: HTTP, JSON,
    /// template, tokens, hashes, routing, scheduling, detokenising, events.
    Frontend(frontend::Arguments),
    /// Whether aiperf measures what our load generator does, on the same conversations
    ///
    /// Uses the shipped build of `homing` and aiperf from PyPI, and prints both sides.
    Aiperf(aiperf::Arguments),
    /// How often the intervals of a sweep hold the truth, by sweeps in virtual time
    ///
    /// Passes everything on to the release build of an example of the `lab` crate:
    /// `cargo xtask bench coverage --sweeps 200 --repeats 6`.
    Coverage {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Our frontend beside Dynamo's own, over genuine Dynamo workers
    ///
    /// Uses the shipped build of `homing` and Dynamo from PyPI, by turns.
    Dynamo(dynamo::Arguments),
    /// What `homing epp` costs: CPU per request and added latency, alone and behind a genuine Envoy
    ///
    /// Uses the shipped build of `homing` and Envoy from PyPI, before servers that answer at once.
    /// Twelve minutes. Wants a machine that is otherwise idle.
    Epp(epp::Arguments),
    /// Genuine vLLM servers on this machine's cards behind our frontend: a live sweep
    ///
    /// Starts the servers, `homing frontend` before them and `homing sweep` against it, and ends them
    /// afterwards. With --homing it needs neither cargo nor a checkout, so this program can be copied
    /// to a machine with cards.
    Gpu(Box<gpu::Arguments>),
    /// What clients that misbehave cost conversations beside them
    ///
    /// Runs 180 conversations three times on simulated workers in real time: alone, beside twenty
    /// guests that read what they ask for, and beside twenty that ask for the same and do not read,
    /// read slowly or hang up. Half an hour.
    Hostile(hostile::Arguments),
    /// What the load generator costs, and how far its figures are from the truth
    ///
    /// Runs the shipped build of `homing loadgen` against a server of fixed latency that notes
    /// what it really did, with 180 streams and with 2,000. Wants a machine that is otherwise
    /// idle.
    Loadgen {
        /// Seconds per measurement
        #[arg(long, default_value_t = 30)]
        seconds: u64,
    },
    /// What workers in processes of their own cost beside workers in the frontend's
    ///
    /// Uses the shipped build of `homing` with workers that take no time, by turns.
    Network {
        /// Seconds per measurement
        #[arg(long, default_value_t = 5)]
        seconds: u64,
    },
    /// Whether goodput holds when five times more requests arrive than can be served
    ///
    /// Uses the shipped build of `homing` with simulated workers in real time.
    Overload {
        /// Seconds per measurement
        #[arg(long, default_value_t = 30)]
        seconds: u64,
    },
    /// Two frontends over the same engines of others, sharing them and not, beside one frontend
    ///
    /// Uses the shipped build of `homing` with simulated servers in real time, each of which has an API
    /// and a queue of its own.
    Peers(peers::Arguments),
    /// Our engine beside llama.cpp and transformers, on the same model file
    Llama(llama::Arguments),
    /// Round robin beside kv on a real model, and how well virtual runs predict both
    ///
    /// Calibrates, serves SmolLM2 on three workers of this machine, drives conversations, and
    /// lets the simulator predict them: a round takes about twenty minutes. Wants a machine that is
    /// otherwise idle.
    Prediction(prediction::Arguments),
    /// The server of the benchmark `loadgen`
    #[command(hide = true)]
    MockServer,
    /// Routing rules of other systems beside ours, in virtual time
    ///
    /// Passes everything on to the release build of the `rivals` program:
    /// `cargo xtask bench rivals --workload burst --levels 120 --output out`.
    Rivals {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// What a pick costs, and the prefix index beside that of `dynamo-kv-router`
    ///
    /// Prints goals and measurements side by side; counts instructions where valgrind is
    /// installed. The comparison builds the published crate, which takes minutes once.
    Router {
        /// Fewer samples
        #[arg(long)]
        quick: bool,
        /// Leave the comparison out
        #[arg(long)]
        no_dynamo: bool,
    },
}

pub(crate) fn run(bench: &Bench) -> anyhow::Result<()> {
    match bench {
        Bench::Frontend(arguments) if cfg!(debug_assertions) => {
            again_in_release("frontend", arguments.words())
        }
        Bench::Frontend(arguments) => frontend::run(arguments),
        Bench::Network { seconds } if cfg!(debug_assertions) => {
            again_in_release("network", seconds_only(*seconds))
        }
        Bench::Network { seconds } => network::run(*seconds),
        Bench::Aiperf(arguments) => {
            build_homing()?;
            aiperf::run(arguments)
        }
        Bench::Coverage { arguments } => in_virtual_time("lab", Some("coverage"), arguments),
        Bench::Dynamo(arguments) => {
            build_homing()?;
            dynamo::run(arguments)
        }
        Bench::Epp(arguments) if cfg!(debug_assertions) => {
            if arguments.measures_ours() {
                build_homing()?;
            }
            in_release("epp", arguments.words())
        }
        Bench::Epp(arguments) => epp::run(arguments),
        Bench::Gpu(arguments) => gpu::run(arguments),
        Bench::Hostile(arguments) => {
            build_homing()?;
            hostile::run(arguments)
        }
        Bench::Llama(arguments) => {
            build_homing()?;
            llama::run(arguments)
        }
        Bench::Loadgen { seconds } if cfg!(debug_assertions) => {
            again_in_release("loadgen", seconds_only(*seconds))
        }
        Bench::Loadgen { seconds } => loadgen::run(*seconds),
        Bench::Overload { seconds } => {
            build_homing()?;
            overload::run(*seconds)
        }
        Bench::Peers(arguments) => {
            build_homing()?;
            peers::run(arguments)
        }
        Bench::Prediction(arguments) => {
            build_homing()?;
            prediction::run(arguments)
        }
        Bench::MockServer => mock::run(),
        Bench::Rivals { arguments } => in_virtual_time("rivals", None, arguments),
        Bench::Router { quick, no_dynamo } => router::run(*quick, !no_dynamo),
    }
}

/// Runs a package's program, or an example of it.
fn in_virtual_time(
    package: &str,
    example: Option<&str>,
    arguments: &[String],
) -> anyhow::Result<()> {
    let example = example.into_iter().flat_map(|name| ["--example", name]);
    let status = Command::new("cargo")
        .args(["run", "--release", "--quiet", "--package", package])
        .args(example)
        .arg("--")
        .args(arguments)
        .status()?;
    ensure!(status.success(), "the experiment failed");
    Ok(())
}

/// The client shares the machine with the server, so it must not be slower than it has to.
fn again_in_release(bench: &str, arguments: Vec<OsString>) -> anyhow::Result<()> {
    build_homing()?;
    in_release(bench, arguments)
}

fn in_release(bench: &str, arguments: Vec<OsString>) -> anyhow::Result<()> {
    let status = Command::new("cargo")
        .args([
            "run",
            "--release",
            "--quiet",
            "--package",
            "xtask",
            "--",
            "bench",
            bench,
        ])
        .args(arguments)
        .status()?;
    ensure!(status.success(), "the benchmark failed");
    Ok(())
}

fn seconds_only(seconds: u64) -> Vec<OsString> {
    vec!["--seconds".into(), seconds.to_string().into()]
}

/// The program as it is shipped.
const HOMING: &str = "target/dist/homing";

fn build_homing() -> anyhow::Result<()> {
    let status = Command::new("cargo")
        .args([
            "build",
            "--profile",
            "dist",
            "--quiet",
            "--package",
            "homing",
        ])
        .status()?;
    ensure!(status.success(), "the build failed");
    Ok(())
}
