//! The closed loop, played by hand and by a naive cluster.

use proptest::prelude::*;

use super::*;
use crate::schedule::Burst;
use crate::script::tests::script;

fn at(millis: u64) -> Moment {
    Moment::ZERO + Duration::from_millis(millis)
}

fn all_due(driver: &mut Driver, now: Moment) -> Vec<TurnPlan> {
    std::iter::from_fn(|| driver.next(now)).collect()
}

/// Answers every turn after `latency(conversation, turn)` and returns all plans with the
/// moments at which they were sent.
fn play(
    mut driver: Driver,
    until: Moment,
    latency: impl Fn(&TurnPlan) -> Duration,
) -> Vec<(Moment, TurnPlan)> {
    let mut now = Moment::ZERO;
    let mut sent = Vec::new();
    let mut answers: Vec<(Moment, usize)> = Vec::new();
    while now <= until {
        for plan in all_due(&mut driver, now) {
            answers.push((now + latency(&plan), plan.lane));
            sent.push((now, plan));
        }
        answers.sort_unstable();
        let answer = answers.first().map(|(at, _)| *at);
        let Some(next) = [answer, driver.next_due(now)].into_iter().flatten().min() else {
            break;
        };
        now = next;
        while answers.first().is_some_and(|&(at, _)| at <= now) {
            let (_, lane) = answers.remove(0);
            driver.ended(lane, Ending::Answered, now);
        }
    }
    sent
}

#[test]
fn turns_follow_one_another_and_a_new_conversation_follows_the_last() {
    let mut driver = Driver::new(script(), Schedule::constant(1), 7);
    let mut now = Moment::ZERO;
    for conversation in 0..20 {
        let turns = driver.casting.turns(conversation);
        for turn in 0..turns {
            let plan = driver.next(now).expect("the lane is free");
            assert_eq!((plan.conversation, plan.turn), (conversation, turn));
            assert_eq!(driver.next(now), None, "one conversation has one turn");
            now += Duration::from_secs(1);
            driver.ended(plan.lane, Ending::Answered, now);
        }
    }
}

#[test]
fn a_failed_turn_is_asked_again_and_an_impossible_one_is_not() {
    let mut driver = Driver::new(script(), Schedule::constant(1), 7);
    let first = driver.next(at(0)).unwrap();
    driver.ended(first.lane, Ending::Failed, at(100));
    assert_eq!(driver.next(at(100)), None);
    assert_eq!(driver.next_due(at(100)), Some(at(1100)));
    assert_eq!(driver.next(at(1100)), Some(first));
    driver.ended(first.lane, Ending::Impossible, at(2000));
    let next = driver.next(at(2000)).unwrap();
    assert_eq!((next.conversation, next.turn), (1, 0));
}

#[test]
fn conversations_begin_at_the_given_pace() {
    let schedule = Schedule {
        starts_per_second: 10.0,
        ..Schedule::constant(5)
    };
    let driver = Driver::new(script(), schedule, 1);
    let sent = play(driver, at(900), |_| Duration::from_secs(10));
    let begun: Vec<Moment> = sent.iter().map(|(at, _)| *at).collect();
    assert_eq!(begun, [at(0), at(100), at(200), at(300), at(400)]);
}

#[test]
fn a_burst_adds_conversations_and_takes_them_away_again() {
    let schedule = Schedule {
        bursts: vec![Burst {
            begin: at(1000),
            end: at(2000),
            factor: 3.0,
        }],
        ..Schedule::constant(2)
    };
    let mut driver = Driver::new(script(), schedule, 1);
    let before = all_due(&mut driver, at(0));
    assert_eq!(before.len(), 2);
    assert_eq!(driver.next_due(at(0)), Some(at(1000)));
    let during = all_due(&mut driver, at(1000));
    assert_eq!((during.len(), driver.active()), (4, 6));
    for plan in before.iter().chain(&during) {
        driver.ended(plan.lane, Ending::Answered, at(2500));
    }
    assert_eq!(driver.active(), 2);
    assert_eq!(all_due(&mut driver, at(2500)).len(), 2);
}

#[test]
fn thinking_delays_turns_but_not_conversations() {
    let thoughtful = Script {
        turns: 2..=2,
        think_time: Duration::from_secs(5)..=Duration::from_secs(5),
        ..script()
    };
    let driver = Driver::new(thoughtful, Schedule::constant(1), 1);
    let sent = play(driver, at(12_000), |_| Duration::from_secs(1));
    let times: Vec<Moment> = sent.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [at(0), at(6000), at(7000)]);
}

#[test]
fn a_closed_driver_sends_nothing_and_forgets_its_conversations() {
    let mut driver = Driver::new(script(), Schedule::constant(3), 1);
    let under_way = driver.next(at(0)).unwrap();
    driver.close();
    assert_eq!((driver.next(at(0)), driver.next_due(at(0))), (None, None));
    assert_eq!(driver.active(), 1);
    driver.ended(under_way.lane, Ending::Answered, at(5));
    assert_eq!((driver.active(), driver.next(at(5))), (0, None));
}

#[test]
fn the_level_follows_the_slider_up_and_down() {
    let mut driver = Driver::new(script(), Schedule::constant(2), 1);
    let mut under_way = all_due(&mut driver, at(0));
    driver.set_schedule(Schedule::constant(5));
    under_way.extend(all_due(&mut driver, at(100)));
    assert_eq!((under_way.len(), driver.active()), (5, 5));
    driver.set_schedule(Schedule::constant(1));
    let fates: Vec<Fate> = under_way
        .iter()
        .map(|plan| driver.ended(plan.lane, Ending::Answered, at(200)))
        .collect();
    let dropped = fates.iter().filter(|&&fate| fate == Fate::Dropped).count();
    assert_eq!((dropped, driver.active()), (4, 1));
    assert_eq!(fates[4], Fate::GoesOn);
}

#[test]
fn a_shorter_script_ends_conversations_at_their_next_answer() {
    let mut driver = Driver::new(script(), Schedule::constant(1), 1);
    let plan = driver.next(at(0)).unwrap();
    driver.set_script(Script {
        turns: 1..=1,
        max_tokens: 9,
        ..script()
    });
    assert_eq!(driver.ended(plan.lane, Ending::Answered, at(1)), Fate::Over);
    let next = driver.next(at(1)).unwrap();
    assert_eq!((next.conversation, next.turns, next.max_tokens), (1, 1, 9));
}

#[test]
fn a_pause_sends_nothing_and_forgets_nothing() {
    let mut driver = Driver::new(script(), Schedule::constant(2), 1);
    let first = all_due(&mut driver, at(0));
    driver.pause();
    assert_eq!(
        driver.ended(first[0].lane, Ending::Answered, at(5)),
        Fate::GoesOn
    );
    assert_eq!((driver.next(at(9)), driver.next_due(at(9))), (None, None));
    driver.resume(at(20));
    let (due, plan) = driver.take(at(20)).unwrap();
    assert_eq!((due, plan.turn, plan.lane), (at(5), 1, first[0].lane));
}

#[test]
fn a_closed_driver_can_be_opened_again() {
    let mut driver = Driver::new(script(), Schedule::constant(1), 1);
    let plan = driver.next(at(0)).unwrap();
    driver.close();
    assert_eq!(
        driver.ended(plan.lane, Ending::Answered, at(5)),
        Fate::Dropped
    );
    driver.reopen(at(9));
    assert_eq!(driver.next(at(9)).unwrap().conversation, 1);
}

#[test]
fn a_rate_limit_spaces_turns_evenly() {
    let mut driver = Driver::new(script(), Schedule::constant(4), 1);
    driver.limit_rate(Some(10.0));
    let sent = play(driver, at(1000), |_| Duration::from_secs(60));
    let times: Vec<Moment> = sent.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [at(0), at(100), at(200), at(300)]);
}

#[test]
fn in_an_open_loop_conversations_arrive_whatever_becomes_of_others() {
    let run = |latency: u64| {
        let short = Script {
            turns: 1..=1,
            ..script()
        };
        let mut driver = Driver::new(short, Schedule::constant(1), 7);
        driver.set_arrivals(Some(5.0), Moment::ZERO);
        play(driver, at(100_000), |_| Duration::from_millis(latency))
    };
    let (quick, slow) = (run(10), run(30_000));
    let times = |sent: &[(Moment, TurnPlan)]| sent.iter().map(|(at, _)| *at).collect::<Vec<_>>();
    assert_eq!(times(&quick), times(&slow));
    // 500 are expected with a standard deviation of 22.
    assert!((400..600).contains(&quick.len()), "{}", quick.len());
}

proptest! {
    /// The same seed gives the same conversations however fast they are answered, the level
    /// is kept, and nobody speaks out of turn.
    #[test]
    fn timing_decides_when_and_never_what(
        seed: u64,
        level in 1_u32..20,
        fast in 1_u64..500,
        slow in 500_u64..5000,
    ) {
        let run = |millis: u64| {
            let driver = Driver::new(script(), Schedule::constant(level), seed);
            play(driver, at(20_000), |plan| {
                Duration::from_millis(millis + 7 * plan.conversation % 13)
            })
        };
        let (quick, patient) = (run(fast), run(slow));
        let told = |sent: &[(Moment, TurnPlan)]| {
            let mut plans: Vec<TurnPlan> = sent
                .iter()
                .map(|(_, plan)| TurnPlan { lane: 0, ..*plan })
                .collect();
            plans.sort_unstable_by_key(|plan| (plan.conversation, plan.turn));
            plans
        };
        let (quick_plans, patient_plans) = (told(&quick), told(&patient));
        for plan in &patient_plans {
            let place = quick_plans
                .binary_search_by_key(&(plan.conversation, plan.turn), |p| (p.conversation, p.turn));
            prop_assert_eq!(place.ok().map(|place| quick_plans[place]), Some(*plan));
        }
        for sent in [&quick, &patient] {
            let mut expected = std::collections::BTreeMap::new();
            for (_, plan) in sent.iter() {
                let turn = expected.entry(plan.conversation).or_insert(0);
                prop_assert_eq!(plan.turn, *turn);
                *turn += 1;
            }
        }
    }
}
