//! What a measurement window saw.
//!
//! # Definitions
//!
//! - A request belongs to the window in which it was **sent**. What it does later counts,
//!   even beyond the window's end, so that slow requests are not lost at the edge.
//! - **TTFT**: from sending to the first token. **Latency** (`e2e`): from sending to the
//!   last token.
//! - **TPOT**: from the first to the last token, over the tokens that came after the first
//!   chunk. **ITL**: the gap before a chunk, spread over its tokens, each token counted.
//! - **Throughput** counts the tokens and the completions that fall into the window, whoever
//!   sent the request: it is a rate, and the window is its time.

use std::time::Duration;

use contract::Moment;

use crate::histogram::Histogram;
use crate::samples::Samples;

/// The time that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub begin: Moment,
    pub end: Moment,
}

impl Window {
    pub fn contains(&self, at: Moment) -> bool {
        self.begin <= at && at < self.end
    }

    pub fn length(&self) -> Duration {
        self.end - self.begin
    }
}

/// What one request needs to be measured by.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    sent: Moment,
    /// When the first token came, and how many with it.
    first: Option<(Moment, u32)>,
    last: Moment,
    tokens: u32,
    turn: usize,
    counted: bool,
}

/// What requests of one turn number felt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnTally {
    pub ttft: Samples,
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
}

/// The figures of one window, or of several pooled.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    window: Window,
    /// Sum of the windows' lengths.
    measured: Duration,
    open: u64,
    /// Sent in the window.
    pub requests: u64,
    /// Of those, failed or not finished when the run ended.
    pub errors: u64,
    pub ttft: Samples,
    pub tpot: Samples,
    pub e2e: Samples,
    pub itl: Histogram,
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
    /// By turn number, from the first.
    pub turns: Vec<TurnTally>,
    /// Tokens that arrived within the window.
    pub output_tokens: u64,
    /// Requests that finished within the window.
    pub completed: u64,
}

impl Tally {
    pub fn new(window: Window) -> Self {
        Self {
            window,
            measured: window.length(),
            open: 0,
            requests: 0,
            errors: 0,
            ttft: Samples::default(),
            tpot: Samples::default(),
            e2e: Samples::default(),
            itl: Histogram::default(),
            prompt_tokens: 0,
            cached_tokens: 0,
            turns: Vec::new(),
            output_tokens: 0,
            completed: 0,
        }
    }

    /// A request is sent, for a turn that is counted from 0.
    pub fn send(&mut self, turn: u32, now: Moment) -> Stopwatch {
        let counted = self.window.contains(now);
        self.requests += u64::from(counted);
        self.open += u64::from(counted);
        Stopwatch {
            sent: now,
            first: None,
            last: now,
            tokens: 0,
            turn: turn as usize,
            counted,
        }
    }

    /// A request's prompt has been computed, as far as it was not cached.
    pub fn start(&mut self, watch: &Stopwatch, prompt_tokens: u32, cached_tokens: u32) {
        if watch.counted {
            self.prompt_tokens += u64::from(prompt_tokens);
            self.cached_tokens += u64::from(cached_tokens);
            let turn = self.turn(watch.turn);
            turn.prompt_tokens += u64::from(prompt_tokens);
            turn.cached_tokens += u64::from(cached_tokens);
        }
    }

    fn turn(&mut self, number: usize) -> &mut TurnTally {
        if self.turns.len() <= number {
            self.turns.resize(number + 1, TurnTally::default());
        }
        &mut self.turns[number]
    }

    /// Tokens arrive.
    pub fn chunk(&mut self, watch: &mut Stopwatch, tokens: u32, now: Moment) {
        if tokens == 0 {
            return;
        }
        if self.window.contains(now) {
            self.output_tokens += u64::from(tokens);
        }
        if watch.first.is_none() {
            watch.first = Some((now, tokens));
            if watch.counted {
                self.ttft.push(now - watch.sent);
                self.turn(watch.turn).ttft.push(now - watch.sent);
            }
        } else if watch.counted {
            let gap = now.as_nanos().saturating_sub(watch.last.as_nanos());
            self.itl
                .record_nanos(gap / u64::from(tokens), u64::from(tokens));
        }
        watch.last = now;
        watch.tokens += tokens;
    }

    /// A request's answer is complete.
    pub fn finish(&mut self, watch: &Stopwatch, now: Moment) {
        self.completed += u64::from(self.window.contains(now));
        if !watch.counted {
            return;
        }
        self.open -= 1;
        self.e2e.push(now - watch.sent);
        if let Some((first, tokens)) = watch.first
            && watch.tokens > tokens
        {
            self.tpot
                .push((watch.last - first) / (watch.tokens - tokens));
        }
    }

    /// A request ends without its answer.
    pub fn fail(&mut self, watch: &Stopwatch) {
        if watch.counted {
            self.open -= 1;
            self.errors += 1;
        }
    }

    /// Whether nothing more can change the figures.
    pub fn is_settled(&self, now: Moment) -> bool {
        now >= self.window.end && self.open == 0
    }

    /// The run is over: what has not finished counts as failed.
    pub fn close(&mut self) {
        self.errors += std::mem::take(&mut self.open);
    }

    /// Ends the window now, for runs that last as long as their load does.
    pub fn end_window(&mut self, now: Moment) {
        self.window.end = now;
        self.measured = self.window.length();
    }

    /// Adds another window's figures.
    pub fn merge(&mut self, other: &Self) {
        self.measured += other.measured;
        self.requests += other.requests;
        self.errors += other.errors;
        self.ttft.merge(&other.ttft);
        self.tpot.merge(&other.tpot);
        self.e2e.merge(&other.e2e);
        self.itl.merge(&other.itl);
        self.prompt_tokens += other.prompt_tokens;
        self.cached_tokens += other.cached_tokens;
        for (number, other) in other.turns.iter().enumerate() {
            let turn = self.turn(number);
            turn.ttft.merge(&other.ttft);
            turn.prompt_tokens += other.prompt_tokens;
            turn.cached_tokens += other.cached_tokens;
        }
        self.output_tokens += other.output_tokens;
        self.completed += other.completed;
    }

    /// Output tokens in a second.
    pub fn tokens_per_second(&self) -> f64 {
        self.output_tokens as f64 / self.measured.as_secs_f64()
    }

    /// Completed requests in a second.
    pub fn requests_per_second(&self) -> f64 {
        self.completed as f64 / self.measured.as_secs_f64()
    }

    /// The share of prompt tokens that came out of the cache, 0 to 1.
    pub fn hit_rate(&self) -> f64 {
        self.cached_tokens as f64 / self.prompt_tokens as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::ZERO + Duration::from_millis(millis)
    }

    fn tally() -> Tally {
        Tally::new(Window {
            begin: at(1000),
            end: at(2000),
        })
    }

    fn millis(samples: &Samples) -> f64 {
        (samples.percentiles().expect("a sample").p50 * 1000.0).round()
    }

    #[test]
    fn a_request_is_measured_by_its_chunks() {
        let mut tally = tally();
        let mut watch = tally.send(0, at(1500));
        tally.start(&watch, 100, 40);
        tally.chunk(&mut watch, 2, at(1600));
        tally.chunk(&mut watch, 4, at(1640));
        tally.chunk(&mut watch, 1, at(1700));
        tally.chunk(&mut watch, 0, at(1720));
        tally.finish(&watch, at(1720));
        assert_eq!((tally.requests, tally.errors, tally.completed), (1, 0, 1));
        assert_eq!((millis(&tally.ttft), millis(&tally.e2e)), (100.0, 220.0));
        // 100 ms for the five tokens after the first chunk.
        assert_eq!(millis(&tally.tpot), 20.0);
        assert_eq!(tally.itl.total(), 5);
        let itl = tally.itl.percentiles().expect("tokens").scaled(1000.0);
        assert!((itl.p50 - 10.0).abs() < 0.01 && (itl.p95 - 60.0).abs() < 0.06);
        assert!((tally.hit_rate() - 0.4).abs() < 1e-12);
        assert_eq!(
            (tally.tokens_per_second(), tally.requests_per_second()),
            (7.0, 1.0)
        );
    }

    #[test]
    fn requests_belong_to_the_window_in_which_they_were_sent() {
        let mut tally = tally();
        let mut early = tally.send(0, at(999));
        let mut inside = tally.send(0, at(1999));
        let late = tally.send(0, at(2000));
        tally.chunk(&mut early, 1, at(1200));
        tally.finish(&early, at(1200));
        tally.finish(&late, at(2500));
        assert_eq!(
            (tally.requests, tally.ttft.len(), tally.e2e.len()),
            (1, 0, 0)
        );
        // Throughput is what happened in the window, whoever asked for it.
        assert_eq!((tally.output_tokens, tally.completed), (1, 1));
        assert!(!tally.is_settled(at(2500)));
        tally.chunk(&mut inside, 1, at(3000));
        tally.finish(&inside, at(3000));
        assert!(tally.is_settled(at(3000)) && !tally.is_settled(at(1999)));
        assert_eq!((millis(&tally.e2e), tally.output_tokens), (1001.0, 1));
    }

    #[test]
    fn what_fails_or_does_not_finish_is_an_error() {
        let mut tally = tally();
        let failed = tally.send(0, at(1000));
        tally.fail(&failed);
        let before = tally.send(0, at(0));
        tally.fail(&before);
        tally.send(0, at(1001));
        assert!(!tally.is_settled(at(5000)));
        tally.close();
        assert_eq!((tally.requests, tally.errors), (2, 2));
    }

    #[test]
    fn pooled_windows_give_rates_over_all_their_time() {
        let mut pooled = tally();
        for _ in 0..2 {
            let mut other = tally();
            let mut watch = other.send(0, at(1100));
            other.chunk(&mut watch, 30, at(1200));
            other.finish(&watch, at(1200));
            pooled.merge(&other);
        }
        assert_eq!((pooled.requests, pooled.ttft.len()), (2, 2));
        assert_eq!(pooled.tokens_per_second(), 20.0);
    }

    #[test]
    fn turns_are_told_apart_and_pooled() {
        let mut tally = tally();
        for (turn, ttft, cached) in [(0, 300, 0), (2, 100, 90), (2, 200, 70)] {
            let mut watch = tally.send(turn, at(1000));
            tally.start(&watch, 100, cached);
            tally.chunk(&mut watch, 1, at(1000 + ttft));
            tally.finish(&watch, at(1500));
        }
        let mut pooled = tally.clone();
        pooled.merge(&tally);
        for (tally, runs) in [(tally, 1), (pooled, 2)] {
            let told = tally.turns.iter();
            let told: Vec<_> = told
                .map(|turn| (turn.ttft.len(), turn.prompt_tokens, turn.cached_tokens))
                .collect();
            let one = [(1, 100, 0), (0, 0, 0), (2, 200, 160)];
            let all = one.map(|(samples, prompt, cached)| {
                (runs * samples, runs as u64 * prompt, runs as u64 * cached)
            });
            assert_eq!(told, all);
        }
    }
}
