//! The activity of one connection, and when its idle time is over.
//!
//! A connection is quiet while it has no request. The time that it may be quiet depends on
//! what came last: nothing at all yet, the beginning of a header, or a whole request. Nobody
//! is woken when that changes: a timer looks again when it is due.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// How an HTTP/2 connection begins.
const HTTP2: &[u8] = b"PRI ";

#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// For a header, and for a pause in a body.
    pub(super) read: Duration,
    /// Longest pause between requests.
    pub(super) idle: Duration,
}

#[derive(Debug)]
pub(super) struct Pulse {
    pub(super) timeouts: Timeouts,
    /// Fires when the server stops.
    pub(super) drain: CancellationToken,
    /// Tells the connection that it has to make room for another.
    dismissed: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The first bytes, as far as they are known.
    opening: [u8; 4],
    opened: usize,
    /// Requests whose answers have not ended.
    requests: usize,
    served: bool,
    /// When the last request ended; before the first, when the connection began.
    since: Instant,
    /// When the first byte came after that.
    stirred: Option<Instant>,
    /// An answer left before its request's body was read.
    unread: bool,
    /// It has to close to make room.
    leaving: bool,
}

impl Pulse {
    pub(super) fn new(timeouts: Timeouts, drain: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            timeouts,
            drain,
            dismissed: Notify::new(),
            state: Mutex::new(State {
                opening: [0; 4],
                opened: 0,
                requests: 0,
                served: false,
                since: Instant::now(),
                stirred: None,
                unread: false,
                leaving: false,
            }),
        })
    }

    /// Records that bytes arrived.
    pub(super) fn read(&self, bytes: &[u8]) {
        let mut state = self.state.lock();
        let State {
            opening, opened, ..
        } = &mut *state;
        for (place, byte) in opening[*opened..].iter_mut().zip(bytes) {
            *place = *byte;
            *opened += 1;
        }
        if state.requests == 0 {
            state.stirred.get_or_insert_with(Instant::now);
        }
    }

    /// A request has come; it lasts as long as the result.
    pub(super) fn request(self: &Arc<Self>) -> Request {
        let mut state = self.state.lock();
        state.requests += 1;
        state.served = true;
        state.leaving = false;
        Request {
            pulse: Arc::clone(self),
        }
    }

    pub(super) fn leave_unread(&self) {
        self.state.lock().unread = true;
    }

    /// Whether the client may still be sending what nobody wants.
    pub(super) fn left_unread(&self) -> bool {
        self.state.lock().unread
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.state.lock().requests == 0
    }

    /// Since when there has been no request, if there is none.
    pub(super) fn quiet_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        (state.requests == 0 && !state.leaving).then_some(state.since)
    }

    /// Asks the connection to end, if it is still quiet.
    pub(super) fn dismiss(&self) {
        self.state.lock().leaving = true;
        self.dismissed.notify_one();
    }

    /// Returns when the connection has been quiet for too long, with what it failed to do.
    pub(super) async fn overdue(&self) -> &'static str {
        loop {
            let (due, reason) = self.due();
            if let (Some(reason), true) = (reason, due <= Instant::now()) {
                return reason;
            }
            tokio::select! {
                () = sleep_until(due) => {}
                () = self.dismissed.notified() => {
                    // A request may have come since.
                    if self.is_quiet() {
                        return "room for another was needed";
                    }
                }
            }
        }
    }

    /// When to look again, and what will be wrong then if nothing changes.
    fn due(&self) -> (Instant, Option<&'static str>) {
        let Timeouts { read, idle } = self.timeouts;
        let state = self.state.lock();
        if state.requests > 0 {
            return (Instant::now() + read.min(idle), None);
        }
        if !state.served {
            return (state.since + read, Some("no request came"));
        }
        match state.stirred {
            // Frames of HTTP/2 come without any request being on its way.
            Some(stirred) if state.opening != HTTP2 => {
                (stirred + read, Some("a header did not end"))
            }
            Some(_) | None => (state.since + idle, Some("no further request came")),
        }
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Request {
    pulse: Arc<Pulse>,
}

impl Drop for Request {
    fn drop(&mut self) {
        let mut state = self.pulse.state.lock();
        state.requests -= 1;
        if state.requests == 0 {
            state.since = Instant::now();
            state.stirred = None;
        }
    }
}
