//! Everything that CI runs, in order, on any machine: `cargo xtask test`.
//!
//! Steps stop at the first failure, because later ones stand on earlier ones. Nothing is
//! skipped in silence: a step that cannot run fails or says so, and the closing line names
//! every step with its time or its fate. That line is one line, so that the summaries which
//! the test runners print themselves stay in sight at the end of a log.

mod dashboards;
mod demo;
mod deploy;
mod dynamo;
mod engines;
mod exposition;
mod hosts;
mod http;
mod kernels;
mod model;
mod npm;
mod packages;
mod process;
mod python;
mod ui;
mod vocabularies;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use tokio::time::Instant;

use crate::{fuzz, repository, tidy};
use packages::Tool;

pub(crate) use dynamo::genuine_dynamo;
pub(crate) use kernels::compile as compile_kernels;
pub(crate) use python::genuine_envoy;
pub(crate) use ui::screenshots;

/// The body that a server on this machine answers with.
pub(crate) fn fetch(port: u16, path: &str) -> anyhow::Result<String> {
    let answer = http::get(&format!("127.0.0.1:{port}"), path)?;
    ensure!(answer.status == 200, "status {}", answer.status);
    Ok(answer.body)
}

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run these steps only, in their usual order.
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    only: Vec<Step>,
    /// List the steps and run none.
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    Format,
    Tidy,
    Clippy,
    Build,
    Tests,
    Hosts,
    Chaos,
    Fuzz,
    Kernels,
    Ui,
    Metrics,
    Dashboards,
    Browser,
    Clients,
    Epp,
    Vocabularies,
    Model,
    Dynamo,
    Engines,
    Deploy,
    Licences,
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Passed(Duration),
    Failed(Duration),
    /// The step itself said why, in its own words.
    NotPossible,
    NotReached,
}

/// What a step that did not fail came to.
enum Verdict {
    Passed,
    NotPossible,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let steps: Vec<Step> = Step::value_variants()
        .iter()
        .copied()
        .filter(|step| arguments.only.is_empty() || arguments.only.contains(step))
        .collect();
    if arguments.list {
        for step in steps {
            println!("{:<12} {}", step.name(), step.about());
        }
        return Ok(());
    }
    // First, so that a missing package is not discovered after twenty minutes.
    for tool in steps.iter().flat_map(|step| step.tools()) {
        packages::ensure(*tool)?;
    }
    let (outcomes, failure) = run_in_order(&steps, Step::run);
    println!("\n{}", summary(&outcomes));
    failure.map_or(Ok(()), Err)
}

/// Runs steps until one fails. Generic over what running means, so that the order and the
/// fates are tested without running anything.
fn run_in_order(
    steps: &[Step],
    run: impl Fn(Step) -> anyhow::Result<Verdict>,
) -> (Vec<(Step, Outcome)>, Option<anyhow::Error>) {
    let mut failure = None;
    let mut outcomes = Vec::new();
    for (position, &step) in steps.iter().enumerate() {
        if failure.is_some() {
            outcomes.push((step, Outcome::NotReached));
            continue;
        }
        println!(
            "\n==> [{}/{}] {}: {}",
            position + 1,
            steps.len(),
            step.name(),
            step.about()
        );
        let start = Instant::now();
        let outcome = match run(step) {
            Ok(Verdict::Passed) => Outcome::Passed(start.elapsed()),
            Ok(Verdict::NotPossible) => Outcome::NotPossible,
            Err(error) => {
                failure = Some(error.context(format!("step `{}` failed", step.name())));
                Outcome::Failed(start.elapsed())
            }
        };
        outcomes.push((step, outcome));
    }
    (outcomes, failure)
}

fn summary(outcomes: &[(Step, Outcome)]) -> String {
    let failed = outcomes
        .iter()
        .any(|(_, outcome)| matches!(outcome, Outcome::Failed(_)));
    let fates: Vec<String> = outcomes
        .iter()
        .map(|(step, outcome)| match outcome {
            Outcome::Passed(time) => format!("{} {:.1} s", step.name(), time.as_secs_f64()),
            Outcome::Failed(time) => {
                format!("{} FAILED after {:.1} s", step.name(), time.as_secs_f64())
            }
            Outcome::NotPossible => format!("{} not run", step.name()),
            Outcome::NotReached => format!("{} not reached", step.name()),
        })
        .collect();
    format!(
        "{}: {}",
        if failed { "failed" } else { "passed" },
        fates.join(", ")
    )
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Tidy => "tidy",
            Self::Clippy => "clippy",
            Self::Build => "build",
            Self::Tests => "tests",
            Self::Hosts => "hosts",
            Self::Chaos => "chaos",
            Self::Fuzz => "fuzz",
            Self::Kernels => "kernels",
            Self::Ui => "ui",
            Self::Metrics => "metrics",
            Self::Dashboards => "dashboards",
            Self::Browser => "browser",
            Self::Clients => "clients",
            Self::Epp => "epp",
            Self::Vocabularies => "vocabularies",
            Self::Model => "model",
            Self::Dynamo => "dynamo",
            Self::Engines => "engines",
            Self::Deploy => "deploy",
            Self::Licences => "licences",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Format => "rustfmt would change nothing",
            Self::Tidy => "the rules of the house",
            Self::Clippy => "no warning in any target, nor in what is shipped",
            Self::Build => "everything with its tests, in the dev profile",
            Self::Tests => "unit, property and whole-cluster tests",
            Self::Hosts => "frontend, workers and broker in network namespaces, cables pulled",
            Self::Chaos => "faults in virtual time, a few hundred seeds",
            Self::Fuzz => "fuzz targets compile, and their seeds pass",
            Self::Kernels => {
                "kernels for GPUs compile to the bytes that are committed, without spills"
            }
            Self::Ui => "types, lints and unit tests of the web console",
            Self::Metrics => "promtool reads a live demo's /metrics",
            Self::Dashboards => "dashboards and rules, every query against a live Prometheus",
            Self::Browser => "the web console in Chromium, before a live demo",
            Self::Clients => "third-party clients against a live server",
            Self::Epp => "a genuine Envoy whose endpoints our picker picks",
            Self::Vocabularies => "tokens of genuine vocabularies, fetched, against the library's",
            Self::Model => "SmolLM2, fetched, against transformers and through the whole system",
            Self::Dynamo => "genuine Dynamo workers behind our links",
            Self::Engines => "a genuine vLLM on the processor, forwarded to and with an adapter",
            Self::Deploy => "manifests, chart, image and Terraform, as far as a file can tell",
            Self::Licences => "licences, bans and sources of dependencies",
        }
    }

    fn tools(self) -> &'static [Tool] {
        match self {
            // The demo's own tests start a Prometheus beside it, those of discovery an etcd.
            Self::Tests => &[Tool::Prometheus, Tool::Etcd, Tool::Nats],
            Self::Hosts => &[Tool::Etcd, Tool::Nats, Tool::Iproute],
            Self::Metrics => &[Tool::Prometheus],
            Self::Dashboards => &[Tool::Prometheus, Tool::Node],
            Self::Clients => &[Tool::Python],
            Self::Epp => &[Tool::Python],
            Self::Kernels => &[Tool::Python],
            Self::Vocabularies => &[Tool::Node],
            Self::Model => &[Tool::Python],
            Self::Dynamo => &[Tool::Python, Tool::Etcd, Tool::Nats],
            Self::Engines => &[Tool::Python],
            Self::Deploy => &[Tool::Python, Tool::Node, Tool::Prometheus],
            Self::Ui => &[Tool::Node],
            Self::Browser => &[Tool::Node, Tool::Chromium, Tool::Prometheus],
            Self::Format
            | Self::Tidy
            | Self::Clippy
            | Self::Build
            | Self::Chaos
            | Self::Fuzz
            | Self::Licences => &[],
        }
    }

    fn run(self) -> anyhow::Result<Verdict> {
        match self {
            Self::Format => cargo("fmt --all --check")?,
            Self::Tidy => tidy::run()?,
            Self::Clippy => {
                cargo("clippy --workspace --all-targets --locked -- -D warnings")?;
                // As it is shipped: without what only tests switch on.
                cargo("clippy --workspace --locked -- -D warnings")?;
            }
            // With the tests, because another set of features would compile everything twice.
            Self::Build => cargo("build --workspace --bins --tests --locked")?,
            Self::Tests => tests()?,
            Self::Hosts => hosts::check()?,
            Self::Chaos => execute(Command::new(built("chaos")?).args(["--seeds", "300"]))?,
            Self::Fuzz => fuzz::seeds()?,
            Self::Kernels => kernels::check()?,
            Self::Ui => ui::check()?,
            Self::Metrics => exposition::check()?,
            Self::Dashboards => dashboards::check()?,
            Self::Browser => ui::browse()?,
            Self::Clients => python::test("venv", "tests/clients")?,
            Self::Epp => python::test(python::ENVOY.0, python::ENVOY.1)?,
            Self::Vocabularies => vocabularies::check()?,
            Self::Model => model::check()?,
            Self::Dynamo => dynamo::check()?,
            Self::Engines => engines::check()?,
            Self::Deploy => deploy::check()?,
            Self::Licences => return licences(),
        }
        Ok(Verdict::Passed)
    }
}

fn tests() -> anyhow::Result<()> {
    if answers("cargo", &["nextest", "--version"]) {
        return cargo("nextest run --workspace --locked");
    }
    println!("cargo-nextest not installed: running the same tests under cargo test");
    cargo("test --workspace --locked")
}

/// cargo-deny takes minutes to build, so it is used where it is and never installed.
fn licences() -> anyhow::Result<Verdict> {
    if !answers("cargo", &["deny", "--version"]) {
        println!("cargo-deny not installed: licence check not run");
        return Ok(Verdict::NotPossible);
    }
    cargo("deny check licenses bans sources")?;
    Ok(Verdict::Passed)
}

/// Runs cargo with these words, none of which contains a space.
fn cargo(words: &str) -> anyhow::Result<()> {
    execute(Command::new("cargo").args(words.split(' ')))
}

/// Runs a command to its end from the root of the repository, showing it first.
fn execute(command: &mut Command) -> anyhow::Result<()> {
    let (line, mut child) = start(command)?;
    let status = child.wait()?;
    ensure!(status.success(), "`{line}` ended with {status}");
    Ok(())
}

/// Like [`execute`], for what may hang: interrupted, so that it can clean up, and killed if
/// even that does not end it.
fn execute_within(command: &mut Command, patience: Duration) -> anyhow::Result<()> {
    const LAST_PATIENCE: Duration = Duration::from_secs(30);
    let (line, mut child) = start(command)?;
    let Some(status) = process::wait_within(&mut child, patience)? else {
        process::signal(&child, "INT")?;
        if process::wait_within(&mut child, LAST_PATIENCE)?.is_none() {
            child.kill()?;
            child.wait()?;
        }
        bail!("`{line}` did not end within {patience:?}");
    };
    ensure!(status.success(), "`{line}` ended with {status}");
    Ok(())
}

/// Starts a command, and says how it would be typed.
fn start(command: &mut Command) -> anyhow::Result<(String, Child)> {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect();
    let line = words.join(" ");
    println!("$ {line}");
    let child = command
        .current_dir(repository::root())
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("could not run `{line}`"))?;
    Ok((line, child))
}

/// Whether a program is there and can do what it is asked.
fn answers(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The program that people run.
fn homing() -> anyhow::Result<PathBuf> {
    built("homing")
}

/// A program that the step `build` left behind.
fn built(name: &str) -> anyhow::Result<PathBuf> {
    let program = repository::target_directory()?.join("debug").join(name);
    if !program.is_file() {
        bail!(
            "{} is missing: run the step `build` first",
            program.display()
        );
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_after_a_failure_are_not_reached() {
        let (outcomes, failure) = run_in_order(Step::value_variants(), |step| match step {
            Step::Format => Ok(Verdict::Passed),
            Step::Tidy => Ok(Verdict::NotPossible),
            Step::Clippy => bail!("a warning"),
            Step::Build
            | Step::Tests
            | Step::Hosts
            | Step::Kernels
            | Step::Ui
            | Step::Metrics
            | Step::Dashboards
            | Step::Browser
            | Step::Clients
            | Step::Epp
            | Step::Vocabularies
            | Step::Model
            | Step::Dynamo
            | Step::Engines
            | Step::Deploy
            | Step::Chaos
            | Step::Fuzz
            | Step::Licences => unreachable!("a failure stops the run"),
        });
        let failure = failure.expect("the failure is handed on");
        assert_eq!(format!("{failure:#}"), "step `clippy` failed: a warning");
        assert_eq!(outcomes.len(), Step::value_variants().len());
        assert!(matches!(outcomes[0].1, Outcome::Passed(_)));
        assert_eq!(outcomes[1].1, Outcome::NotPossible);
        assert!(matches!(outcomes[2].1, Outcome::Failed(_)));
        assert!(
            outcomes[3..]
                .iter()
                .all(|(_, outcome)| *outcome == Outcome::NotReached)
        );
    }

    #[test]
    fn what_hangs_is_stopped() {
        let error = execute_within(Command::new("sleep").arg("600"), Duration::ZERO);
        let error = error
            .expect_err("ten minutes are longer than none")
            .to_string();
        assert_eq!(error, "`sleep 600` did not end within 0ns");
        execute_within(&mut Command::new("true"), Duration::from_secs(60)).unwrap();
        assert!(execute_within(&mut Command::new("false"), Duration::from_secs(60)).is_err());
    }

    #[test]
    fn the_summary_is_one_line_that_names_every_fate() {
        let second = Duration::from_secs(1);
        let passed = [
            (Step::Format, Outcome::Passed(second)),
            (Step::Licences, Outcome::NotPossible),
        ];
        assert_eq!(summary(&passed), "passed: format 1.0 s, licences not run");
        let failed = [
            (Step::Build, Outcome::Failed(90 * second)),
            (Step::Tests, Outcome::NotReached),
        ];
        assert_eq!(
            summary(&failed),
            "failed: build FAILED after 90.0 s, tests not reached"
        );
    }
}
