//! Running what somebody wrote for a shell.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::Command;

/// A redeployment of large models takes this long.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// Of what a command said, as much as helps.
const MOST_WORDS: usize = 2000;

/// Why a command did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("`{command}` did not end within {} min", PATIENCE.as_secs() / 60)]
    Slow { command: String },
    #[error("`{command}` cannot be run: {error}")]
    NotRun { command: String, error: io::Error },
    #[error("`{command}` failed ({status}): {said}")]
    Failed {
        command: String,
        status: ExitStatus,
        said: String,
    },
}

/// Runs a command with the mode in its words (`{mode}`) and in its environment
/// (`HOMING_MODE`), and returns what it printed.
pub(super) async fn run(text: &str, mode: &str) -> Result<String, CommandError> {
    let command = || text.to_owned();
    let child = Command::new("sh")
        .arg("-c")
        .arg(text.replace("{mode}", mode))
        .env("HOMING_MODE", mode)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, child)
        .await
        .map_err(|_| CommandError::Slow { command: command() })?
        .map_err(|error| CommandError::NotRun {
            command: command(),
            error,
        })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(CommandError::Failed {
        command: command(),
        status: output.status,
        said: said.trim().chars().take(MOST_WORDS).collect(),
    })
}
