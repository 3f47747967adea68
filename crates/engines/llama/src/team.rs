//! Threads that work on one thing together, many times a millisecond.
//!
//! A step has hundreds of parts of some microseconds each, and after each all must be done.
//! Members therefore look for the next part for a while before they sleep. The caller is
//! member 0 and works too.

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

/// Looks before sleeping: some tens of microseconds.
const LOOKS: u32 = 500;

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

// The job is written before `number` changes and read after, and outlives `busy`.
unsafe impl Send for Shared {}
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

    /// Calls `job` once for each member, with its number, and waits for all.
    pub(crate) fn run(&mut self, job: impl Fn(usize) + Sync) {
        if self.members.is_empty() {
            return job(0);
        }
        let shared = &*self.shared;
        let borrowed: &(dyn Fn(usize) + Sync) = &job;
        // Nobody holds it when this returns, so the lifetime may be forgotten.
        let forgotten: Job = unsafe { std::mem::transmute::<_, Job>(borrowed) };
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
            if let Some(job) = unsafe { *self.job.get() } {
                let done = catch_unwind(AssertUnwindSafe(|| unsafe { (*job)(index + 1) }));
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
