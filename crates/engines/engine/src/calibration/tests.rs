//! The simulator's constants are found again from its steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use contract::Processors;

use crate::calibration::{
    ExecutorSteps, Facts, Measurement, Origins, fit, measure, profile, served_shapes, shapes,
};
use crate::executor::{Executor as _, Limits};
use crate::sim::{AnswerBank, Profile, SimExecutor, Timing};

fn undisturbed() -> Processors {
    Processors::default()
}

/// All shapes on a simulated worker, in no time. Its timers ring at whole milliseconds, so what
/// was measured is held against the profile's own figure, and that is passed on.
async fn measurements(profile: &Profile) -> Vec<Measurement> {
    let bank = AnswerBank::new(vec![vec![1, 2]], vec![vec![vec![3; 50]]]);
    let mut executor = SimExecutor::new(profile, Arc::new(bank), 1);
    let limits = executor.limits();
    let shapes = shapes(&limits);
    let alone = AtomicUsize::new(1);
    let mut steps = ExecutorSteps::new(&mut executor, undisturbed);
    let steps = measure(&mut steps, &shapes, 1, &alone).await.unwrap();
    let mut measured = Vec::new();
    for (shape, rung) in shapes.into_iter().zip(steps) {
        let load = shape.load(&limits);
        let stated = profile.timing.step(&load).as_secs_f64();
        assert!((rung - stated).abs() < 2e-3, "{shape:?}: {rung} {stated}");
        measured.push(Measurement {
            shape,
            load,
            seconds: stated,
        });
    }
    measured
}

fn assert_same(found: &Timing, stated: &Timing) {
    assert_eq!(found.overlaps, stated.overlaps);
    let constants = |timing: &Timing| {
        [
            timing.base,
            timing.per_token,
            timing.per_sequence,
            timing.per_context_token,
            timing.attention_per_pair,
        ]
    };
    for (found, stated) in constants(found).into_iter().zip(constants(stated)) {
        let off = (found - stated).abs();
        assert!(off <= stated * 1e-3, "{found} {stated}");
    }
}

#[tokio::test(start_paused = true)]
async fn constants_are_found_again() {
    for name in ["h200-llama-70b-fp8-published", "4xh100-llama-70b-fp8"] {
        let profile = Profile::named(name).unwrap();
        let mut measured = measurements(&profile).await;
        // What a wide batch costs beyond its rows is not sought.
        measured.retain(|measured| measured.load.rows <= u64::from(profile.timing.narrow_rows));
        let found = fit(&measured);
        assert!(found.worst_error < 1e-4, "{name}: {found:?}");
        assert_same(&found.timing, &profile.timing);
    }
}

/// Three workers with a small model on two cores.
const PROCESSOR: Timing = Timing {
    base: 20e-3,
    per_token: 2.7e-3,
    overlaps: false,
    per_sequence: 1e-3,
    per_context_token: 9e-6,
    wide_batch: 0.0,
    narrow_rows: u32::MAX,
    attention_per_pair: 1.6e-6,
    draft_per_token: 0.0,
    verify_per_token: 0.0,
};

/// Steps that take what these constants say.
fn exact(timing: &Timing) -> Vec<Measurement> {
    let limits = Profile::named("4xh100-llama-70b-fp8").unwrap().limits();
    let measured = shapes(&limits).into_iter().map(|shape| {
        let load = shape.load(&limits);
        Measurement {
            shape,
            load,
            seconds: timing.step(&load).as_secs_f64(),
        }
    });
    measured.collect()
}

#[test]
fn constants_of_steps_that_read_and_compute_in_turn_are_found_again() {
    let found = fit(&exact(&PROCESSOR));
    assert!(found.worst_error < 1e-4, "{found:?}");
    assert_same(&found.timing, &PROCESSOR);
}

#[test]
fn what_no_constants_explain_is_not_put_into_the_long_steps() {
    let mut measured = exact(&PROCESSOR);
    // Few tokens of a prompt take more time each than many do.
    for measured in measured.iter_mut().filter(|step| step.shape.prefill > 0) {
        measured.seconds *= 1.0 + 8.0 / (8.0 + measured.shape.prefill as f64);
    }
    let timing = fit(&measured).timing;
    let (mut explained, mut took) = (0.0, 0.0);
    for measured in measured.iter().filter(|step| step.shape.prefill >= 256) {
        explained += timing.step(&measured.load).as_secs_f64();
        took += measured.seconds;
    }
    // Were errors relative, it would be 0.08.
    let off = explained / took - 1.0;
    assert!(off.abs() < 0.03, "{off}");
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
        shares: &[0.5, 1.0],
        origins: Origins::OWN,
    };
    let text = profile(&facts, &fit(&measurements(&original).await));
    let copy = Profile::parse("copy", &text).unwrap();
    assert_eq!(copy.limits(), limits);
    assert_eq!((copy.workers, copy.about.as_str()), (2, facts.about));
    let parts = [1, 2, 3].map(|computing| copy.sharing.part(computing));
    assert_eq!(parts, [0.5, 1.0, 1.0]);
    let ratio = copy.timing.per_token / original.timing.per_token;
    assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
}

#[test]
fn nothing_measured_is_no_reason_to_fall_over() {
    let nothing = fit(&[]);
    assert_eq!((nothing.timing.base, nothing.worst_error), (0.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn what_others_take_of_the_machine_is_no_part_of_a_step() {
    let profile = Profile::named("4xh100-llama-70b-fp8").unwrap();
    let bank = Arc::new(AnswerBank::new(vec![vec![1, 2]], vec![vec![vec![3; 50]]]));
    // Of every four ticks, others have one.
    let ticks = AtomicUsize::new(0);
    let shared = || {
        let ticks = 4 * ticks.fetch_add(1, Ordering::Relaxed) as u64;
        Processors {
            worked: ticks * 3 / 4,
            taken: ticks / 4,
        }
    };
    let mut worker = SimExecutor::new(&profile, Arc::clone(&bank), 1);
    let shapes = shapes(&worker.limits());
    let alone = || AtomicUsize::new(1);
    let mut steps = ExecutorSteps::new(&mut worker, shared);
    let steps = measure(&mut steps, &shapes, 1, &alone()).await;
    let mut worker = SimExecutor::new(&profile, bank, 1);
    let mut in_full = ExecutorSteps::new(&mut worker, undisturbed);
    let in_full = measure(&mut in_full, &shapes, 1, &alone()).await;
    for (step, in_full) in steps.unwrap().into_iter().zip(in_full.unwrap()) {
        assert!((step / in_full - 0.75).abs() < 1e-9, "{step} {in_full}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_measured_in_less_company_than_at_first() {
    let profile = Profile::named("4xh100-llama-70b-fp8").unwrap();
    let company = AtomicUsize::new(2);
    let bank = Arc::new(AnswerBank::new(vec![vec![1, 2]], vec![vec![vec![3; 50]]]));
    let mut workers = [1, 2].map(|seed| SimExecutor::new(&profile, Arc::clone(&bank), seed));
    let shapes = shapes(&workers[0].limits());
    let [mut many, mut few] = workers
        .each_mut()
        .map(|worker| ExecutorSteps::new(worker, undisturbed));
    let first = measure(&mut many, &shapes, 1, &company);
    let second = async {
        let done = measure(&mut few, &shapes[..1], 2, &company).await;
        (done, company.load(Ordering::Relaxed))
    };
    let (first, (second, left)) = tokio::join!(first, second);
    assert_eq!(first.unwrap().len(), shapes.len());
    assert_eq!((second.unwrap().len(), left), (1, 0));
}

#[test]
fn requests_ask_only_for_steps_that_a_server_can_make() {
    let large = Profile::named("4xh100-llama-70b-fp8").unwrap().limits();
    let asked = served_shapes(&large, 64);
    assert!(asked.iter().any(|shape| shape.decoding == 64));
    assert!(asked.iter().any(|shape| shape.prefill == 4096));
    let small = Limits {
        slots: 8,
        total_blocks: 160,
        max_step_tokens: 2048,
        max_context_tokens: 4096,
        ..large
    };
    let asked = served_shapes(&small, 64);
    for shape in &asked {
        let tokens = shape.decoding * shape.context + shape.prefilled + shape.prefill;
        assert!(tokens <= 160 * small.block_size as usize, "{shape:?}");
        assert!(shape.decoding <= 8 && shape.prefill <= 2048, "{shape:?}");
    }
    assert!(asked.iter().any(|shape| shape.decoding == 4));
}
