//! Every member works once on each job, and panics do not hang.
//!
//! Miri runs these too, with fewer jobs: it finds a job that is used after it has gone, and a
//! write that no barrier orders.

#![expect(unsafe_code, reason = "members write what others read in the next job")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Team, share};
use crate::buffer::Rows;

const JOBS: u64 = if cfg!(miri) { 20 } else { 2000 };

#[test]
fn each_member_works_once_on_each_job() {
    let mut team = Team::new(3).unwrap();
    let done: [AtomicU64; 3] = Default::default();
    for _ in 0..JOBS {
        team.run(|member| {
            done[member].fetch_add(1, Ordering::Relaxed);
        });
    }
    // Long enough for the members to fall asleep.
    std::thread::sleep(std::time::Duration::from_millis(20));
    team.run(|member| {
        done[member].fetch_add(1, Ordering::Relaxed);
    });
    assert!(
        done.iter()
            .all(|done| done.load(Ordering::Relaxed) == JOBS + 1)
    );
}

/// What a job borrows is gone after it; what members wrote in one job, others read in the next.
#[test]
fn a_job_ends_before_its_borrows_and_happens_before_the_next() {
    let members = 3;
    let mut team = Team::new(members).unwrap();
    let rows = Rows::new(members, 32).unwrap();
    for job in 0..JOBS {
        let borrowed: Box<[f32]> = vec![job as f32; members].into();
        team.run(|member| {
            // SAFETY: a row for each member.
            unsafe { rows.row_mut(member) }.fill(borrowed[member] + member as f32);
        });
        drop(borrowed);
        team.run(|member| {
            let other = (member + 1) % members;
            // SAFETY: nobody writes in this job.
            let row = unsafe { rows.row(other) };
            assert!(row.iter().all(|value| *value == job as f32 + other as f32));
        });
    }
}

/// The caller's own part unwinds only after the members are done with what they borrow.
#[test]
fn a_panic_of_the_caller_waits_for_the_members() {
    let mut team = Team::new(3).unwrap();
    let done = AtomicU64::new(0);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let borrowed = [7_u64; 3];
        team.run(|member| {
            assert!(member > 0, "the caller's part");
            std::thread::yield_now();
            done.fetch_add(borrowed[member], Ordering::Relaxed);
        });
    }));
    assert!(panicked.is_err());
    assert_eq!(done.load(Ordering::Relaxed), 14);
    // The team works on.
    team.run(|_| {
        done.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(done.load(Ordering::Relaxed), 17);
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
