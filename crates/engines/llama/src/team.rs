//! Threads that work on one thing together, many times a millisecond.
//!
//! A step has hundreds of parts of some microseconds each, and after each all must be done.
//! Members therefore look for the next part for a while before they sleep. The caller is
//! member 0 and works too.
//!
//! # Why members may borrow
//!
//! A job is a closure on the caller's stack, and members get its address without its lifetime.
//!
//! 1. The address is written before `number` changes. A member reads it after it has seen the change:
//!    the two are sequentially consistent, so the write happens before the read.
//! 2. `busy` is set to the number of members before `number` changes, and a member takes one off, with
//!    release, after its call has returned or unwound. It uses the address no more until `number`
//!    changes again, and it cannot take off two: it waits for a change in between.
//! 3. [`Team::run`] leaves only when it has read 0 from `busy`, with acquire: whether its own part
//!    returned or panicked, since that is caught. Nothing between the publication and that loop can
//!    panic. So all calls end before `run` does, and with it the borrow.
//! 4. `run` takes `&mut self`: there is one job at a time, and nobody writes the address meanwhile.
//! 5. A stopped member reads no address, and `drop` waits for all members.

#![expect(
    unsafe_code,
    reason = "members borrow a job from the caller, who waits for them"
)]

#[cfg(test)]
mod tests;

use std::cell::UnsafeCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle, Thread};

/// Looks before sleeping: some tens of microseconds. Miri runs one thread at a time, so there a
/// look is time that the others do not get.
const LOOKS: u32 = if cfg!(miri) { 2 } else { 500 };

type Job = *const (dyn Fn(usize) + Sync);

/// Workers that share a caller's jobs.
pub(crate) struct Team {
    shared: Arc<Shared>,
    members: Vec<JoinHandle<()>>,
    handles: Vec<Thread>,
}

struct Shared {
    /// Counts jobs; members wait for it to change.
    number: AtomicU32,
    job: UnsafeCell<Option<Job>>,
    /// Members that have not finished the job.
    busy: AtomicU32,
    /// For each member but the caller: whether it may be asleep.
    asleep: Vec<AtomicBool>,
    panicked: AtomicBool,
    stop: AtomicBool,
}

// SAFETY: the address may go to another thread, since what it leads to is `Sync`; that it leads
// somewhere while it is used is shown in the module's header.
unsafe impl Send for Shared {}
// SAFETY: all but `job` is atomic. `job` is written by `run` alone while all members wait, and read
// by members before they take themselves off `busy`: points 1 and 2 of the header.
unsafe impl Sync for Shared {}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team")
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

impl Team {
    /// `size` members, the caller included.
    pub(crate) fn new(size: usize) -> std::io::Result<Self> {
        let others = size.max(1) - 1;
        let shared = Arc::new(Shared {
            number: AtomicU32::new(0),
            job: UnsafeCell::new(None),
            busy: AtomicU32::new(0),
            asleep: (0..others).map(|_| AtomicBool::new(false)).collect(),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let mut team = Self {
            shared,
            members: Vec::new(),
            handles: Vec::new(),
        };
        for index in 0..others {
            let shared = Arc::clone(&team.shared);
            let member = thread::Builder::new()
                .name(format!("llama-{}", index + 1))
                .spawn(move || shared.work(index))?;
            team.handles.push(member.thread().clone());
            team.members.push(member);
        }
        Ok(team)
    }

    pub(crate) fn size(&self) -> usize {
        self.members.len() + 1
    }

    /// Calls `job` once for each member, with its number, and waits for all. What members did has
    /// happened when it returns.
    pub(crate) fn run(&mut self, job: impl Fn(usize) + Sync) {
        if self.members.is_empty() {
            return job(0);
        }
        let shared = &*self.shared;
        let borrowed: &(dyn Fn(usize) + Sync) = &job;
        // SAFETY: only the lifetime changes. No member uses the address after this function has
        // returned or unwound: point 3 of the header.
        let forgotten: Job =
            unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), Job>(borrowed) };
        // SAFETY: no member reads it now: all have finished the job before, and none begins until
        // `number` changes below.
        unsafe { *shared.job.get() = Some(forgotten) };
        shared
            .busy
            .store(self.members.len() as u32, Ordering::Relaxed);
        shared.number.fetch_add(1, Ordering::SeqCst);
        for (asleep, member) in shared.asleep.iter().zip(&self.handles) {
            if asleep.load(Ordering::SeqCst) {
                member.unpark();
            }
        }
        let own = catch_unwind(AssertUnwindSafe(|| job(0)));
        let mut looks = 0;
        while shared.busy.load(Ordering::Acquire) > 0 {
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
        if let Err(panic) = own {
            std::panic::resume_unwind(panic);
        }
        assert!(
            !shared.panicked.load(Ordering::Relaxed),
            "a member of the team panicked"
        );
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.number.fetch_add(1, Ordering::SeqCst);
        for member in &self.handles {
            member.unpark();
        }
        for member in self.members.drain(..) {
            // It catches its panics, and a panic here would abort.
            let _ = member.join();
        }
    }
}

impl Shared {
    fn work(&self, index: usize) {
        let mut seen = 0;
        loop {
            seen = self.wait_for_change(seen, index);
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            // SAFETY: `run` wrote it before it changed the number, and writes again only after this
            // member has taken itself off `busy`.
            if let Some(job) = unsafe { *self.job.get() } {
                let done = catch_unwind(AssertUnwindSafe(|| {
                    // SAFETY: `run` waits for this member, so the closure is still there.
                    unsafe { (*job)(index + 1) }
                }));
                if done.is_err() {
                    self.panicked.store(true, Ordering::Relaxed);
                }
            }
            self.busy.fetch_sub(1, Ordering::Release);
        }
    }

    fn wait_for_change(&self, seen: u32, index: usize) -> u32 {
        let mut looks = 0;
        loop {
            let number = self.number.load(Ordering::SeqCst);
            if number != seen {
                return number;
            }
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
                continue;
            }
            self.asleep[index].store(true, Ordering::SeqCst);
            // The number may have changed between the look and the mark.
            if self.number.load(Ordering::SeqCst) == seen {
                thread::park();
            }
            self.asleep[index].store(false, Ordering::SeqCst);
            looks = 0;
        }
    }
}

/// Member `member`'s share of `count` things, in whole parts of `part`.
pub(crate) fn share(
    count: usize,
    part: usize,
    member: usize,
    members: usize,
) -> std::ops::Range<usize> {
    let parts = count.div_ceil(part);
    let at = |member: usize| (parts * member / members * part).min(count);
    at(member)..at(member + 1)
}
