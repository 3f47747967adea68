//! Whose turn it is, as tables and against a naive list.

use proptest::prelude::*;

use super::*;

const HERE: WorkerId = WorkerId(1);

fn waiting(name: &str, priority: i32, excluded: &[u64]) -> Waiting {
    Waiting {
        request: RequestId::new(name),
        prompt_tokens: 100,
        chain: Box::default(),
        excluded: excluded.iter().copied().map(WorkerId).collect(),
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
        ("the last one is", &["c"], ["c", "urgent", "a", "b"]),
        ("two are", &["b", "c"], ["b", "c", "urgent", "a"]),
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
fn the_turn_of_a_newcomer_is_counted_by_priority() {
    let mut queue = Queue::default();
    for priority in [0, 3, 0, -1] {
        queue.push(waiting("r", priority, &[]));
    }
    for (priority, ahead) in [(9, 0), (3, 1), (2, 1), (0, 3), (-1, 4), (-5, 4)] {
        assert_eq!(queue.ahead_of(priority), ahead, "priority {priority}");
    }
}

proptest! {
    /// Against a list that is sorted each time, with cancellations in between.
    #[test]
    fn turns_agree_with_a_sorted_list(
        steps in prop::collection::vec((0_u8..4, 0..3_i32, any::<bool>()), 1..200),
    ) {
        let mut queue = Queue::default();
        // Ticket, priority, at home, overtaken; in order of arrival.
        let mut list: Vec<(Ticket, i32, bool, u32)> = Vec::new();
        for (step, priority, home) in steps {
            match step {
                0 | 1 => {
                    let name = if home { "native" } else { "stranger" };
                    let ticket = queue.push(waiting(name, priority, &[]));
                    list.push((ticket, priority, home, 0));
                }
                2 => {
                    list.sort_by_key(|one| Reverse(one.1));
                    let suits = |one: &(Ticket, i32, bool, u32)| one.2 || one.3 >= MOST_OVERTAKEN;
                    let looked_at = &list[..list.len().min(WINDOW)];
                    let chosen = looked_at.iter().position(suits).unwrap_or(0);
                    let taken =
                        queue.take_for(HERE, |waiting| waiting.request.as_str() == "native");
                    prop_assert_eq!(taken.is_some(), !list.is_empty());
                    if let Some((ticket, taken)) = taken {
                        prop_assert_eq!((ticket, taken.overtaken), (list[chosen].0, list[chosen].3));
                        list[..chosen].iter_mut().for_each(|one| one.3 += 1);
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
}
