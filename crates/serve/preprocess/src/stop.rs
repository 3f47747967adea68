//! Ends a streamed text at a stop string.
//!
//! A stop string may come in pieces, so the end of the text that could be the start of one
//! is held back; everything before it goes out at once. The stop string whose last character
//! comes first ends the text; if two end together, the longer. That rule depends on the
//! text alone, so the answer is the same however the text was cut into tokens: a property
//! test says so.
//!
//! How much of a stop string the text ends with is all there is to remember of it, after Knuth,
//! Morris and Pratt. A byte of text costs a few comparisons for each stop string, however
//! long those are.

#[cfg(test)]
mod tests;

/// Watches one answer for its stop strings.
#[derive(Debug)]
pub struct StopMatcher {
    stops: Vec<Stop>,
    /// The end of the text that has not gone out.
    held: String,
    stopped: bool,
    /// The stop string that ended the text.
    by: Option<usize>,
}

/// One stop string, and how much of it the text ends with.
#[derive(Debug)]
struct Stop {
    text: Box<[u8]>,
    /// For each length of a beginning of `text`, how long the longest shorter beginning is
    /// that this one ends with.
    shorter: Box<[u32]>,
    matched: usize,
}

impl Stop {
    fn new(text: &str) -> Self {
        let text: Box<[u8]> = text.as_bytes().into();
        let mut shorter = vec![0; text.len() + 1];
        let mut length = 0_usize;
        for end in 1..text.len() {
            while length > 0 && text[length] != text[end] {
                length = shorter[length] as usize;
            }
            if text[length] == text[end] {
                length += 1;
            }
            shorter[end + 1] = u32::try_from(length).expect("stop strings are short");
        }
        Self {
            text,
            shorter: shorter.into(),
            matched: 0,
        }
    }

    /// Takes the text's next byte. Returns whether the stop string ends with it.
    fn push(&mut self, byte: u8) -> bool {
        while self.matched > 0 && self.text[self.matched] != byte {
            self.matched = self.shorter[self.matched] as usize;
        }
        if self.text[self.matched] == byte {
            self.matched += 1;
        }
        self.matched == self.text.len()
    }
}

impl StopMatcher {
    /// None of `stops` may be empty.
    pub fn new(stops: &[String]) -> Self {
        Self {
            stops: stops.iter().map(|stop| Stop::new(stop)).collect(),
            held: String::new(),
            stopped: false,
            by: None,
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
        let before = self.held.len();
        self.held.push_str(text);
        for (at, byte) in text.bytes().enumerate() {
            let ended = self
                .stops
                .iter_mut()
                .enumerate()
                .filter_map(|(place, stop)| {
                    let length = stop.text.len();
                    stop.push(byte).then_some((length, place))
                });
            // All of them have to see the byte.
            if let Some((longest, place)) = ended.max() {
                self.by = Some(place);
                out.push_str(&self.held[..before + at + 1 - longest]);
                self.held.clear();
                self.stopped = true;
                return true;
            }
        }
        // A stop string starts with a whole character, so this cut is between characters.
        let possible = self.stops.iter().map(|stop| stop.matched).max();
        let certain = self.held.len() - possible.unwrap_or(0);
        out.push_str(&self.held[..certain]);
        self.held.drain(..certain);
        false
    }

    /// The stop string that ended the text, if one did.
    pub fn stopped_by(&self) -> Option<&str> {
        let stop = &self.stops[self.by?];
        std::str::from_utf8(&stop.text).ok()
    }

    /// Appends what was held back, when no more text comes.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&self.held);
        self.held.clear();
    }
}
