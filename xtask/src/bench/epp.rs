//! What an endpoint picker costs: its CPU per request, and the time that a request waits for it.
//!
//! Twice. Alone, `homing epp` is asked by a program that plays an Envoy (an example of the crate `epp`)
//! without TLS: from the last part of a body until the endpoint is named and the body is back. Behind a
//! genuine Envoy, with TLS, the same requests are sent over a listener with the picker and over one
//! without, to servers that answer at once: the difference of the times to the first event. Everything
//! shares this machine, so that what it cannot carry is late and is said to be.

mod envoy;
mod picker;
mod servers;
mod table;
/// By its path, because the crate around it would have to be compiled before any task can run.
#[path = "../../../crates/serve/epp/examples/gateway/texts.rs"]
mod texts;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{Args, ValueEnum};
use serde_json::Value;

use self::envoy::Gateway;
use self::picker::{Encryption, Picker};
use self::servers::Servers;
use self::table::{Case, Figures, Row, Table};
use self::texts::{Bodies, Load, Texts};
use super::HOMING;
use super::figures::say;
use crate::repository;

/// Of the text with which the tokenizer is tried.
const SAMPLE_BYTES: usize = 100_000;
/// Fewer say little about the slowest of a hundred, more take memory.
const REQUESTS: (usize, usize) = (20, 1000);
/// A part of a body, as Envoy reads it from a client.
const PART: usize = 16 << 10;
/// For what the picker does when nobody asks.
const IDLE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// Seconds in which requests come, for each row; at least 20 requests, at most 1000
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Tokens per prompt
    #[arg(long, value_delimiter = ',', default_values_t = [3500, 32_000, 50_000, 100_000])]
    tokens: Vec<usize>,
    /// Requests per second
    #[arg(long, value_delimiter = ',', default_values_t = [1, 50, 200])]
    rates: Vec<u32>,
    /// Measure only one of the two
    #[arg(long)]
    only: Option<Only>,
    /// `homing`; by default the shipped build of this checkout
    #[arg(long, value_name = "PROGRAM")]
    homing: Option<PathBuf>,
    /// Folder with a real model's tokenizer.json and chat template; by default the vocabulary in the
    /// program
    #[arg(long, value_name = "DIR")]
    model_path: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Only {
    /// The picker alone.
    Picker,
    /// Behind an Envoy.
    Envoy,
}

impl Arguments {
    /// As they are on the command line.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let list = |numbers: Vec<String>| OsString::from(numbers.join(","));
        let mut words = vec!["--seconds".into(), self.seconds.to_string().into()];
        let tokens = self.tokens.iter().map(usize::to_string).collect();
        words.extend(["--tokens".into(), list(tokens)]);
        let rates = self.rates.iter().map(u32::to_string).collect();
        words.extend(["--rates".into(), list(rates)]);
        if let Some(only) = self.only.and_then(|only| only.to_possible_value()) {
            words.extend(["--only".into(), only.get_name().into()]);
        }
        for (option, path) in [
            ("--homing", &self.homing),
            ("--model-path", &self.model_path),
        ] {
            if let Some(path) = path {
                words.extend([option.into(), path.clone().into()]);
            }
        }
        words
    }

    /// Whether the program has to be built.
    pub(crate) fn measures_ours(&self) -> bool {
        self.homing.is_none()
    }

    fn program(&self) -> &Path {
        self.homing.as_deref().unwrap_or(Path::new(HOMING))
    }

    fn requests(&self, rate: u32) -> usize {
        let wanted = u64::from(rate) * self.seconds;
        (wanted as usize).clamp(REQUESTS.0, REQUESTS.1)
    }

    fn cases(&self, bytes_per_token: f64) -> Vec<Case> {
        let mut cases = Vec::new();
        for &tokens in &self.tokens {
            for warm in [false, true] {
                for &rate in &self.rates {
                    cases.push(Case {
                        tokens,
                        load: Load {
                            bytes: (tokens as f64 * bytes_per_token) as usize,
                            warm,
                            requests: self.requests(rate),
                        },
                        rate,
                    });
                }
            }
        }
        cases
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let servers = Servers::start()?;
    let driver = match arguments.only {
        Some(Only::Envoy) => None,
        Some(Only::Picker) | None => Some(Driver::build()?),
    };
    let model = arguments.model_path.as_deref();
    say(&match model {
        Some(folder) => format!("tokenizer of {}", folder.display()),
        None => "the vocabulary in the program; --model-path measures a model's own".to_owned(),
    });
    let mut table = Table::default();
    if let Some(driver) = &driver {
        let picker = Picker::start(arguments.program(), &servers, model, Encryption::None)?;
        let cases = arguments.cases(bytes_per_token(&picker, driver)?);
        idle(&picker)?;
        say(&format!(
            "\nthe picker alone, in the clear, bodies in parts of {PART} bytes"
        ));
        table.begin("");
        for case in cases {
            table.add(driver.measure(&picker, case)?);
            picker.last_prompt_tokens()?;
        }
    }
    if arguments.only != Some(Only::Picker) {
        behind_envoy(arguments, &servers, &mut table)?;
    }
    table.conclude();
    Ok(())
}

/// The same requests with and without the picker.
fn behind_envoy(arguments: &Arguments, servers: &Servers, table: &mut Table) -> anyhow::Result<()> {
    let model = arguments.model_path.as_deref();
    let picker = Picker::start(arguments.program(), servers, model, Encryption::Tls)?;
    let gateway = Gateway::start(&picker.address, servers)?;
    let sample = gateway.sample(&picker, SAMPLE_BYTES)?;
    say("\nbehind a genuine Envoy of one thread, with TLS between it and the picker");
    table.begin("first event without / with the picker, ms");
    for case in arguments.cases(sample) {
        table.add(gateway.measure(&picker, case)?);
        picker.last_prompt_tokens()?;
    }
    Ok(())
}

fn idle(picker: &Picker) -> anyhow::Result<()> {
    let before = picker.cpu()?;
    thread::sleep(IDLE);
    let spent = picker.cpu()? - before;
    say(&format!(
        "nobody asks: {:.1} ms CPU per second, which is part of what follows",
        spent.as_secs_f64() * 1e3 / IDLE.as_secs_f64()
    ));
    Ok(())
}

fn bytes_per_token(picker: &Picker, driver: &Driver) -> anyhow::Result<f64> {
    let load = Load {
        bytes: SAMPLE_BYTES,
        warm: false,
        requests: 1,
    };
    let case = Case {
        tokens: 0,
        load,
        rate: 1000,
    };
    let row = driver.measure(picker, case)?;
    Ok(row.bytes as f64 / picker.last_prompt_tokens()? as f64)
}

/// The program that plays an Envoy.
struct Driver {
    program: PathBuf,
}

impl Driver {
    fn build() -> anyhow::Result<Self> {
        let build = "build --release --quiet --package epp --example gateway";
        let status = Command::new("cargo").args(build.split(' ')).status()?;
        ensure!(status.success(), "the build failed");
        let folder = repository::target_directory()?;
        Ok(Self {
            program: folder.join("release/examples/gateway"),
        })
    }

    fn measure(&self, picker: &Picker, case: Case) -> anyhow::Result<Row> {
        let output = Command::new(&self.program)
            .args(["--address", &picker.address])
            .args(["--process", &picker.id().to_string()])
            .arg("--corpus")
            .arg(corpus())
            .args(["--model", servers::MODEL])
            .args(["--bytes", &case.load.bytes.to_string()])
            .args(["--warm", &case.load.warm.to_string()])
            .args(["--requests", &case.load.requests.to_string()])
            .args(["--rate", &case.rate.to_string()])
            .args(["--part", &PART.to_string()])
            .args(["--seed", &case.seed().to_string()])
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the driver failed: {said}");
        let told: Value = serde_json::from_slice(&output.stdout)?;
        let number = |name: &str| told[name].as_u64().with_context(|| name.to_owned());
        let times = |name: &str| -> anyhow::Result<Vec<Duration>> {
            let list = told[name].as_array().with_context(|| name.to_owned())?;
            let micros = list.iter().filter_map(Value::as_u64);
            Ok(micros.map(Duration::from_micros).collect())
        };
        Row::new(
            case,
            number("bytes")? as usize,
            Figures {
                cpu: Duration::from_millis(number("cpu_ms")?),
                refused: number("refused")? as usize,
                wall: Duration::from_micros(number("wall_us")?),
                due: Duration::from_micros(number("due_us")?),
                added: times("added_us")?,
                whole: times("whole_us")?,
            },
        )
    }
}

fn corpus() -> PathBuf {
    repository::root().join("corpus")
}

/// Requests of a case.
fn bodies(case: Case) -> anyhow::Result<(Bodies, Vec<f64>)> {
    let mut texts = Texts::read(&corpus(), case.seed())?;
    let bodies = texts.bodies(servers::MODEL, case.load);
    let pauses = texts.pauses(f64::from(case.rate), case.load.requests);
    Ok((bodies, pauses))
}
