//! Synthetic workers whose speed is known, seen through noise.

mod homes;

use contract::random::Random;

use super::*;

/// What the worker is really like.
#[derive(Clone, Copy, Debug)]
struct Truth {
    prefill_tokens_per_second: f64,
    first_token_steps: f64,
    step: f64,
    growth: f64,
}

const TRUTH: Truth = Truth {
    prefill_tokens_per_second: 9000.0,
    first_token_steps: 3.0,
    step: 0.018,
    growth: 0.0002,
};

impl Truth {
    fn slowed(self, times: f64) -> Self {
        Self {
            prefill_tokens_per_second: self.prefill_tokens_per_second / times,
            step: self.step * times,
            growth: self.growth * times,
            ..self
        }
    }

    fn step(&self, in_flight: f64) -> f64 {
        self.step + self.growth * in_flight
    }

    fn first_token(&self, in_flight: f64, tokens: f64) -> f64 {
        self.first_token_steps * self.step(in_flight) + tokens / self.prefill_tokens_per_second
    }
}

/// A worker under a wandering load, two requests per second.
struct Scene {
    learner: Learner,
    now: Moment,
    random: Random,
}

impl Scene {
    fn new(priors: &Priors) -> Self {
        Self {
            learner: Learner::new(priors),
            now: Moment::ZERO,
            random: Random::new(4),
        }
    }

    /// Up to a fifth off, and one in fifty ten times too long.
    fn noise(&mut self) -> f64 {
        let outlier = if self.random.below(50) == 0 {
            10.0
        } else {
            1.0
        };
        (0.8 + 0.4 * self.random.unit()) * outlier
    }

    fn run(&mut self, truth: Truth, seconds: u64) {
        for _ in 0..seconds {
            let in_flight = 10 + self.random.below(50) as u32;
            for _ in 0..2 {
                let work_tokens = [60, 300, 900, 4000][self.random.below(4)];
                let exact = truth.first_token(f64::from(in_flight), work_tokens as f64);
                let after = Duration::from_secs_f64(exact * self.noise());
                let seen = FirstToken {
                    after,
                    in_flight,
                    work_tokens,
                    prompt_tokens: 4000,
                    cached_tokens: 3000,
                    waited: false,
                };
                self.learner.first_token(&seen, self.now);
            }
            for _ in 0..in_flight {
                let exact = 32.0 * truth.step(f64::from(in_flight - 1));
                let during = Interval {
                    in_flight: f64::from(in_flight),
                    elapsed: Duration::from_secs_f64(exact * self.noise()),
                };
                self.learner.progress(32, during, self.now);
            }
            self.now += Duration::from_secs(1);
        }
    }

    /// The largest relative error of the predictions that matter.
    fn error(&self, truth: Truth) -> f64 {
        let outlook = self.learner.outlook();
        let mut worst: f64 = 0.0;
        for (in_flight, tokens) in [(15.0, 100.0), (30.0, 800.0), (50.0, 300.0), (40.0, 4000.0)] {
            let believed = f64::from(outlook.first_token(in_flight as f32, tokens as f32));
            let exact = truth.first_token(in_flight, tokens);
            worst = worst.max((believed / exact - 1.0).abs());
            let believed = f64::from(outlook.step(in_flight as f32));
            worst = worst.max((believed / truth.step(in_flight) - 1.0).abs());
        }
        worst
    }
}

fn wrong_by(times: f64) -> Priors {
    Priors {
        prefill_tokens_per_second: TRUTH.prefill_tokens_per_second / times,
        step_seconds: TRUTH.step * times,
        step_growth_seconds: TRUTH.growth * times,
        first_token_steps: TRUTH.first_token_steps,
        output_tokens: 500.0 * times,
    }
}

#[test]
fn priors_wrong_four_times_either_way_are_forgotten_within_a_minute() {
    for times in [0.25, 1.0, 4.0] {
        let mut scene = Scene::new(&wrong_by(times));
        scene.run(TRUTH, 60);
        let error = scene.error(TRUTH);
        assert!(error < 0.2, "wrong {times} times: {error}");
    }
}

#[test]
fn a_worker_that_changes_its_speed_is_known_again_within_a_minute() {
    for times in [0.5, 2.0] {
        let mut scene = Scene::new(&Priors::default());
        scene.run(TRUTH, 120);
        let changed = TRUTH.slowed(times);
        assert!(scene.error(changed) > 0.3, "not yet");
        scene.run(changed, 60);
        let error = scene.error(changed);
        assert!(error < 0.2, "{times} times slower: {error}");
    }
}

/// An engine short of memory or of compute: steps grow faster than the number of requests, so that
/// a line through them meets the origin far to the right.
#[test]
fn steps_that_bend_upwards_make_no_first_token_endless() {
    let mut scene = Scene::new(&Priors::default());
    scene.run(TRUTH, 60);
    let bent = |in_flight: u32| 0.02 + 0.004 * f64::from(in_flight.saturating_sub(48));
    let mut longest: f64 = 0.0;
    for second in 0..60 {
        let in_flight = 50 + second % 14;
        let exact = TRUTH.first_token(f64::from(in_flight), 4000.0) * bent(in_flight) / 0.02;
        longest = longest.max(exact);
        let seen = FirstToken {
            after: Duration::from_secs_f64(exact),
            in_flight,
            work_tokens: 4000,
            prompt_tokens: 4000,
            cached_tokens: 0,
            waited: false,
        };
        scene.learner.first_token(&seen, scene.now);
        for _ in 0..in_flight {
            let during = Interval {
                in_flight: f64::from(in_flight),
                elapsed: Duration::from_secs_f64(32.0 * bent(in_flight)),
            };
            scene.learner.progress(32, during, scene.now);
        }
        scene.now += Duration::from_secs(1);
        let fleet = Fleet::of([&scene.learner].into_iter(), scene.now).unwrap();
        assert!(fleet.growth <= 1.0, "{fleet:?}");
        scene.learner.set_fleet(fleet);
        for in_flight in [1, 20, 50, 63] {
            let predicted = scene
                .learner
                .outlook()
                .first_token(in_flight as f32, 4000.0);
            assert!(
                f64::from(predicted) < 10.0 * longest,
                "{second}: {predicted} at {in_flight}"
            );
        }
    }
    for _ in 0..60 {
        scene.run(TRUTH, 1);
        let fleet = Fleet::of([&scene.learner].into_iter(), scene.now).unwrap();
        scene.learner.set_fleet(fleet);
    }
    let error = scene.error(TRUTH);
    assert!(error < 0.3, "{error}");
}

#[test]
fn requests_that_waited_for_a_slot_say_nothing_about_speed() {
    let mut scene = Scene::new(&Priors::default());
    scene.run(TRUTH, 60);
    let before = scene.learner.outlook();
    for _ in 0..100 {
        let seen = FirstToken {
            after: Duration::from_secs(20),
            in_flight: 64,
            work_tokens: 100,
            prompt_tokens: 4000,
            cached_tokens: 4000,
            waited: true,
        };
        scene.learner.first_token(&seen, scene.now);
    }
    let after = scene.learner.outlook();
    assert!(after.hit_rate > before.hit_rate);
    assert_eq!(
        Outlook {
            hit_rate: before.hit_rate,
            ..after
        },
        before
    );
}

#[test]
fn one_outlier_hardly_moves_a_line() {
    let shape = Shape {
        intercept: 1.0,
        slope: 0.1,
        worth: 1.0,
    };
    let mut line = Line::new(shape);
    let at = |second: u64| Moment::ZERO + Duration::from_secs(second);
    for second in 0..60 {
        let x = (second % 10) as f64;
        line.observe(x, 2.0 + 0.5 * x, 1.0, at(second));
    }
    // Not quite: the ridge still pulls a little.
    assert!((line.slope() - 0.5).abs() < 0.05, "{line:?}");
    assert!((line.intercept() - 2.0).abs() < 0.25, "{line:?}");
    let before = line.at(5.0);
    line.observe(5.0, 1000.0, 1.0, at(60));
    assert!((line.at(5.0) / before - 1.0).abs() < 0.05, "{line:?}");
}

#[test]
fn without_variation_the_ratio_stays_and_the_level_follows() {
    let shape = Shape {
        intercept: 1.0,
        slope: 0.1,
        worth: 1.0,
    };
    let mut line = Line::new(shape);
    for second in 0..200 {
        line.observe(10.0, 4.0, 1.0, Moment::ZERO + Duration::from_secs(second));
    }
    assert!((line.at(10.0) - 4.0).abs() < 0.05, "{line:?}");
    assert!(
        (line.intercept() / line.slope() - 10.0).abs() < 0.1,
        "{line:?}"
    );
}

#[test]
fn a_machine_a_thousand_times_slower_is_learned_as_soon() {
    let shape = Shape {
        intercept: 0.06,
        slope: 1.0 / 8000.0,
        worth: 1.0,
    };
    for times in [0.1, 1.0, 1000.0] {
        let mut line = Line::new(shape);
        // Six samples, the first of which is a warm-up.
        for (second, x) in [400.0, 40.0, 60.0, 380.0, 50.0, 420.0]
            .into_iter()
            .enumerate()
        {
            let warm_up = if second == 0 { 5.0 } else { 1.0 };
            let y = times * warm_up * (0.01 + x / 8000.0);
            line.observe(x, y, 1.0, Moment::ZERO + Duration::from_secs(second as u64));
        }
        for x in [40.0, 400.0] {
            let ratio = line.at(x) / (times * (0.01 + x / 8000.0));
            assert!((0.7..1.5).contains(&ratio), "{times} times: {ratio} at {x}");
        }
    }
}

#[test]
fn a_difference_counts_as_far_as_it_is_beyond_doubt() {
    for (difference, doubt, expected) in [
        (0.5, 1.0, 0.0),
        (-1.0, 1.0, 0.0),
        (2.0, 1.0, 1.5),
        (-2.0, 1.0, -1.5),
        (10.0, 1.0, 9.9),
        (0.3, 0.0, 0.3),
        (0.3, f64::INFINITY, 0.0),
        (0.3, f64::NAN, 0.0),
    ] {
        let found = fleet::proven(difference, doubt);
        assert!(
            (found - expected).abs() < 1e-9,
            "{difference}, {doubt}: {found}"
        );
    }
}

#[test]
fn a_line_never_predicts_a_negative_time() {
    let shape = Shape {
        intercept: 1.0,
        slope: 0.1,
        worth: 1.0,
    };
    let mut line = Line::new(shape);
    for second in 0..100 {
        let x = 10.0 + (second % 3) as f64;
        let now = Moment::ZERO + Duration::from_secs(second);
        line.observe(x, 3.0 * (x - 10.0), 1.0, now);
    }
    assert!(line.intercept() >= 0.0 && line.slope() > 0.0, "{line:?}");
    assert!(line.at(0.0) >= 0.0);
}

#[test]
fn what_is_old_fades_into_what_the_fleet_shows() {
    let mut scene = Scene::new(&Priors::default());
    scene.run(TRUTH.slowed(4.0), 60);
    let mut others = Scene::new(&Priors::default());
    others.run(TRUTH, 60);
    let fleet = Fleet::of([&others.learner].into_iter(), others.now).unwrap();
    scene.learner.set_fleet(fleet);
    others.learner.set_fleet(fleet);
    let slow = scene.learner.outlook().step(20.0);
    let usual = others.learner.outlook().step(20.0);
    let later = |seconds| {
        let now = scene.now + Duration::from_secs(seconds);
        scene.learner.outlook_at(now).step(20.0)
    };
    assert!(slow > 3.0 * usual);
    assert_eq!(later(5), slow);
    let half = later(26);
    assert!(half < 0.6 * slow + 0.4 * usual, "{half}");
    assert!((later(200) / usual - 1.0).abs() < 0.01);
    // A worker without any sample is like the others.
    let mut unknown = Learner::new(&wrong_by(4.0));
    unknown.set_fleet(fleet);
    assert!((unknown.outlook_at(scene.now).step(20.0) / usual - 1.0).abs() < 1e-3);
}

#[test]
fn the_shape_is_the_fleets_and_the_level_the_workers_own() {
    let mut scene = Scene::new(&Priors::default());
    scene.run(TRUTH, 60);
    let own = scene.learner.outlook();
    let fleet = Fleet::of([&scene.learner].into_iter(), scene.now).unwrap();
    let growth = TRUTH.growth / TRUTH.step;
    assert!((fleet.growth / growth - 1.0).abs() < 0.5, "{fleet:?}");
    let other = Fleet {
        growth: 2.0 * fleet.growth,
        ..fleet
    };
    scene.learner.set_fleet(other);
    let shared = scene.learner.outlook();
    let usual = scene.learner.decode.center() as f32;
    assert!((shared.step(usual) / own.step(usual) - 1.0).abs() < 0.05);
    let relative = |outlook: &Outlook| outlook.step_growth_seconds / outlook.step_seconds;
    assert!((f64::from(relative(&shared)) / other.growth - 1.0).abs() < 1e-3);
}

#[test]
fn occupancy_is_averaged_over_any_interval() {
    let at = |second: u64| Moment::ZERO + Duration::from_secs(second);
    let mut occupancy = Occupancy::default();
    occupancy.set(2, at(10));
    let mark = occupancy.mark(at(12));
    occupancy.set(4, at(14));
    occupancy.set(1, at(15));
    for (now, expected) in [(16, (2 * 2 + 4 + 1) as f64 / 4.0), (18, 11.0 / 6.0)] {
        let since = occupancy.since(mark, at(now));
        assert_eq!(since.in_flight, expected);
        assert_eq!(since.elapsed, Duration::from_secs(now - 12));
    }
    assert_eq!(
        occupancy.since(occupancy.mark(at(18)), at(18)).in_flight,
        1.0
    );
}

#[test]
fn averages_follow_and_are_not_thrown() {
    let mut average = Average::new(500.0);
    let mut now = Moment::ZERO;
    let mut observe = |average: &mut Average, value, times| {
        for _ in 0..times {
            now += Duration::from_millis(200);
            average.observe(value, now);
        }
    };
    observe(&mut average, 830.0, 100);
    assert!((average.value() - 830.0).abs() < 10.0, "{average:?}");
    observe(&mut average, 1e9, 1);
    assert!((average.value() / 830.0 - 1.0).abs() < 0.05, "{average:?}");
    observe(&mut average, 200.0, 500);
    assert!((average.value() - 200.0).abs() < 40.0, "{average:?}");
}

#[test]
fn unknown_slots_are_found_from_below_and_from_above() {
    // An engine that runs 64 at once: whoever comes beyond is late.
    let mut slots = Slots::default();
    let mut seen = Vec::new();
    for round in 0..2000 {
        let in_flight = slots.count() - 1;
        slots.first_token(in_flight, in_flight >= 64);
        if round > 200 {
            seen.push(slots.count());
        }
    }
    let mean = f64::from(seen.iter().sum::<u32>()) / seen.len() as f64;
    assert!((56.0..=66.0).contains(&mean), "{mean}");
    assert!(seen.iter().all(|&count| (50..=68).contains(&count)));
    // One episode of waiting is answered once.
    let before = slots.count();
    slots.waiting();
    slots.waiting();
    assert!(slots.count() + 10 > before);
    // Late first tokens of a worker with few requests say nothing about slots.
    let mut slots = Slots::default();
    assert!(!slots.first_token(2, true));
    assert_eq!(slots.count(), Slots::default().count());
}
