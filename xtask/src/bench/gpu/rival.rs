//! Other routers before the same servers, started by their own commands.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::bail;

use super::arguments::{Arguments, RivalName};
use super::group::Group;
use super::{Running, probe};

/// For a router to have found its servers.
const PATIENCE: u32 = 120;

#[derive(Clone, Debug)]
pub(super) struct Rival {
    /// As it is called in results.
    pub(super) name: &'static str,
    program: PathBuf,
    pub(super) port: u16,
    first_words: &'static [&'static str],
}

/// All that were asked for. One that is not installed ends the benchmark before it begins.
pub(super) fn find(arguments: &Arguments) -> anyhow::Result<Vec<Rival>> {
    let mut rivals: Vec<Rival> = Vec::new();
    for (index, rival) in arguments.rival.iter().enumerate() {
        let (name, first_words): (_, &[&str]) = match rival {
            RivalName::Smg => ("smg", &["launch"]),
            RivalName::VllmRouter => ("vllm-router", &[]),
        };
        if rivals.iter().any(|other| other.name == name) {
            bail!("--rival: {name} appears twice");
        }
        rivals.push(Rival {
            name,
            program: program(name, &arguments.python)?,
            port: arguments.rival_port(index),
            first_words,
        });
    }
    Ok(rivals)
}

/// Beside the chosen Python, where pip puts it, or wherever the shell finds it.
fn program(name: &str, python: &Path) -> anyhow::Result<PathBuf> {
    let beside = python.with_file_name(name);
    let places = match python.components().count() {
        0 | 1 => vec![PathBuf::from(name)],
        _ => vec![beside, PathBuf::from(name)],
    };
    let runs = |program: &PathBuf| {
        let mut command = Command::new(program);
        command.arg("--help").stdin(Stdio::null());
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    match places.into_iter().find(runs) {
        Some(program) => Ok(program),
        None => bail!(
            "--rival: {name} is not installed, neither beside {} nor in the path \
             (pip install {name})",
            python.display()
        ),
    }
}

impl Rival {
    pub(super) fn start(
        &self,
        arguments: &Arguments,
        servers: usize,
        logs: &Path,
    ) -> anyhow::Result<Group> {
        let url = |server| format!("http://127.0.0.1:{}", arguments.server_port(server));
        let mut command = Command::new(&self.program);
        command
            .args(self.first_words)
            .args(["--host", "127.0.0.1", "--port", &self.port.to_string()])
            .args(["--prometheus-port", &(self.port + 1).to_string()])
            .args(["--policy", "cache_aware", "--worker-urls"])
            .args((0..servers).map(url));
        let log = logs.join(format!("{}.log", self.name));
        Group::start(self.name, &mut command, Some(&log))
    }

    /// Until it answers for the model.
    pub(super) async fn until_ready(&self, running: &mut Running) -> anyhow::Result<()> {
        for _ in 0..PATIENCE {
            tokio::time::sleep(Duration::from_secs(1)).await;
            running.check_alive()?;
            if let Ok(models) = probe::get(self.port, "/v1/models").await
                && models.contains("\"id\"")
            {
                return Ok(());
            }
        }
        bail!("{} did not serve within {PATIENCE} s", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::arguments::tests::parsed;
    use super::*;

    #[test]
    fn what_is_not_installed_is_said_at_once() {
        let arguments = parsed("--rival vllm-router --python /nowhere/bin/python");
        // Where the shell finds one there is nothing to refuse.
        if let Err(error) = find(&arguments) {
            let told = error.to_string();
            assert!(told.contains("vllm-router is not installed"), "{told}");
            assert!(told.contains("pip install vllm-router"), "{told}");
        }
    }
}
