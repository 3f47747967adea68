//! The order against a list that is searched each time, and shares over long times.

use proptest::prelude::*;

use super::*;

type Plainest = Flows<BTreeSet<u64>>;

/// One flow in the naive model.
#[derive(Clone, Debug, Default)]
struct Plain {
    tag: u64,
    since: u64,
    weight: u64,
    line: Vec<u64>,
}

/// The same rules, without an order that is kept.
#[derive(Debug, Default)]
struct Model {
    flows: BTreeMap<u64, Plain>,
    clock: u64,
    tags: u64,
}

impl Model {
    fn waiting(&self) -> impl Iterator<Item = &Plain> {
        self.flows.values().filter(|flow| !flow.line.is_empty())
    }

    fn tag(&mut self, name: u64, tag: u64) {
        let since = self.tags;
        self.tags += 1;
        let flow = self.flows.entry(name).or_default();
        (flow.tag, flow.since) = (tag, since);
    }

    fn push(&mut self, name: u64, weight: u64, number: u64) {
        let flow = self.flows.entry(name).or_default();
        let begins = flow.line.is_empty();
        flow.weight = weight;
        flow.line.push(number);
        let tag = flow.tag.max(self.clock);
        if begins {
            self.tag(name, tag);
        }
    }

    fn charge(&mut self, name: u64, tokens: u64) {
        let Some(flow) = self.flows.get(&name).cloned() else {
            return;
        };
        let rests = if flow.line.is_empty() { flow.weight } else { 0 };
        let weights = self.waiting().map(|flow| flow.weight).sum::<u64>() + rests;
        self.tag(name, flow.tag + tokens * TOKEN / flow.weight);
        self.clock += tokens * TOKEN / weights;
        let least = self.waiting().map(|flow| flow.tag).min();
        self.clock = self.clock.max(least.unwrap_or(0));
    }

    fn settle(&mut self, name: u64, tokens: i64) {
        if let Some(flow) = self.flows.get(&name).cloned() {
            let time = tokens.unsigned_abs() * TOKEN / flow.weight;
            let tag = match tokens < 0 {
                true => flow.tag.saturating_sub(time),
                false => flow.tag + time,
            };
            self.tag(name, tag);
        }
    }

    /// By looking for the least each time.
    fn order(&self, typical: u64) -> Vec<u64> {
        let mut flows = self.flows.clone();
        let mut order = Vec::new();
        let least = |flows: &BTreeMap<u64, Plain>| {
            let waiting = flows.iter().filter(|(_, flow)| !flow.line.is_empty());
            let least = waiting.min_by_key(|(_, flow)| (flow.tag, flow.since));
            least.map(|(&name, _)| name)
        };
        while let Some(name) = least(&flows) {
            let flow = flows.get_mut(&name).unwrap();
            order.push(flow.line.remove(0));
            flow.tag += typical * TOKEN / flow.weight;
        }
        order
    }
}

fn put(flows: &mut Plainest, name: u64, weight: u64, number: u64) {
    flows.extend(name, weight, |line| assert!(line.insert(number)));
}

/// Binds the head of the order and says whose it was.
fn serve(flows: &mut Plainest, owner: impl Fn(u64) -> u64, tokens: u64) -> u64 {
    let number = flows.numbers(1).next().expect("somebody waits");
    let name = owner(number);
    flows.shorten(name, |line| assert!(line.remove(&number)));
    flows.charge(name, tokens);
    name
}

proptest! {
    #[test]
    fn the_order_is_that_of_a_list_searched_each_time(
        steps in prop::collection::vec((0_u8..6, 0..5_u64, 1..2000_u64), 1..150),
    ) {
        let mut flows = Plainest::default();
        let mut model = Model::default();
        for (number, (step, name, tokens)) in (0..).zip(steps) {
            let weight = name + 1;
            match step {
                0..=2 => {
                    put(&mut flows, name, weight, number);
                    model.push(name, weight, number);
                }
                3 => {
                    let line = model.flows.get_mut(&name).map(|flow| &mut flow.line);
                    if let Some(line) = line.filter(|line| !line.is_empty()) {
                        let number = line.remove(0);
                        flows.shorten(name, |line| assert!(line.remove(&number)));
                    }
                }
                4 => {
                    flows.charge(name, tokens);
                    model.charge(name, tokens);
                }
                _ => {
                    let difference = tokens as i64 - 1000;
                    flows.settle(name, difference);
                    model.settle(name, difference);
                }
            }
            for typical in [1, 300] {
                let order: Vec<u64> = flows.numbers(typical).collect();
                prop_assert_eq!(order, model.order(typical));
            }
            prop_assert_eq!(flows.is_empty(), model.waiting().next().is_none());
        }
    }

    /// Flows that wait all the time get tokens by weight, whatever requests cost.
    #[test]
    fn shares_follow_weights(
        weights in prop::collection::vec(1..9_u64, 2..6),
        costs in prop::collection::vec(1..3000_u64, 300),
    ) {
        let mut flows = Plainest::default();
        let count = weights.len() as u64;
        let mut used = vec![0; weights.len()];
        let most = costs.iter().copied().max().unwrap_or(0) as f64;
        for (round, &cost) in (0..).zip(&costs) {
            // Always another one behind, so that nobody stops waiting.
            for (name, &weight) in (0..).zip(&weights) {
                put(&mut flows, name, weight, round * count + name);
            }
            used[serve(&mut flows, |number| number % count, cost) as usize] += cost;
            for (&left, &weight) in used.iter().zip(&weights) {
                for (&right, &other) in used.iter().zip(&weights) {
                    let apart = left as f64 / weight as f64 - right as f64 / other as f64;
                    let bound = most / weight as f64 + most / other as f64;
                    prop_assert!(apart <= bound + 1e-3, "{used:?} of {weights:?}");
                }
            }
        }
    }
}

#[test]
fn who_comes_back_is_not_held_up_by_a_stream_of_newcomers() {
    let mut flows = Plainest::default();
    // Flow 0 is the regular, and every other number is somebody never seen before.
    let owner = |number: u64| number % 1000;
    put(&mut flows, 0, 1, 0);
    put(&mut flows, 1, 1, 1);
    assert_eq!(serve(&mut flows, owner, 500), 0);
    put(&mut flows, 0, 1, 1000);
    let mut before = 0;
    for newcomer in 2..500 {
        put(&mut flows, newcomer, 1, newcomer);
        if serve(&mut flows, owner, 500) == 0 {
            break;
        }
        before += 1;
    }
    assert!(before <= 4, "{before} newcomers went before it");
}

#[test]
fn those_that_rest_are_forgotten_in_the_end() {
    let mut flows = Plainest::default();
    put(&mut flows, 0, 1, 0);
    for name in 1..20 * MOST_RESTING as u64 {
        put(&mut flows, name, 1, name);
        flows.shorten(name, |line| assert!(line.remove(&name)));
        flows.charge(name, 1_000_000);
        assert!(flows.flows.len() <= MOST_RESTING + 2);
    }
    let line = flows.line(0).unwrap();
    assert!(line.contains(&0), "who waits is not");
}
