//! The last quarter of an hour, one point per second: what charts begin with when a page opens.
//!
//! A point is made from a [`State`] alone, so a page that goes on by itself from the states it
//! receives draws the same curve. One task fills the ring, whether anybody looks or not, at
//! the beat at which states are sent: another clock would see some seconds twice.
//!
//! # Guarantees
//!
//! - **Bounded.** At most [`MOST_POINTS`] points, none older than [`SPAN_MS`].
//! - **Ordered.** Oldest first; a clock that was set back leaves no loop in a chart.

use std::collections::VecDeque;

use contract::WorkerId;
use serde::Serialize;
use ts_rs::TS;

use crate::Console;
use crate::state::State;
use crate::stream::NextUpdate;

/// Points that are kept.
const MOST_POINTS: usize = 900;

/// Milliseconds that points are kept for.
const SPAN_MS: u64 = 900_000;

/// Closer than this to the last, a state is no second of its own but a change of phase.
const LEAST_STEP_MS: u64 = 500;

/// At most the last 15 minutes, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, TS)]
pub struct History {
    pub points: Vec<HistoryPoint>,
}

/// One second. Latencies and rates are those of the minute before it.
#[derive(Clone, Debug, PartialEq, Serialize, TS)]
pub struct HistoryPoint {
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    pub mode: String,
    /// Active conversations.
    pub conversations: u32,
    pub ttft_ms_p50: Option<f64>,
    pub ttft_ms_p95: Option<f64>,
    pub tpot_ms_p50: Option<f64>,
    pub tpot_ms_p95: Option<f64>,
    pub cached_pct: Option<f64>,
    pub rps: f64,
    pub tops: f64,
    /// Requests that wait for a worker.
    pub queued: Option<u64>,
    pub in_flight: Vec<WorkerInFlight>,
}

/// Requests on one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, TS)]
pub struct WorkerInFlight {
    pub worker: WorkerId,
    pub in_flight: u32,
}

impl HistoryPoint {
    pub fn of(state: &State) -> Self {
        let window = state.load.as_ref().map(|load| load.window);
        let window = window.unwrap_or_default();
        let system = &state.system;
        let in_flight = system.workers.iter().map(|worker| WorkerInFlight {
            worker: worker.id,
            in_flight: worker.in_flight,
        });
        let load = state.load.as_ref();
        Self {
            at_ms: state.at_ms,
            mode: system.router.mode.clone(),
            conversations: load.map_or(0, |load| load.conversations.active),
            ttft_ms_p50: window.ttft_ms.p50,
            ttft_ms_p95: window.ttft_ms.p95,
            tpot_ms_p50: window.tpot_ms.p50,
            tpot_ms_p95: window.tpot_ms.p95,
            cached_pct: window.cached_pct,
            rps: window.rps,
            tops: window.tops,
            queued: system.requests.queued,
            in_flight: in_flight.collect(),
        }
    }
}

/// The points that are kept.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    points: VecDeque<HistoryPoint>,
}

impl Ring {
    pub(crate) fn push(&mut self, point: HistoryPoint) {
        let (latest, at_ms) = (self.points.back(), point.at_ms);
        if latest.is_some_and(|latest| at_ms < latest.at_ms + LEAST_STEP_MS) {
            return;
        }
        self.points.push_back(point);
        let has_left = |oldest: &HistoryPoint| oldest.at_ms + SPAN_MS <= at_ms;
        while self.points.len() > MOST_POINTS || self.points.front().is_some_and(has_left) {
            self.points.pop_front();
        }
    }

    pub(crate) fn copy(&self) -> History {
        History {
            points: self.points.iter().cloned().collect(),
        }
    }
}

impl Console {
    /// Remembers how things are, every second, until the console closes.
    pub async fn keep_history(self) {
        let mut beat = NextUpdate::new(&self);
        let keeping = async {
            loop {
                let point = HistoryPoint::of(&self.state(beat.newest(), false));
                self.inner.history.lock().push(point);
                beat.next().await;
            }
        };
        self.inner.closing.run_until_cancelled(keeping).await;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn point(at_ms: u64) -> HistoryPoint {
        HistoryPoint {
            at_ms,
            mode: "kv".to_owned(),
            conversations: 0,
            ttft_ms_p50: None,
            ttft_ms_p95: None,
            tpot_ms_p50: None,
            tpot_ms_p95: None,
            cached_pct: None,
            rps: 0.0,
            tops: 0.0,
            queued: None,
            in_flight: Vec::new(),
        }
    }

    fn times(ring: &Ring) -> Vec<u64> {
        let points = ring.copy().points;
        points.iter().map(|point| point.at_ms).collect()
    }

    #[test]
    fn the_oldest_leave() {
        let mut ring = Ring::default();
        for second in 0..1000 {
            ring.push(point(second * 1000));
        }
        let kept = times(&ring);
        assert_eq!((kept.len(), kept[0]), (MOST_POINTS, 100_000));
        // After a pause of the machine only the new one is young enough.
        ring.push(point(5_000_000));
        assert_eq!(times(&ring), [5_000_000]);
    }

    proptest! {
        #[test]
        fn any_clock_leaves_a_bounded_ascending_history(
            steps in prop::collection::vec(-2_000_i64..20_000, 0..2_500)
        ) {
            let mut ring = Ring::default();
            let mut now = 1_000_000_000_i64;
            for step in steps {
                now += step;
                ring.push(point(now as u64));
            }
            let kept = times(&ring);
            prop_assert!(kept.len() <= MOST_POINTS);
            prop_assert!(kept.is_sorted_by(|left, right| left < right));
            if let (Some(oldest), Some(latest)) = (kept.first(), kept.last()) {
                prop_assert!(latest - oldest < SPAN_MS);
            }
        }
    }
}
