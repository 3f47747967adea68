//! What later steps begin with, compiled and installed beside the steps before them.
//!
//! Tests that start servers wait more than they compute, and half of two processors is idle
//! meanwhile. This runs only where a processor would be idle otherwise, so that no test is slower for
//! it. What goes wrong here does not matter: the step does the same again, and finds it done or says
//! what is wrong.

use std::env;
use std::fs::File;
use std::process::{Child, Command, Stdio};

use super::{Step, process};
use crate::repository;

/// Preparations under way. Those that nobody waited for are stopped with this.
#[derive(Default)]
pub(super) struct Ahead {
    running: Vec<(Step, Child)>,
}

impl Ahead {
    pub(super) fn begin(steps: &[Step]) -> Self {
        let steps = steps.iter().filter(|step| step.preparation().is_some());
        // Without `chrt` nothing is done ahead.
        let started = steps.filter_map(|&step| Some((step, start(step).ok()?)));
        Self {
            running: started.collect(),
        }
    }

    /// Waits until what the step begins with is there.
    pub(super) fn finish(&mut self, step: Step) -> anyhow::Result<()> {
        let Some(place) = self.running.iter().position(|(one, _)| *one == step) else {
            return Ok(());
        };
        let (_, mut child) = self.running.swap_remove(place);
        child.wait()?;
        Ok(())
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        for (_, child) in &mut self.running {
            // It may have ended.
            let _ = process::signal(child, "TERM");
            let _ = child.wait();
        }
    }
}

fn start(step: Step) -> anyhow::Result<Child> {
    let log = format!("ahead-{}.log", step.name());
    let log = File::create(repository::target_directory()?.join(log))?;
    let child = Command::new("chrt")
        .args(["--idle", "0"])
        .arg(env::current_exe()?)
        .args(["test", "--prepare", step.name()])
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    Ok(child)
}
