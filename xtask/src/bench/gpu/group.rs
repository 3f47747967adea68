//! A process that leads a group, so that it can be ended with all that it started.

use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;

const POLL: Duration = Duration::from_millis(100);
/// Of a log, as much as shows what went wrong.
const LAST_LINES: usize = 15;
const ERROR_LINES: usize = 5;

/// Killed with its group when dropped; [`Group::end`] asks first.
#[derive(Debug)]
pub(super) struct Group {
    name: String,
    child: Child,
    status: Option<ExitStatus>,
    log: Option<PathBuf>,
}

impl Group {
    /// Starts a command. What it says goes to the end of its log, or to where ours goes.
    pub(super) fn start(
        name: &str,
        command: &mut Command,
        log: Option<&Path>,
    ) -> anyhow::Result<Self> {
        if let Some(path) = log {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let file = file.with_context(|| format!("cannot write {}", path.display()))?;
            command.stderr(file.try_clone()?).stdout(file);
        }
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            status: None,
            log: log.map(Path::to_owned),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// How it ended, if it has.
    pub(super) fn status(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        Ok(self.status)
    }

    /// To all of the group. Best effort: there may be nobody left.
    pub(super) fn signal(&self, name: &str) {
        // The shell's own, since a bare machine may not have the program.
        let _ = Command::new("sh")
            .arg("-c")
            .arg(format!("kill -s {name} -- -{}", self.child.id()))
            .stderr(Stdio::null())
            .status();
    }

    /// Asks it to end, waits, and kills what is left of its group.
    pub(super) async fn end(&mut self, signal: &str, patience: Duration) {
        if self.status().ok().flatten().is_none() {
            self.signal(signal);
        }
        for _ in 0..patience.as_millis() / POLL.as_millis() {
            if !matches!(self.status(), Ok(None)) {
                break;
            }
            tokio::time::sleep(POLL).await;
        }
        self.kill();
    }

    fn kill(&mut self) {
        self.signal("KILL");
        if self.status.is_none() {
            self.status = self.child.wait().ok();
        }
    }

    /// What happened to it, with the end of its log.
    pub(super) fn said(&self, what: &str) -> String {
        let Some(log) = &self.log else {
            return format!("{} {what}", self.name);
        };
        let text = fs::read(log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        format!(
            "{} {what}; {} says:\n{}",
            self.name,
            log.display(),
            telling(&text)
        )
    }

    /// The end of its log, in one line.
    pub(super) fn last_line(&self) -> String {
        let text = self.log.as_ref().and_then(|log| fs::read(log).ok());
        let text = text.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        line.unwrap_or_default().chars().take(120).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last lines, and before them the last that name an error: the reason is often followed by
/// long traces of those who waited for it.
fn telling(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let (before, last) = lines.split_at(lines.len().saturating_sub(LAST_LINES));
    let is_error = |line: &&&str| line.contains("Error: ") || line.contains("error: ");
    let mut errors: Vec<&str> = before
        .iter()
        .rev()
        .filter(is_error)
        .take(ERROR_LINES)
        .copied()
        .collect();
    errors.reverse();
    [errors.as_slice(), last].concat().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_shown_though_traces_follow_it() {
        let trace = "  at some place\n".repeat(40);
        let log = format!("starts\nValueError: no room\n{trace}RuntimeError: see above\n");
        let shown = telling(&log);
        assert!(shown.starts_with("ValueError: no room\n"), "{shown}");
        assert!(shown.ends_with("RuntimeError: see above"), "{shown}");
        assert_eq!(shown.lines().count(), LAST_LINES + 1);
        assert_eq!(telling("one\ntwo"), "one\ntwo");
    }

    #[tokio::test]
    async fn what_a_process_started_ends_with_it() {
        let folder = std::env::temp_dir().join(format!("homing-group-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let log = folder.join("log");
        let script = "sleep 600 & echo child $!; wait";
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut group = Group::start("a shell", &mut command, Some(&log)).unwrap();
        while !group.last_line().starts_with("child") {
            assert_eq!(group.status().unwrap(), None);
            tokio::time::sleep(POLL).await;
        }
        let child = group.last_line().replace("child ", "");
        group.end("TERM", Duration::from_secs(60)).await;
        assert!(group.status().unwrap().is_some());
        // A signal is sent before it has done its work. Gone, or waiting for a parent to notice.
        let stat = || fs::read_to_string(format!("/proc/{child}/stat"));
        while stat().is_ok_and(|stat| !stat.contains(") Z ")) {
            tokio::time::sleep(POLL).await;
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
