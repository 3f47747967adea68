//! `cargo xtask chaos`: the crate `chaos` in the release profile, over many seeds.

use std::process::Command;

use anyhow::ensure;

use crate::repository;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    /// Print what goes wrong in each run.
    #[arg(long)]
    verbose: bool,
    /// Switch a bug on, to see that it is found: lost-release, repeated-token,
    /// missed-snapshot, slot-until-read, forgotten-sibling, endless-patience.
    #[arg(long, value_name = "BUG")]
    plant: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--release", "--package", "chaos"]);
    if arguments.plant.is_some() {
        command.args(["--features", "plant"]);
    }
    command
        .args(["--", "--seeds", &arguments.seeds.to_string()])
        .args(["--first-seed", &arguments.first_seed.to_string()]);
    if arguments.verbose {
        command.arg("--verbose");
    }
    if let Some(bug) = &arguments.plant {
        command.args(["--plant", bug]);
    }
    let status = command.current_dir(repository::root()).status()?;
    ensure!(status.success(), "a seed failed");
    Ok(())
}
