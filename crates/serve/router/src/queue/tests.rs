//! Whose turn it is, as tables and against a naive list.

use proptest::prelude::*;

use super::*;

const HERE: WorkerId = WorkerId(1);

fn waiting(name: &str, priority: i32, excluded: &[u64]) -> Waiting {
    of(Identity::default(), name, priority, excluded)
}

fn tenant(tenant: u64, share: u32, session: u64) -> Identity {
    Identity {
        tenant,
        share,
        session,
    }
}

fn of(identity: Identity, name: &str, priority: i32, excluded: &[u64]) -> Waiting {
    Waiting {
        identity,
        request: RequestId::new(name),
        prompt_tokens: 100,
        chain: Box::default(),
        excluded: excluded
            .iter()
            .map(|&id| Excluded::tried(WorkerId(id)))
            .collect(),
        priority,
        deadline: None,
        since: Moment::ZERO,
        overtaken: 0,
    }
}

/// Takes everyone in turn; those named in `home` are at home.
fn order(queue: &mut Queue, home: &[&str]) -> Vec<String> {
    let mut order = Vec::new();
    while let Some((_, taken)) =
        queue.take_for(HERE, |waiting| home.contains(&waiting.request.as_str()))
    {
        order.push(taken.request.as_str().to_owned());
    }
    order
}

#[test]
fn priority_then_home_then_arrival() {
    for (name, home, expected) in [
        ("nobody is at home", &[][..], ["urgent", "a", "b", "c"]),
        (
            "everybody is",
            &["a", "b", "c", "urgent"],
            ["urgent", "a", "b", "c"],
        ),
        // Being at home counts within a class.
        ("the last one is", &["c"], ["urgent", "c", "a", "b"]),
        ("two are", &["b", "c"], ["urgent", "b", "c", "a"]),
    ] {
        let mut queue = Queue::default();
        for (request, priority) in [("a", 0), ("b", 0), ("urgent", 5), ("c", 0)] {
            queue.push(waiting(request, priority, &[]));
        }
        assert_eq!(order(&mut queue, home), expected, "{name}");
    }
}

#[test]
fn a_worker_gets_nobody_who_failed_there() {
    let mut queue = Queue::default();
    queue.push(waiting("failed here", 0, &[HERE.0]));
    queue.push(waiting("failed elsewhere", 0, &[7]));
    assert_eq!(order(&mut queue, &["failed here"]), ["failed elsewhere"]);
    assert_eq!(queue.len(), 1);
    // Also when all that are looked at have failed there.
    for _ in 0..WINDOW {
        queue.push(waiting("failed here", 0, &[HERE.0]));
    }
    queue.push(waiting("behind them", 0, &[]));
    assert_eq!(order(&mut queue, &[]), ["behind them"]);
}

#[test]
fn nobody_is_overtaken_more_often_than_allowed() {
    let mut queue = Queue::default();
    let first = queue.push(waiting("stranger", 0, &[]));
    for _ in 0..=MOST_OVERTAKEN {
        queue.push(waiting("native", 0, &[]));
    }
    let order = order(&mut queue, &["native"]);
    let turn = order.iter().position(|name| name == "stranger");
    assert_eq!(turn, Some(MOST_OVERTAKEN as usize));
    assert!(queue.take(first).is_none());
}

#[test]
fn only_the_window_is_looked_at() {
    let mut queue = Queue::default();
    for _ in 0..WINDOW {
        queue.push(waiting("stranger", 0, &[]));
    }
    queue.push(waiting("native", 0, &[]));
    let order = order(&mut queue, &["native"]);
    assert_eq!(&order[..2], ["stranger", "native"]);
}

#[test]
fn the_turn_of_a_newcomer_is_counted_by_priority_and_share() {
    let mut queue = Queue::default();
    for priority in [0, 3, 0, -1] {
        queue.push(waiting("r", priority, &[]));
    }
    let nobody = Identity::default();
    for (priority, ahead) in [(9, 0), (3, 1), (2, 1), (0, 3), (-1, 4), (-5, 4)] {
        assert_eq!(
            queue.ahead_of(priority, nobody),
            ahead,
            "priority {priority}"
        );
    }
    let mut queue = Queue::default();
    for _ in 0..100 {
        queue.push(of(tenant(1, 1, 1), "greedy", 0, &[]));
    }
    for (name, identity, ahead) in [
        ("the greedy session", tenant(1, 1, 1), 100),
        ("another session of it", tenant(1, 1, 2), 1),
        ("another tenant", tenant(2, 1, 1), 1),
        ("one of four times the share", tenant(2, 4, 1), 1),
    ] {
        assert_eq!(queue.ahead_of(0, identity), ahead, "{name}");
    }
}

#[test]
fn a_lower_class_has_one_slot_in_seventeen() {
    let mut queue = Queue::default();
    let mut turns = Vec::new();
    queue.push(waiting("low", -1, &[]));
    for slot in 0..60 {
        // Somebody urgent is always there, and asks for more than there is.
        queue.push(waiting("urgent", i32::MAX, &[]));
        let (_, taken) = queue.take_for(HERE, |_| true).unwrap();
        if taken.request.as_str() == "low" {
            turns.push(slot);
            queue.push(waiting("low", i32::MIN, &[]));
        }
    }
    assert_eq!(turns, [16, 33, 50]);
}

#[test]
fn a_greedy_tenant_and_a_modest_one_take_turns() {
    let mut queue = Queue::default();
    for _ in 0..500 {
        queue.push(of(tenant(1, 1, 0), "greedy", 0, &[]));
    }
    for _ in 0..3 {
        queue.push(of(tenant(2, 1, 0), "modest", 0, &[]));
    }
    let mut order = Vec::new();
    for _ in 0..8 {
        let (_, taken) = queue.take_for(HERE, |_| false).unwrap();
        queue.charge(&taken, 100);
        order.push(taken.request.as_str().to_owned());
    }
    let modest = order.iter().filter(|name| *name == "modest").count();
    assert_eq!(modest, 3, "{order:?}");
    assert!(order[..2].contains(&"modest".to_owned()), "{order:?}");
}

#[test]
fn a_tenant_pays_for_the_answer_that_came_and_not_for_the_one_expected() {
    let mut queue = Queue::default();
    for _ in 0..100 {
        queue.push(of(tenant(1, 1, 0), "long", 0, &[]));
        queue.push(of(tenant(2, 1, 0), "short", 0, &[]));
    }
    let mut served = [0, 0];
    for _ in 0..80 {
        let (_, taken) = queue.take_for(HERE, |_| false).unwrap();
        let charge = queue.charge(&taken, 0);
        let long = taken.identity.tenant == 1;
        served[usize::from(!long)] += 1;
        queue.settle(charge, if long { 900 } else { 100 });
    }
    assert!(served[1] > 8 * served[0], "{served:?}");
}

#[test]
fn the_last_of_whoever_has_most_makes_place() {
    let mut queue = Queue::default();
    for _ in 0..4 {
        queue.push(of(tenant(1, 4, 0), "four shares", 0, &[]));
    }
    let mut lone = Vec::new();
    for _ in 0..3 {
        lone.push(queue.push(of(tenant(2, 1, 0), "one share", 0, &[])));
    }
    // A place more for the first would still be less for its share.
    assert_eq!(queue.displace(tenant(1, 4, 0)), lone.pop());
    assert_eq!(queue.displace(tenant(3, 1, 0)), lone.pop());
    assert_eq!(queue.displace(tenant(3, 1, 0)), None);
    assert_eq!(queue.displace(tenant(2, 1, 0)), None);
    assert_eq!(queue.len(), 5);
}

proptest! {
    /// Of one session, against a plain list, with cancellations in between.
    #[test]
    fn turns_agree_with_a_list(
        steps in prop::collection::vec((0_u8..4, any::<bool>()), 1..200),
    ) {
        let mut queue = Queue::default();
        // Ticket, at home, overtaken; in order of arrival.
        let mut list: Vec<(Ticket, bool, u32)> = Vec::new();
        for (step, home) in steps {
            match step {
                0 | 1 => {
                    let name = if home { "native" } else { "stranger" };
                    list.push((queue.push(waiting(name, 0, &[])), home, 0));
                }
                2 => {
                    let suits = |one: &(Ticket, bool, u32)| one.1 || one.2 >= MOST_OVERTAKEN;
                    let looked_at = &list[..list.len().min(WINDOW)];
                    let chosen = looked_at.iter().position(suits).unwrap_or(0);
                    let taken =
                        queue.take_for(HERE, |waiting| waiting.request.as_str() == "native");
                    prop_assert_eq!(taken.is_some(), !list.is_empty());
                    if let Some((ticket, taken)) = taken {
                        prop_assert_eq!((ticket, taken.overtaken), (list[chosen].0, list[chosen].2));
                        list[..chosen].iter_mut().for_each(|one| one.2 += 1);
                        list.remove(chosen);
                    }
                }
                _ => {
                    if let Some((ticket, ..)) = list.pop() {
                        prop_assert!(queue.take(ticket).is_some());
                        prop_assert!(queue.take(ticket).is_none());
                    }
                }
            }
            prop_assert_eq!(queue.len(), list.len());
        }
    }

    /// Anybody, anywhere: a slot is used if anyone may have it, a session's requests keep their
    /// order but for those at home, and nobody and no class is overtaken too often.
    #[test]
    fn slots_are_used_and_nobody_starves(
        steps in prop::collection::vec((0_u8..9, 0..4_u64, 0..3_u64, -1..2_i32, 0..8_u8), 1..400),
    ) {
        let mut queue = Queue::default();
        let mut there: BTreeMap<Ticket, Waiting> = BTreeMap::new();
        let mut open = Vec::new();
        // Slots in a row that went to a higher class while this one waited.
        let mut passed: BTreeMap<i32, u32> = BTreeMap::new();
        for (step, name, session, priority, kind) in steps {
            match step {
                0..=3 => {
                    let identity = tenant(name, name as u32 + 1, session);
                    let excluded: &[u64] = if kind == 0 { &[HERE.0] } else { &[] };
                    let native = if kind < 4 { "native" } else { "stranger" };
                    let waiting = of(identity, native, priority, excluded);
                    there.insert(queue.push(waiting.clone()), waiting);
                }
                4..=6 => {
                    let is_home = |waiting: &Waiting| waiting.request.as_str() == "native";
                    let taken = queue.take_for(HERE, is_home);
                    let may = there.values().any(|waiting| waiting.may_go_to(HERE));
                    prop_assert_eq!(taken.is_some(), may);
                    let Some((ticket, taken)) = taken else {
                        continue;
                    };
                    there.remove(&ticket);
                    prop_assert!(taken.overtaken <= MOST_OVERTAKEN);
                    let alike = |other: &Waiting| {
                        other.identity == taken.identity && other.priority == taken.priority
                    };
                    if !is_home(&taken) {
                        let older = there.iter().find(|(other, waiting)| {
                            **other < ticket && alike(waiting) && waiting.may_go_to(HERE)
                        });
                        prop_assert!(older.is_none(), "{older:?} was there before");
                    }
                    for class in -1..2 {
                        let waits = there.values().any(|waiting| waiting.priority == class);
                        let passed = passed.entry(class).or_default();
                        match waits && taken.priority > class {
                            true => *passed += 1,
                            false => *passed = 0,
                        }
                        let blocked = there.values().all(|waiting| {
                            waiting.priority != class || !waiting.may_go_to(HERE)
                        });
                        prop_assert!(blocked || *passed <= MOST_OVERTAKEN + 1, "{class}: {passed}");
                    }
                    open.push(queue.charge(&taken, u32::from(kind) * 100));
                }
                7 => {
                    if let Some(charge) = open.pop() {
                        queue.settle(charge, u32::from(kind) * 200);
                        queue.heed_output(u32::from(kind) * 200);
                    }
                }
                _ => {
                    let first = there.keys().next().copied();
                    if let Some(ticket) = first {
                        prop_assert!(queue.take(ticket).is_some());
                        there.remove(&ticket);
                        // Who waits from now on has not been passed over.
                        passed.retain(|&class, _| {
                            there.values().any(|waiting| waiting.priority == class)
                        });
                    }
                }
            }
            prop_assert_eq!(queue.len(), there.len());
        }
        queue.take_lost(|_| true);
        prop_assert!(queue.is_empty() && queue.ranks.is_empty() && queue.holdings.is_empty());
    }

    /// Tenants that wait all the time get tokens by share, though one of them is at home
    /// everywhere and the others nowhere.
    #[test]
    fn being_at_home_does_not_change_the_shares(
        shares in prop::collection::vec(1..5_u32, 2..5),
        costs in prop::collection::vec(1..1000_u32, 1500),
    ) {
        let mut queue = Queue::default();
        let mut used = vec![0.0; shares.len()];
        let most = f64::from(*costs.iter().max().unwrap()) + FIRST_OUTPUT;
        let mut waiting = vec![0_usize; shares.len()];
        for &cost in &costs {
            for (name, &share) in shares.iter().enumerate() {
                while waiting[name] < 2 * WINDOW {
                    queue.push(of(tenant(name as u64, share, 0), "r", 0, &[]));
                    waiting[name] += 1;
                }
            }
            let (_, taken) = queue.take_for(HERE, |waiting| waiting.identity.tenant == 0).unwrap();
            let name = taken.identity.tenant as usize;
            waiting[name] -= 1;
            queue.charge(&taken, cost);
            used[name] += (f64::from(cost) + FIRST_OUTPUT) / f64::from(shares[name]);
        }
        let (least, greatest) = used.iter().fold((f64::MAX, 0.0_f64), |(least, greatest), &used| {
            (least.min(used), greatest.max(used))
        });
        prop_assert!(greatest - least <= WINDOW as f64 * most, "{used:?} of {shares:?}");
    }
}
