//! Genuine Dynamo workers, from PyPI, behind our links and feeds.
//!
//! The tests are those of `crates/reach/dynamo/tests` and `crates/homing/tests/processes` that are
//! ignored elsewhere, because they need what is installed here.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::{answers, execute_within, python};

/// The tests look for environments under the build directory by these names.
const CURRENT: Version = Version {
    environment: "venv-dynamo",
    requirements: "tests/dynamo/requirements.txt",
};
/// The oldest one that is served.
const OLDEST: Version = Version {
    environment: "venv-dynamo-0.9",
    requirements: "tests/dynamo/requirements-0.9.txt",
};

struct Version {
    environment: &'static str,
    requirements: &'static str,
}

impl Version {
    fn install(&self) -> anyhow::Result<PathBuf> {
        let python = python::environment(self.environment)?;
        python::install(&python, self.requirements, &["--no-deps"])?;
        Ok(python)
    }
}

const PATIENCE: Duration = Duration::from_secs(1800);

/// A Python with Dynamo in it, which is installed if it is not there.
pub(crate) fn genuine_dynamo() -> anyhow::Result<PathBuf> {
    CURRENT.install()
}

pub(super) fn check() -> anyhow::Result<()> {
    CURRENT.install()?;
    OLDEST.install()?;
    // For the whole workspace, so that what the step `tests` compiled is used again.
    let words = if answers("cargo", &["nextest", "--version"]) {
        "nextest run --workspace --locked --run-ignored only -E binary(genuine)|test(/^dynamo::/)"
    } else {
        "test --workspace --test genuine --test processes --locked -- --ignored --skip hosts"
    };
    execute_within(Command::new("cargo").args(words.split(' ')), PATIENCE)
}
