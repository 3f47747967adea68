//! Every member works once on each job, and panics do not hang.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Team, share};

#[test]
fn each_member_works_once_on_each_job() {
    let mut team = Team::new(3).unwrap();
    let done: [AtomicU64; 3] = Default::default();
    for _ in 0..2000 {
        team.run(|member| {
            done[member].fetch_add(1, Ordering::Relaxed);
        });
    }
    // Long enough for the members to fall asleep.
    std::thread::sleep(std::time::Duration::from_millis(20));
    team.run(|member| {
        done[member].fetch_add(1, Ordering::Relaxed);
    });
    assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 2001));
}

#[test]
#[should_panic(expected = "a member of the team panicked")]
fn a_panic_reaches_the_caller() {
    let mut team = Team::new(2).unwrap();
    team.run(|member| assert!(member == 0, "not mine"));
}

#[test]
fn shares_cover_everything_once() {
    for (count, part, members) in [(10, 4, 3), (0, 4, 2), (7, 1, 2), (36, 4, 2), (3, 4, 5)] {
        let mut next = 0;
        for member in 0..members {
            let range = share(count, part, member, members);
            assert_eq!(range.start, next);
            next = range.end;
        }
        assert_eq!(next, count);
    }
}
