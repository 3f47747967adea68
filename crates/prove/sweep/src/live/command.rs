//! Running what somebody wrote for a shell.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// A redeployment of large models takes this long.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// Of what a command said, as much as helps.
const MOST_WORDS: usize = 2000;

/// Runs a command with the mode in its words (`{mode}`) and in its environment
/// (`HOMING_MODE`), and returns what it printed.
pub(super) async fn run(command: &str, mode: &str) -> Result<String, String> {
    let child = Command::new("sh")
        .arg("-c")
        .arg(command.replace("{mode}", mode))
        .env("HOMING_MODE", mode)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, child)
        .await
        .map_err(|_| {
            format!(
                "`{command}` did not end within {} min",
                PATIENCE.as_secs() / 60
            )
        })?
        .map_err(|error| format!("`{command}` cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: String = said.trim().chars().take(MOST_WORDS).collect();
    Err(format!("`{command}` failed ({}): {said}", output.status))
}
