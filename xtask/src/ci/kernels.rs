//! Kernels for GPUs: what is committed is what their sources compile to.
//!
//! The compiler comes from PyPI, pinned by hash, so that building Homing needs no CUDA and every machine
//! compiles the same bytes. What it says of registers and spills changes the bytes, so it is asked for in
//! a second run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

use anyhow::{Context, bail, ensure};
use sha2::{Digest, Sha256};

use super::python;
use crate::repository;

const SOURCES: &str = "crates/engines/cuda/kernels";
const COMPILED: &str = "crates/engines/cuda/kernels/sm_90a";
const LOCK: &str = "crates/engines/cuda/kernels/lock.toml";
const COMPILER: &str = "crates/engines/cuda/kernels/compiler.txt";
const FLAGS: [&str; 4] = [
    "-O3",
    "-std=c++17",
    "-cubin",
    "-gencode=arch=compute_90a,code=sm_90a",
];

/// Compiles everything, and compares with what is committed.
pub(super) fn check() -> anyhow::Result<()> {
    let compiled = compile_all()?;
    let committed = |path: &Path| fs::read(path).with_context(|| advice(path));
    for (name, kernel) in &compiled {
        let path = cubin(name);
        ensure!(committed(&path)? == kernel.bytes, advice(&path));
    }
    let lock = repository::root().join(LOCK);
    ensure!(
        committed(&lock)? == lock_of(&compiled)?.into_bytes(),
        advice(&lock)
    );
    for entry in fs::read_dir(repository::root().join(COMPILED))? {
        let path = entry?.path();
        let known = compiled.keys().any(|name| cubin(name) == path);
        ensure!(known, "{} has no source: remove it", path.display());
    }
    println!("{} sources compile to what is committed", compiled.len());
    Ok(())
}

/// Compiles everything, and writes what is to be committed.
pub(crate) fn compile() -> anyhow::Result<()> {
    let compiled = compile_all()?;
    fs::create_dir_all(repository::root().join(COMPILED))?;
    for (name, kernel) in &compiled {
        fs::write(cubin(name), &kernel.bytes)?;
    }
    fs::write(repository::root().join(LOCK), lock_of(&compiled)?)?;
    Ok(())
}

/// What a source became.
struct Compiled {
    bytes: Vec<u8>,
    /// Of each of its kernels.
    registers: BTreeMap<String, u32>,
}

fn compile_all() -> anyhow::Result<BTreeMap<String, Compiled>> {
    let compiler = compiler()?;
    let scratch = env::temp_dir().join(format!("homing-kernels-{}", process::id()));
    fs::create_dir_all(&scratch)?;
    let compiled = sources("cu")?
        .into_iter()
        .map(|source| Ok((stem(&source), compile_one(&compiler, &source, &scratch)?)))
        .collect();
    fs::remove_dir_all(&scratch)?;
    compiled
}

fn compile_one(compiler: &Path, source: &Path, scratch: &Path) -> anyhow::Result<Compiled> {
    let out = scratch.join("kernel.cubin");
    let run = |more: &[&str]| -> anyhow::Result<String> {
        let done = Command::new(compiler)
            // Flags that a machine adds to every compilation would change the bytes.
            .env_remove("NVCC_PREPEND_FLAGS")
            .env_remove("NVCC_APPEND_FLAGS")
            .args(FLAGS)
            .args(more)
            .arg(source)
            .arg("-o")
            .arg(&out)
            .output()
            .with_context(|| format!("could not run {}", compiler.display()))?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        ensure!(done.status.success(), "{}: {said}", source.display());
        Ok(said)
    };
    let said = run(&["-Xptxas", "-v"])?;
    let registers = registers(&said).with_context(|| source.display().to_string())?;
    run(&[])?;
    Ok(Compiled {
        bytes: fs::read(&out)?,
        registers,
    })
}

/// Registers by kernel, from what the assembler says. A kernel that spills is an error.
fn registers(said: &str) -> anyhow::Result<BTreeMap<String, u32>> {
    let mut found = BTreeMap::new();
    let mut kernel = None;
    for line in said.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            kernel = rest.split('\'').next().map(str::to_owned);
        } else if line.contains("bytes spill stores") {
            ensure!(
                line.contains(" 0 bytes spill stores, 0 bytes spill loads"),
                "{} spills:{line}",
                kernel.as_deref().unwrap_or("a kernel")
            );
        } else if let Some((_, rest)) = line.split_once("Used ") {
            let (count, _) = rest
                .split_once(" registers")
                .context("no count of registers")?;
            let kernel = kernel.take().context("registers of no kernel")?;
            found.insert(kernel, count.parse()?);
        }
    }
    ensure!(!found.is_empty(), "the assembler named no kernel");
    Ok(found)
}

/// From what the committed bytes were made, and what the kernels need of a multiprocessor.
fn lock_of(compiled: &BTreeMap<String, Compiled>) -> anyhow::Result<String> {
    let mut lock = String::from("# Written by `cargo xtask kernels`.\n\n");
    writeln!(lock, "flags = {FLAGS:?}")?;
    writeln!(lock, "\n[sha256]")?;
    let mut sources = [sources("cu")?, sources("cuh")?].concat();
    sources.push(repository::root().join(COMPILER));
    sources.sort();
    for source in sources {
        let name = source
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        writeln!(lock, "{name:?} = {:?}", hash(&fs::read(&source)?))?;
    }
    for (name, kernel) in compiled {
        writeln!(lock, "\"sm_90a/{name}.cubin\" = {:?}", hash(&kernel.bytes))?;
    }
    writeln!(lock, "\n[registers]")?;
    for (name, count) in compiled.values().flat_map(|kernel| &kernel.registers) {
        writeln!(lock, "{name} = {count}")?;
    }
    Ok(lock)
}

fn hash(bytes: &[u8]) -> String {
    let digits = Sha256::digest(bytes);
    digits.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sources(extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(repository::root().join(SOURCES))? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension) {
            sources.push(path);
        }
    }
    sources.sort();
    Ok(sources)
}

fn stem(source: &Path) -> String {
    source
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn cubin(name: &str) -> PathBuf {
    repository::root()
        .join(COMPILED)
        .join(format!("{name}.cubin"))
}

fn advice(path: &Path) -> String {
    format!(
        "{} is not what the sources compile to: run `cargo xtask kernels` and commit what it writes",
        path.display()
    )
}

/// The compiler, in an environment of its own.
fn compiler() -> anyhow::Result<PathBuf> {
    let python = python::environment("venv-kernels")?;
    python::install(&python, COMPILER, &["--require-hashes", "--no-deps"])?;
    let libraries = python
        .parent()
        .and_then(Path::parent)
        .map(|root| root.join("lib"));
    for entry in fs::read_dir(libraries.context("an environment has a folder")?)? {
        let compiler = entry?.path().join("site-packages/nvidia/cu13/bin/nvcc");
        if compiler.is_file() {
            return Ok(compiler);
        }
    }
    bail!("{COMPILER} brought no nvcc")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'norm_fp8' for 'sm_90a'
ptxas info    : Function properties for norm_fp8
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 80 registers, used 1 barriers, 320 bytes smem
";

    #[test]
    fn registers_are_what_the_assembler_says() {
        let found = registers(SAID).unwrap();
        assert_eq!(found, BTreeMap::from([("norm_fp8".to_owned(), 80)]));
    }

    #[test]
    fn a_kernel_that_spills_is_an_error() {
        let error = registers(&SAID.replace("0 bytes spill loads", "16 bytes spill loads"));
        let error = error.expect_err("it spills").to_string();
        assert!(error.starts_with("norm_fp8 spills:"), "{error}");
    }
}
