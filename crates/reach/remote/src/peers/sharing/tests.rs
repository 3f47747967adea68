//! Frontends that hear of each other late, in any order.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const SLOTS: u32 = 64;

fn engine() -> EngineKey {
    EngineKey {
        model: ModelName::new("m"),
        worker: WorkerId(1),
    }
}

/// A frontend that fills whatever lease it has.
#[derive(Debug)]
struct Greedy {
    sharing: Sharing,
    lease: Option<Lease>,
    in_flight: u32,
    waiting: u32,
    /// Frontends that it knows must be heard before leases rise.
    expects: usize,
}

impl Greedy {
    fn new(id: u64, expects: usize) -> Self {
        Self {
            sharing: Sharing::new(FrontendId(id)),
            lease: None,
            in_flight: 0,
            waiting: 0,
            expects,
        }
    }

    fn divide(&mut self, now: Moment) -> Vec<Share> {
        let load = EngineLoad {
            engine: engine(),
            slots: SLOTS,
            load: FrontendLoad {
                in_flight: self.in_flight,
                waiting: self.waiting,
                lease: self.lease.map(|lease| lease.number),
                ..FrontendLoad::default()
            },
        };
        let settled = self.sharing.peers() >= self.expects;
        let shares = self.sharing.divide(vec![load], settled, now);
        self.lease = Some(shares[0].lease);
        shares
    }

    fn slots(&self) -> u32 {
        self.lease.map_or(0, |lease| lease.slots)
    }

    fn fill(&mut self) {
        self.in_flight = self.in_flight.max(self.slots());
    }
}

/// Frontends, and reports on their way from each to each.
struct Network {
    frontends: Vec<Greedy>,
    mail: Vec<Vec<VecDeque<Report>>>,
    now: Moment,
}

impl Network {
    fn new(count: usize) -> Self {
        Self {
            frontends: (0..count)
                .map(|id| Greedy::new(id as u64 + 1, count - 1))
                .collect(),
            mail: vec![vec![VecDeque::new(); count]; count],
            now: Moment::ZERO,
        }
    }

    /// One of them divides and tells all.
    fn tick(&mut self, from: usize) {
        self.frontends[from].divide(self.now);
        self.send(from);
    }

    fn send(&mut self, from: usize) {
        let report = self.frontends[from].sharing.report();
        for (to, mail) in self.mail[from].iter_mut().enumerate() {
            if to != from {
                mail.push_back(report.clone());
            }
        }
    }

    fn deliver(&mut self, from: usize, to: usize) {
        if let Some(report) = self.mail[from][to].pop_front()
            && self.frontends[to].sharing.hear(report, self.now)
        {
            self.send(to);
        }
    }

    /// All of them tell and hear everything, several times.
    fn rounds(&mut self, rounds: usize) {
        let count = self.frontends.len();
        for _ in 0..rounds {
            self.now += Duration::from_millis(50);
            for from in 0..count {
                self.tick(from);
                while self.mail.iter().flatten().any(|mail| !mail.is_empty()) {
                    for from in 0..count {
                        for to in 0..count {
                            self.deliver(from, to);
                        }
                    }
                }
            }
        }
    }

    fn together(&self) -> u32 {
        self.frontends.iter().map(|one| one.in_flight).sum()
    }

    fn slots(&self) -> Vec<u32> {
        self.frontends.iter().map(Greedy::slots).collect()
    }
}

#[test]
fn a_frontend_alone_has_all_slots_at_once() {
    let mut network = Network::new(1);
    network.tick(0);
    assert_eq!(network.slots(), [SLOTS]);
}

#[test]
fn nothing_is_lent_before_the_others_were_heard() {
    let mut network = Network::new(2);
    network.tick(0);
    assert_eq!(network.slots(), [0, 0]);
}

#[test]
fn idle_frontends_divide_evenly() {
    let mut network = Network::new(2);
    network.rounds(8);
    assert_eq!(network.slots(), [32, 32]);
    let mut network = Network::new(3);
    network.rounds(8);
    let slots = network.slots();
    assert!(slots.iter().all(|one| *one >= 20), "{slots:?}");
    assert!(slots.iter().sum::<u32>() <= SLOTS, "{slots:?}");
}

#[test]
fn who_needs_more_gets_what_the_other_does_not_need() {
    let mut network = Network::new(2);
    network.rounds(8);
    network.frontends[0].in_flight = 32;
    network.frontends[0].waiting = 100;
    network.frontends[1].in_flight = 5;
    network.rounds(8);
    assert_eq!(network.slots(), [59, 5]);
    // Then the other one has requests that wait, and gets its half as the first one's end.
    network.frontends[0].in_flight = 59;
    network.frontends[1].waiting = 50;
    network.rounds(4);
    assert_eq!(network.slots(), [59, 5]);
    network.frontends[0].in_flight = 20;
    network.rounds(8);
    assert_eq!(network.slots(), [32, 32]);
}

#[test]
fn who_falls_silent_is_forgotten_with_what_it_had() {
    let mut network = Network::new(2);
    network.rounds(8);
    network.frontends[1].in_flight = 32;
    network.frontends[0].waiting = 100;
    network.rounds(2);
    let mut beats = 0;
    while network.frontends[0].slots() < SLOTS {
        network.now += Duration::from_millis(50);
        let shares = network.frontends[0].divide(network.now);
        beats += 1;
        let known = network.frontends[0].sharing.peers();
        assert_eq!(shares[0].others.len(), known);
        assert!(beats <= 40, "forgotten within two seconds");
    }
    assert!(beats >= 25, "but not by a pause: {beats}");
}

#[test]
fn who_overslept_begins_with_what_it_has_running() {
    let mut network = Network::new(2);
    network.rounds(8);
    network.frontends[0].in_flight = 10;
    network.now += Duration::from_secs(5);
    // Until the other has confirmed a new claim.
    for _ in 0..3 {
        network.tick(0);
        assert_eq!(network.frontends[0].slots(), 0);
    }
    network.rounds(8);
    assert_eq!(network.frontends[0].slots(), 37);
}

#[test]
fn reports_that_come_late_or_are_our_own_change_nothing() {
    let mut one = Greedy::new(1, 0);
    let mut other = Greedy::new(2, 0);
    other.divide(Moment::ZERO);
    let (first, second) = (other.sharing.report(), other.sharing.report());
    assert!(!one.sharing.hear(second, Moment::ZERO));
    let engines = one.sharing.peers.values().next().unwrap().engines.clone();
    one.sharing.hear(first, Moment::ZERO);
    assert_eq!(one.sharing.peers.values().next().unwrap().number, 2);
    assert_eq!(one.sharing.peers.values().next().unwrap().engines, engines);
    let own = one.sharing.report();
    one.sharing.hear(own, Moment::ZERO);
    assert_eq!(one.sharing.peers(), 1);
}

#[test]
fn absurd_claims_leave_nothing_and_break_nothing() {
    let mut one = Greedy::new(1, 0);
    let load = FrontendLoad {
        in_flight: u32::MAX,
        waiting: u32::MAX,
        ..FrontendLoad::default()
    };
    for id in 2..500 {
        let report = Report {
            frontend: FrontendId(id),
            number: u64::MAX,
            asks: true,
            seen: vec![(FrontendId(1), u64::MAX)],
            engines: vec![Announced {
                engine: engine(),
                slots: 0,
                claim: u32::MAX,
                load,
            }],
        };
        one.sharing.hear(report, Moment::ZERO);
    }
    assert_eq!(one.sharing.peers(), MOST_PEERS);
    one.divide(Moment::ZERO);
    assert_eq!(one.slots(), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Tick(usize),
    Deliver(usize, usize),
    Fill(usize),
    Finish(usize, u32),
    Wait(usize, u32),
}

fn step() -> impl Strategy<Value = Step> {
    let who = || 0..4_usize;
    prop_oneof![
        3 => who().prop_map(Step::Tick),
        8 => (who(), who()).prop_map(|(from, to)| Step::Deliver(from, to)),
        2 => who().prop_map(Step::Fill),
        2 => (who(), 0..40_u32).prop_map(|(who, count)| Step::Finish(who, count)),
        1 => (who(), 0..100_u32).prop_map(|(who, count)| Step::Wait(who, count)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However late they hear of each other, as long as nobody counts as gone.
    #[test]
    fn slots_are_never_given_twice(
        count in 2..5_usize,
        steps in prop::collection::vec(step(), 0..600),
    ) {
        let mut network = Network::new(count);
        for step in steps {
            match step {
                Step::Tick(who) if who < count => network.tick(who),
                Step::Deliver(from, to) if from < count && to < count => network.deliver(from, to),
                Step::Fill(who) if who < count => network.frontends[who].fill(),
                Step::Finish(who, done) if who < count => {
                    let one = &mut network.frontends[who];
                    one.in_flight = one.in_flight.saturating_sub(done);
                }
                Step::Wait(who, waiting) if who < count => network.frontends[who].waiting = waiting,
                Step::Tick(_) | Step::Deliver(..) | Step::Fill(_) | Step::Finish(..) | Step::Wait(..) => {}
            }
            prop_assert!(network.together() <= SLOTS, "{}", network.together());
        }
    }
}
