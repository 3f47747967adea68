//! The router's lock: `parking_lot`'s, and in tests one that a model checker can interrupt.
//!
//! A thread can be interrupted anywhere, but what it does under the lock nobody can see half
//! done. So the places that matter are before the lock is taken and after it is let go, and
//! there a model of several threads, run on one, may turn to another of them. A lock that is
//! taken twice, or held while another thread runs, fails the test at once instead of hanging.

#[cfg(not(test))]
pub(crate) use parking_lot::Mutex;
#[cfg(test)]
pub(crate) use tested::Mutex;

#[cfg(test)]
pub(crate) mod tested {
    use std::cell::Cell;
    use std::ops::{Deref, DerefMut};

    use parking_lot::MutexGuard;

    thread_local! {
        static IS_MODEL: Cell<bool> = const { Cell::new(false) };
    }

    /// Runs a model. Its threads are no threads of the system, so they share the mark.
    pub(crate) fn as_model(run: impl FnOnce()) {
        struct Unmark;
        impl Drop for Unmark {
            fn drop(&mut self) {
                IS_MODEL.set(false);
            }
        }
        let _unmark = Unmark;
        IS_MODEL.set(true);
        run();
    }

    /// Anyone may go on here.
    fn interrupt() {
        if IS_MODEL.get() && !std::thread::panicking() {
            shuttle::thread::yield_now();
        }
    }

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(parking_lot::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> Guard<'_, T> {
            interrupt();
            let guard = if IS_MODEL.get() {
                self.0.try_lock().expect("nobody is interrupted under it")
            } else {
                self.0.lock()
            };
            Guard(Some(guard))
        }

        /// For a test's own look, which is no part of what it tests.
        pub(crate) fn look(&self) -> MutexGuard<'_, T> {
            self.0.try_lock().expect("nobody else looks meanwhile")
        }
    }

    pub(crate) struct Guard<'a, T>(Option<MutexGuard<'a, T>>);

    impl<T> Deref for Guard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("held until dropped")
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("held until dropped")
        }
    }

    impl<T> Drop for Guard<'_, T> {
        fn drop(&mut self) {
            self.0 = None;
            interrupt();
        }
    }
}
