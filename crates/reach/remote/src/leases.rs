//! How a worker divides its slots among the frontends that use it.
//!
//! Frontends hear of each other late, so each may only use what it has been lent. A lease
//! grows at once when the worker says so; it shrinks when the frontend says that it obeys the
//! smaller one and has no more requests than that. Until then the worker counts the larger
//! one, and that is the whole proof: what is counted for all frontends together never exceeds
//! the slots.
//!
//! Who gets how much: every frontend what it needs (its requests here and those that wait), by
//! fair shares where that is too much together; the rest is divided evenly, so that the next
//! request of any of them finds a place at once.

use std::collections::BTreeMap;

use contract::{FrontendId, FrontendLoad, Lease};

/// The books of one worker.
#[derive(Debug)]
pub struct Leases {
    slots: u32,
    tenants: BTreeMap<FrontendId, FrontendShare>,
}

#[derive(Clone, Copy, Debug)]
struct FrontendShare {
    /// The latest lease that was sent to it.
    granted: Lease,
    /// The largest that it may still act on.
    counted: u32,
    load: FrontendLoad,
}

impl FrontendShare {
    fn grant(&mut self, slots: u32) -> Lease {
        let number = self.granted.number + 1;
        self.granted = Lease { number, slots };
        self.granted
    }
}

impl Leases {
    pub fn new(slots: u32) -> Self {
        Self {
            slots,
            tenants: BTreeMap::new(),
        }
    }

    /// A frontend comes in; its first lease is what nobody else can claim, up to its share.
    pub fn enter(&mut self, frontend: FrontendId) -> Lease {
        self.tenants.remove(&frontend);
        let share = self.slots / (self.tenants.len() as u32 + 1);
        let slots = self.unclaimed().min(share.max(1));
        let granted = Lease { number: 0, slots };
        let tenant = FrontendShare {
            granted,
            counted: slots,
            load: FrontendLoad::default(),
        };
        self.tenants.insert(frontend, tenant);
        granted
    }

    /// A frontend is gone, and what it was lent is free.
    pub fn leave(&mut self, frontend: FrontendId) {
        self.tenants.remove(&frontend);
    }

    /// A frontend says what it has here and which lease it obeys.
    pub fn report(&mut self, frontend: FrontendId, load: FrontendLoad) {
        let Some(tenant) = self.tenants.get_mut(&frontend) else {
            return;
        };
        tenant.load = load;
        // By number: a lease of the same size may have been sent twice, with a larger one
        // between them that is still on its way.
        if load.lease == Some(tenant.granted.number) {
            let most = tenant.granted.slots.max(load.in_flight);
            tenant.counted = tenant.counted.min(most);
        }
    }

    /// What every frontend has here.
    pub fn loads(&self) -> Vec<(FrontendId, FrontendLoad)> {
        let loads = self.tenants.iter();
        loads.map(|(id, tenant)| (*id, tenant.load)).collect()
    }

    /// Divides the slots again. Returns the leases that changed, to be sent.
    pub fn divide(&mut self) -> Vec<(FrontendId, Lease)> {
        let wanted = self.shares();
        let mut changed = Vec::new();
        // First those that give, then those that take: only free slots are taken.
        for (id, tenant) in &mut self.tenants {
            let under_way = tenant.load.in_flight.min(tenant.granted.slots);
            let share = wanted[id].max(under_way);
            if share < tenant.granted.slots {
                changed.push((*id, tenant.grant(share)));
            }
        }
        for (id, share) in wanted {
            let unclaimed = self.unclaimed();
            let Some(tenant) = self.tenants.get_mut(&id) else {
                continue;
            };
            // What is still counted for it, it may have back without asking.
            let reach = tenant.counted + unclaimed;
            let share = share.min(reach);
            if share > tenant.granted.slots {
                tenant.counted = tenant.counted.max(share);
                changed.retain(|(told, _)| *told != id);
                changed.push((id, tenant.grant(share)));
            }
        }
        changed
    }

    /// Slots that no frontend may act on.
    fn unclaimed(&self) -> u32 {
        let counted: u32 = self.tenants.values().map(|tenant| tenant.counted).sum();
        self.slots.saturating_sub(counted)
    }

    /// What each should have if all slots were free.
    fn shares(&self) -> BTreeMap<FrontendId, u32> {
        let need =
            |tenant: &FrontendShare| tenant.load.in_flight.saturating_add(tenant.load.waiting);
        let needs = self.tenants.iter();
        let needs = needs.map(|(id, tenant)| (*id, need(tenant))).collect();
        fair_shares(self.slots, needs)
    }
}

/// Divides slots among frontends that need so many each: the modest are served in full, the others
/// divide what is left, and what nobody needs is divided evenly.
pub fn fair_shares(slots: u32, mut needs: Vec<(FrontendId, u32)>) -> BTreeMap<FrontendId, u32> {
    needs.sort_by_key(|(id, need)| (*need, *id));
    let mut left = slots;
    let mut shares = BTreeMap::new();
    for (index, (id, need)) in needs.iter().enumerate() {
        let others = (needs.len() - index) as u32;
        let share = (*need).min(left / others);
        shares.insert(*id, share);
        left -= share;
    }
    for (index, (id, _)) in needs.iter().enumerate() {
        let others = (needs.len() - index) as u32;
        let spare = left / others;
        *shares.entry(*id).or_default() += spare;
        left -= spare;
    }
    shares
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SLOTS: u32 = 64;

    fn load(in_flight: u32, waiting: u32, lease: u32) -> FrontendLoad {
        FrontendLoad {
            in_flight,
            waiting,
            lease: Some(lease),
            ..FrontendLoad::default()
        }
    }

    fn granted(leases: &Leases, frontend: u64) -> u32 {
        leases.tenants[&FrontendId(frontend)].granted.slots
    }

    /// The slots that each frontend was sent.
    fn told(changed: Vec<(FrontendId, Lease)>) -> Vec<(u64, u32)> {
        let told = changed.into_iter();
        told.map(|(id, lease)| (id.0, lease.slots)).collect()
    }

    /// A report of a frontend that obeys its latest lease.
    fn obeys(leases: &mut Leases, frontend: u64, in_flight: u32, waiting: u32) {
        let number = leases.tenants[&FrontendId(frontend)].granted.number;
        leases.report(FrontendId(frontend), load(in_flight, waiting, number));
    }

    #[test]
    fn one_frontend_has_all_slots_and_two_have_half_each() {
        let mut leases = Leases::new(SLOTS);
        assert_eq!(leases.enter(FrontendId(1)).slots, SLOTS);
        assert_eq!(told(leases.divide()), []);
        // The second gets nothing before the first has obeyed.
        assert_eq!(leases.enter(FrontendId(2)).slots, 0);
        assert_eq!(told(leases.divide()), [(1, 32)]);
        assert_eq!(told(leases.divide()), []);
        obeys(&mut leases, 1, 0, 0);
        assert_eq!(told(leases.divide()), [(2, 32)]);
    }

    #[test]
    fn requests_under_way_are_not_taken_back() {
        let mut leases = Leases::new(SLOTS);
        leases.enter(FrontendId(1));
        obeys(&mut leases, 1, 50, 0);
        leases.enter(FrontendId(2));
        leases.divide();
        assert_eq!(granted(&leases, 1), 57);
        obeys(&mut leases, 1, 50, 0);
        leases.divide();
        assert_eq!(granted(&leases, 2), 7);
    }

    #[test]
    fn those_who_wait_get_what_others_do_not_need() {
        let mut leases = Leases::new(SLOTS);
        for id in [1, 2] {
            leases.enter(FrontendId(id));
        }
        obeys(&mut leases, 1, 60, 100);
        obeys(&mut leases, 2, 0, 100);
        leases.divide();
        // The first keeps its sixty until they end, and then half is the other's.
        obeys(&mut leases, 1, 60, 100);
        leases.divide();
        assert_eq!(granted(&leases, 2), 4);
        obeys(&mut leases, 1, 20, 100);
        leases.divide();
        obeys(&mut leases, 1, 20, 100);
        leases.divide();
        assert_eq!((granted(&leases, 1), granted(&leases, 2)), (32, 32));
    }

    #[test]
    fn what_a_dead_frontend_had_is_free_at_once() {
        let mut leases = Leases::new(SLOTS);
        leases.enter(FrontendId(1));
        obeys(&mut leases, 1, 64, 64);
        leases.enter(FrontendId(2));
        assert_eq!(granted(&leases, 2), 0);
        leases.leave(FrontendId(1));
        assert_eq!(told(leases.divide()), [(2, SLOTS)]);
    }

    /// A frontend that fills whatever lease it obeys, and hears of leases late.
    #[derive(Clone, Debug, Default)]
    struct Greedy {
        mail: std::collections::VecDeque<Lease>,
        lease: Option<Lease>,
        in_flight: u32,
    }

    #[derive(Clone, Debug)]
    enum Step {
        Enter(u64),
        Leave(u64),
        Hear(u64),
        Fill(u64),
        Finish(u64, u32),
        Report(u64, u32),
        Divide,
    }

    fn step() -> impl Strategy<Value = Step> {
        let id = || 0..4_u64;
        prop_oneof![
            id().prop_map(Step::Enter),
            id().prop_map(Step::Leave),
            id().prop_map(Step::Hear),
            id().prop_map(Step::Hear),
            id().prop_map(Step::Fill),
            (id(), 0..20_u32).prop_map(|(id, count)| Step::Finish(id, count)),
            (id(), 0..100_u32).prop_map(|(id, waiting)| Step::Report(id, waiting)),
            (id(), 0..100_u32).prop_map(|(id, waiting)| Step::Report(id, waiting)),
            Just(Step::Divide),
            Just(Step::Divide),
        ]
    }

    proptest! {
        /// Whatever the delays, frontends that obey never have more than the slots together.
        #[test]
        fn slots_are_never_given_twice(steps in prop::collection::vec(step(), 0..400)) {
            let mut leases = Leases::new(SLOTS);
            let mut frontends: BTreeMap<u64, Greedy> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Enter(id) => {
                        // Only a frontend whose requests have ended comes in again.
                        if frontends.get(&id).is_none_or(|one| one.in_flight == 0) {
                            let lease = leases.enter(FrontendId(id));
                            let lease = Some(lease);
                            frontends.insert(id, Greedy { lease, ..Greedy::default() });
                        }
                    }
                    Step::Leave(id) => {
                        frontends.remove(&id);
                        leases.leave(FrontendId(id));
                    }
                    Step::Hear(id) => {
                        if let Some(one) = frontends.get_mut(&id)
                            && let Some(lease) = one.mail.pop_front()
                        {
                            one.lease = Some(lease);
                        }
                    }
                    Step::Fill(id) => {
                        if let Some(one) = frontends.get_mut(&id) {
                            let slots = one.lease.map_or(0, |lease| lease.slots);
                            one.in_flight = one.in_flight.max(slots);
                        }
                    }
                    Step::Finish(id, count) => {
                        if let Some(one) = frontends.get_mut(&id) {
                            one.in_flight = one.in_flight.saturating_sub(count);
                        }
                    }
                    Step::Report(id, waiting) => {
                        if let Some(one) = frontends.get(&id) {
                            let number = one.lease.map_or(0, |lease| lease.number);
                            leases.report(FrontendId(id), load(one.in_flight, waiting, number));
                        }
                    }
                    Step::Divide => {
                        for (id, lease) in leases.divide() {
                            let one = frontends.get_mut(&id.0).expect("only members are told");
                            one.mail.push_back(lease);
                        }
                    }
                }
                let together: u32 = frontends.values().map(|one| one.in_flight).sum();
                prop_assert!(together <= SLOTS, "{together} of {SLOTS}: {leases:?}");
            }
        }
    }
}
