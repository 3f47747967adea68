//! Child processes that must not outlast our patience.

use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Duration;

use anyhow::ensure;

/// Often enough that nobody notices, seldom enough to cost nothing.
const POLL: Duration = Duration::from_millis(50);

/// How a child ended, or None if it still runs after `patience`.
pub(super) fn wait_within(
    child: &mut Child,
    patience: Duration,
) -> anyhow::Result<Option<ExitStatus>> {
    for _ in 0..patience.as_millis() / POLL.as_millis() {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(POLL);
    }
    Ok(child.try_wait()?)
}

/// Sends a signal by its name. The standard library knows only the one that cannot be
/// caught, and a child that cannot catch it cannot clean up.
pub(super) fn signal(child: &Child, name: &str) -> anyhow::Result<()> {
    let id = child.id().to_string();
    let sent = Command::new("kill")
        .args(["-s", name, &id])
        .status()?
        .success();
    ensure!(sent, "could not send {name} to process {id}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_waited_for_and_can_be_signalled() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        assert_eq!(wait_within(&mut child, Duration::ZERO).unwrap(), None);
        signal(&child, "TERM").unwrap();
        let status = wait_within(&mut child, Duration::from_secs(60))
            .unwrap()
            .unwrap();
        assert!(!status.success());
    }
}
