//! The simulator's constants are found again from its steps.

use std::sync::Arc;

use crate::calibration::{Facts, Measurement, fit, measure, median, profile, shapes};
use crate::executor::Executor as _;
use crate::sim::{AnswerBank, Profile, SimExecutor};

/// All shapes on a simulated worker, in no time.
async fn measurements(profile: &Profile) -> Vec<Measurement> {
    let bank = AnswerBank::new(vec![vec![1, 2]], vec![vec![vec![3; 50]]]);
    let mut executor = SimExecutor::new(profile, Arc::new(bank), 1);
    let mut measured = Vec::new();
    for shape in shapes(&executor.limits()) {
        let (load, seconds) = measure(&mut executor, shape, 3).await.unwrap();
        measured.push(Measurement {
            shape,
            load,
            seconds: median(seconds),
        });
    }
    measured
}

#[tokio::test(start_paused = true)]
async fn constants_are_found_again() {
    // Rows of small batches only, since a wide batch costs extra that is not sought.
    for name in ["h200-llama-70b-fp8-published", "4xh100-llama-70b-fp8"] {
        let profile = Profile::named(name).unwrap();
        let mut measured = measurements(&profile).await;
        measured.retain(|measured| measured.load.rows <= u64::from(profile.timing.narrow_rows));
        let found = fit(&measured);
        // Timers ring at whole milliseconds, of some twenty.
        assert!(found.worst_error < 0.05, "{name}: {found:?}");
        let pairs = [
            (found.timing.base, profile.timing.base),
            (found.timing.per_token, profile.timing.per_token),
        ];
        for (found, stated) in pairs {
            assert!(
                (found / stated - 1.0).abs() < 0.02,
                "{name}: {found} {stated}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_found_is_a_profile_of_the_same_worker() {
    let original = Profile::named("4xh100-llama-70b-fp8").unwrap();
    let limits = original.limits();
    let facts = Facts {
        about: "A \"worker\" like another",
        model: "m",
        workers: 2,
        device: "CPU",
        method: "measured in a test",
        limits: &limits,
    };
    let text = profile(&facts, &fit(&measurements(&original).await));
    let copy = Profile::parse("copy", &text).unwrap();
    assert_eq!(copy.limits(), limits);
    assert_eq!((copy.workers, copy.about.as_str()), (2, facts.about));
    let ratio = copy.timing.per_token / original.timing.per_token;
    assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
}

#[test]
fn nothing_measured_is_no_reason_to_fall_over() {
    let nothing = fit(&[]);
    assert_eq!((nothing.timing.base, nothing.worst_error), (0.0, 0.0));
}
