//! What a machine with a GPU needs to check and measure it, where there is neither Rust nor a network:
//! `cargo xtask gpu-bundle`.
//!
//! Kernels are inside the programs. They need NVIDIA's driver, and a folder with `libcublasLt.so.13`.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::repository;

const PROGRAMS: [&str; 2] = ["check", "speed"];

pub(crate) fn run() -> anyhow::Result<()> {
    let target = repository::target_directory()?;
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--locked", "--package", "cuda"]);
    for program in PROGRAMS {
        build.args(["--example", program]);
    }
    execute(&mut build)?;
    let bundle = target.join("gpu/bin");
    fs::create_dir_all(&bundle)?;
    for program in PROGRAMS {
        let packed = bundle.join(program);
        fs::copy(target.join("release/examples").join(program), &packed)?;
        execute(Command::new("strip").arg(&packed))
            .context("strip is needed (Debian package binutils)")?;
        execute(Command::new("xz").args(["--force", "-3"]).arg(&packed))
            .context("xz is needed (Debian package xz-utils)")?;
    }
    println!("packed: {}", bundle.display());
    println!("there: unxz *.xz && ./check --libraries DIR && ./speed --libraries DIR");
    Ok(())
}

fn execute(command: &mut Command) -> anyhow::Result<()> {
    let status = command.current_dir(repository::root()).status()?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}
