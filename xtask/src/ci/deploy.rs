//! Everything under `deploy/`, as far as it can be known without a cluster, an engine or a cloud.
//!
//! The check itself is in Python, where schemas, renderers and parsers for these files exist as packages;
//! `deploy/README.md` says what it looks at. Here they are installed and it is called.

use std::process::Command;
use std::time::Duration;

use super::{execute_within, homing, npm, python};

const FOLDER: &str = "deploy/check";
const REQUIREMENTS: &str = "deploy/check/requirements.txt";
/// Read and not run, so what it depends on is not needed.
const PROVIDER: &str = "deploy/check/provider.txt";

const PATIENCE: Duration = Duration::from_secs(600);

pub(super) fn check() -> anyhow::Result<()> {
    let python = python::environment("venv-deploy")?;
    python::install(&python, REQUIREMENTS, &[])?;
    python::install(&python, PROVIDER, &["--no-deps"])?;
    npm::install(FOLDER)?;
    let mut check = Command::new(&python);
    check
        .arg(format!("{FOLDER}/run.py"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    match homing() {
        Ok(program) => {
            check.arg("--homing").arg(program);
        }
        // Manifests can be worked on without building; the check says what it leaves out.
        Err(missing) => println!("{missing:#}"),
    }
    execute_within(&mut check, PATIENCE)
}
