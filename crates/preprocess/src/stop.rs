//! Ends a streamed text at a stop string.
//!
//! A stop string may come in pieces, so the end of the text that could be the start of one
//! is held back; everything before it goes out at once. The stop string whose last character
//! comes first ends the text; if two end together, the longer. That rule depends on the
//! text alone, so the answer is the same however the text was cut into tokens: a property
//! test says so.

#[cfg(test)]
mod tests;

use memchr::memmem::Finder;

/// Watches one answer for its stop strings.
#[derive(Debug)]
pub struct StopMatcher {
    stops: Vec<Finder<'static>>,
    /// The end of the text that has not gone out.
    held: String,
    stopped: bool,
}

impl StopMatcher {
    /// None of `stops` may be empty.
    pub fn new(stops: &[String]) -> Self {
        let stops = stops
            .iter()
            .map(|stop| Finder::new(stop).into_owned())
            .collect();
        Self {
            stops,
            held: String::new(),
            stopped: false,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.stops.is_empty()
    }

    /// Appends to `out` what is certain to come before any stop string. Returns whether the
    /// text has ended; what comes after is ignored.
    pub fn push(&mut self, text: &str, out: &mut String) -> bool {
        if self.stopped || text.is_empty() {
            return self.stopped;
        }
        self.held.push_str(text);
        if let Some(start) = self.find() {
            out.push_str(&self.held[..start]);
            self.held.clear();
            self.stopped = true;
            return true;
        }
        let certain = self.held.len() - self.possible_start();
        out.push_str(&self.held[..certain]);
        self.held.drain(..certain);
        false
    }

    /// Appends what was held back, when no more text comes.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&self.held);
        self.held.clear();
    }

    /// Where the stop string starts that ends the text.
    fn find(&self) -> Option<usize> {
        let first = |stop: &Finder<'_>| {
            let start = stop.find(self.held.as_bytes())?;
            Some((start + stop.needle().len(), start))
        };
        self.stops
            .iter()
            .filter_map(first)
            .min()
            .map(|(_, start)| start)
    }

    /// How many bytes at the end could be the start of a stop string. A stop string starts
    /// with a whole character, so the cut before them is between characters.
    fn possible_start(&self) -> usize {
        let held = self.held.as_bytes();
        let longest = |stop: &Finder<'_>| {
            let needle = stop.needle();
            (1..needle.len())
                .rev()
                .find(|&length| held.ends_with(&needle[..length]))
                .unwrap_or(0)
        };
        self.stops.iter().map(longest).max().unwrap_or(0)
    }
}
