//! Our engine beside llama.cpp and transformers: the same file, the same threads, the same steps,
//! turn by turn, so that what else the machine does hits all alike.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::Value;

use crate::repository;

const FOLDER: &str = "benches/beside-llama";
/// What is compared, by the names of the figures.
const FIGURES: [(&str, &str); 3] = [
    ("prefill", "prefill of 512"),
    ("decode_1", "decode at batch 1"),
    ("decode_8", "decode at batch 8"),
];

#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// A model's GGUF file; by default smollm2, as `homing model pull` fetches it
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// How often all take their turn; the best counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Python environment with llama-cpp-python and transformers; made if it is missing, which
    /// compiles llama.cpp for this machine and takes minutes. By default under the build directory
    #[arg(long, value_name = "DIR")]
    venv: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let venv = match &arguments.venv {
        Some(venv) => venv.clone(),
        None => repository::target_directory()?.join("beside-llama"),
    };
    prepare(&venv)?;
    let model = match &arguments.model {
        Some(model) => model.clone(),
        None => fetched()?,
    };
    let threads = arguments.threads.to_string();
    let ours = example()?;
    let python = venv.join("bin/python");
    let script = repository::root().join(FOLDER).join("speed.py");
    let mut commands: Vec<Command> = Vec::new();
    let mut command = Command::new(ours);
    command.arg(&model).arg(&threads);
    commands.push(command);
    for which in ["llama.cpp", "transformers"] {
        let mut command = Command::new(&python);
        command.arg(&script).arg(which).arg(&model).arg(&threads);
        commands.push(command);
    }
    let mut sides: Vec<Vec<Value>> = vec![Vec::new(); commands.len()];
    for round in 1..=arguments.rounds {
        for (side, command) in sides.iter_mut().zip(&mut commands) {
            let figures = figures(command)?;
            println!("round {round}: {figures}");
            side.push(figures);
        }
    }
    compare(&sides);
    Ok(())
}

fn prepare(venv: &Path) -> anyhow::Result<()> {
    let python = venv.join("bin/python");
    // An installation that was interrupted leaves an environment that lacks them.
    let has_all = Command::new(&python)
        .args(["-c", "import accelerate, llama_cpp, transformers"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if has_all {
        return Ok(());
    }
    let status = Command::new("python3")
        .args(["-m", "venv"])
        .arg(venv)
        .status()?;
    ensure!(status.success(), "no Python environment");
    let status = Command::new(&python)
        .args(["-m", "pip", "install", "--disable-pip-version-check"])
        .args(["--requirement", "requirements.txt"])
        .env("CMAKE_ARGS", instructions())
        .current_dir(repository::root().join(FOLDER))
        .status()?;
    ensure!(status.success(), "pip did not install what is compared");
    Ok(())
}

/// What llama.cpp is compiled for, by name: left to itself, the compiler takes all that the
/// processor names, of which a virtual machine may forbid some (AMX).
fn instructions() -> String {
    let mut words = vec!["-DGGML_NATIVE=OFF"];
    #[cfg(target_arch = "x86_64")]
    {
        let known = [
            (
                is_x86_feature_detected!("avx2"),
                "-DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON",
            ),
            (is_x86_feature_detected!("avx512f"), "-DGGML_AVX512=ON"),
            (
                is_x86_feature_detected!("avx512vbmi"),
                "-DGGML_AVX512_VBMI=ON",
            ),
            (
                is_x86_feature_detected!("avx512vnni"),
                "-DGGML_AVX512_VNNI=ON",
            ),
            (
                is_x86_feature_detected!("avx512bf16"),
                "-DGGML_AVX512_BF16=ON",
            ),
        ];
        words.extend(known.iter().filter(|(has, _)| *has).map(|(_, word)| word));
    }
    words.join(" ")
}

fn fetched() -> anyhow::Result<PathBuf> {
    let homing = repository::target_directory()?.join("dist/homing");
    let pulled = Command::new(&homing)
        .args(["model", "pull", "smollm2"])
        .status()?;
    ensure!(pulled.success(), "no model");
    let output = Command::new(&homing)
        .args(["model", "path", "smollm2"])
        .output()?;
    Ok(String::from_utf8(output.stdout)?.trim().into())
}

/// Built on its own, as a user of the crate would.
fn example() -> anyhow::Result<PathBuf> {
    let words = "build --profile dist --package llama --example speed";
    let status = Command::new("cargo")
        .args(words.split(' '))
        .current_dir(repository::root())
        .status()?;
    ensure!(status.success(), "the example cannot be built");
    Ok(repository::target_directory()?.join("dist/examples/speed"))
}

/// The last line that a command prints.
fn figures(command: &mut Command) -> anyhow::Result<Value> {
    let output = command.output().context("could not run it")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {errors}");
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().last().context("it printed nothing")?;
    serde_json::from_str(line).with_context(|| line.to_owned())
}

fn compare(sides: &[Vec<Value>]) {
    let most = |side: &[Value], key: &str| {
        let values = side.iter().filter_map(|figures| figures[key].as_f64());
        values.fold(0.0, f64::max)
    };
    let name = |side: &[Value]| side[0]["what"].as_str().unwrap_or_default().to_owned();
    println!(
        "\n| tokens/s | {} |",
        sides
            .iter()
            .map(|side| name(side))
            .collect::<Vec<_>>()
            .join(" | ")
    );
    println!("|---|{}", "---:|".repeat(sides.len()));
    for (key, words) in FIGURES {
        let values = sides.iter().map(|side| format!("{:.0}", most(side, key)));
        println!("| {words} | {} |", values.collect::<Vec<_>>().join(" | "));
    }
    let values = sides
        .iter()
        .map(|side| format!("{:.0}", most(side, "rss_mb")));
    println!(
        "| memory in MB | {} |",
        values.collect::<Vec<_>>().join(" | ")
    );
    let ours = &sides[0];
    println!(
        "\nbatch 1 reads {:.1} GB of weights a second; this machine reads memory of that size at {:.1} GB/s, a gigabyte at {:.1} GB/s",
        most(ours, "weights_read_gb_s"),
        most(ours, "machine_reads_as_much_gb_s"),
        most(ours, "machine_reads_gb_s"),
    );
    for side in &sides[1..] {
        let ratios = FIGURES
            .map(|(key, words)| format!("{:.2} x at {words}", most(ours, key) / most(side, key)));
        println!("against {}: {}", name(side), ratios.join(", "));
    }
}
