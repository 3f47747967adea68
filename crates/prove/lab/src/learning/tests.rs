//! A small version of the experiment, and what it must show.

use super::*;

/// Short answers, so that a little time holds many requests.
const SMALL: &str = r#"
about = "small"
[conversations]
turns = [3, 5]
starters = { pool = 10 }
starter_tokens = [1500, 2000]
follow_up_tokens = [20, 40]
max_tokens = 150
starts_per_second = 10
"#;

const MINUTE: Duration = Duration::from_secs(60);

fn plan() -> LearningPlan {
    LearningPlan {
        workload: Workload::parse("small", SMALL).unwrap(),
        profile: Profile::named(engine::sim::DEFAULT_PROFILE).unwrap(),
        workers: 3,
        level: 60,
        repeats: 1,
        seed: 1,
        truth_takes: Duration::from_secs(90),
        settles: Duration::from_secs(45),
        window: Duration::from_secs(20),
        windows: 5,
    }
}

/// A minute after a surprise, first tokens come as soon as with an informed router.
#[track_caller]
fn check_first_tokens(surprise: Surprise) {
    let lesson = learn(&plan(), surprise);
    let (learner, again) = lesson.ratios_after(MINUTE).unwrap();
    println!("{}{learner:.3} {again:.3}", lesson.lines());
    assert!(learner < 1.1, "{learner}\n{}", lesson.lines());
}

/// Seconds of a step among twenty others, and until a first token after a hundred tokens, which
/// is what a turn brings here; how long a thousand would take nobody gets to see.
fn predictions(one: &Priors) -> [f64; 2] {
    let step = one.step_seconds + 20.0 * one.step_growth_seconds;
    let first_token = one.first_token_steps * step + 100.0 / one.prefill_tokens_per_second;
    [step, first_token]
}

/// A minute after a surprise, what is believed of the first worker is true. This is the sharper
/// question: a first token also comes in time from a worker that is thought faster than it is,
/// as long as it has room.
#[track_caller]
fn check_beliefs(surprise: Surprise) {
    let plan = plan();
    let usual = mean(&truth(&plan, &plan.workload));
    let Scene {
        surprised,
        naive,
        known,
        begin,
        ..
    } = Scene::new(&plan, surprise, &usual);
    let cell = CellPlan {
        window: MINUTE,
        ..plan.cell(&surprised, plan.seed, begin)
    };
    let (_, views) = run_believing(&cell, naive);
    let learned = predictions(&believed(&views[SLOW_WORKER]));
    for (learned, exact) in learned.into_iter().zip(predictions(&known)) {
        let ratio = learned / exact;
        println!("{}: {ratio:.3}", surprise.name());
        assert!((0.9..1.1).contains(&ratio), "{learned} against {exact}");
    }
}

#[test]
fn beliefs_that_are_too_pessimistic_are_forgotten_within_a_minute() {
    let (figure, times) = (Figure::All, 4.0);
    check_beliefs(Surprise::Priors { figure, times });
    check_first_tokens(Surprise::Priors { figure, times });
}

#[test]
fn beliefs_that_are_too_optimistic_are_forgotten_within_a_minute() {
    let (figure, times) = (Figure::All, 0.25);
    check_beliefs(Surprise::Priors { figure, times });
    check_first_tokens(Surprise::Priors { figure, times });
}

#[test]
fn a_worker_that_slows_down_is_known_within_a_minute() {
    check_beliefs(Surprise::SlowsDown);
    check_first_tokens(Surprise::SlowsDown);
}

#[test]
fn a_wrong_belief_is_wrong_in_the_figure_that_it_names() {
    let truth = Priors::default();
    let all = wrong(&truth, Figure::All, 4.0);
    assert_eq!(
        all,
        Priors {
            prefill_tokens_per_second: truth.prefill_tokens_per_second / 4.0,
            step_seconds: truth.step_seconds * 4.0,
            step_growth_seconds: truth.step_growth_seconds * 4.0,
            output_tokens: truth.output_tokens * 4.0,
            ..truth
        }
    );
    let one = wrong(&truth, Figure::Step, 0.25);
    let step_seconds = truth.step_seconds / 4.0;
    assert_eq!(
        one,
        Priors {
            step_seconds,
            ..truth
        }
    );
    let names: Vec<_> = Surprise::all().iter().map(Surprise::name).collect();
    assert_eq!(names.len(), 11);
    assert_eq!(names[2], "prefill time believed 4 times too large");
    assert_eq!(names[9], "output length believed 4 times too small");
}

#[test]
fn what_was_learned_can_be_believed_beforehand() {
    // Someone who is told what was learned sees what the learner sees.
    let plan = plan();
    let learned = truth(&plan, &plan.workload);
    let usual = mean(&learned);
    for one in &learned {
        let close = |one: f64, other: f64| (one / other - 1.0).abs() < 0.1;
        assert!(close(one.step_seconds, usual.step_seconds), "{learned:?}");
        assert!(close(one.output_tokens, usual.output_tokens), "{learned:?}");
    }
    // The profile's step alone takes 18.1 ms and an answer is cut at 150 tokens.
    assert!((0.017..0.021).contains(&usual.step_seconds), "{usual:?}");
    assert!((145.0..=150.0).contains(&usual.output_tokens), "{usual:?}");
}
