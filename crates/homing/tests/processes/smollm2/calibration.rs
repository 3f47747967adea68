//! `homing calibrate` as it is typed.

use std::path::Path;
use std::process::{Command, Output};

use engine::sim::Profile;

use super::model;
use crate::system::PROGRAM;

fn calibrate(output: &Path) -> Output {
    Command::new(PROGRAM)
        .args(["calibrate", "--model-path", &model(), "--threads", "1"])
        .args(["--context", "512", "--kv-cache-mb", "512", "--repeats", "1"])
        .args(["--workers", "2", "--output"])
        .arg(output)
        .output()
        .expect("the program starts")
}

#[test]
#[ignore = "needs SmolLM2: cargo xtask test --only model"]
fn a_calibration_is_a_profile_of_workers_that_share_a_machine() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("cpu.toml");
    let done = calibrate(&output);
    assert!(done.status.success(), "{done:?}");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(said.contains("while 1 of 2 workers compute"), "{said}");
    let profile = Profile::load(&output).unwrap();
    assert_eq!((profile.workers, profile.max_context_tokens), (2, 512));
    assert!(profile.timing.base > 0.0 && profile.timing.per_token > 0.0);
    assert!(profile.sharing.part(1) > 0.0 && profile.sharing.part(1) <= 1.0);
    assert!((profile.sharing.part(2) - 1.0).abs() < 1e-9);

    let nowhere = folder.path().join("no folder/cpu.toml");
    let refused = calibrate(&nowhere);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{said}");
    assert!(said.contains("--output: no such folder:"), "{said}");
}
