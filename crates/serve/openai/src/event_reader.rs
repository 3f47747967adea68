//! Reads server-sent events out of bytes as they arrive.
//!
//! Our own few lines, because a client that measures must know which read brought which event,
//! and a parser that hides the reads behind a stream does not tell. Text is decoded a whole
//! line at a time, so a character that two reads share is never seen in halves.
//!
//! # Guarantees
//!
//! - **Reads do not matter.** However the bytes are cut, the events are the same; a property
//!   test says so.
//! - **Bounded.** An event that grows beyond [`LONGEST_EVENT`] is an error, not a leak.

#[cfg(test)]
mod tests;

/// Far more than any server sends at once; a stream that exceeds it is no event stream.
pub const LONGEST_EVENT: usize = 16 << 20;

/// What ends every stream of an OpenAI-compatible server.
pub const DONE: &str = "[DONE]";

/// An event exceeded [`LONGEST_EVENT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {LONGEST_EVENT} bytes")]
pub struct TooLong;

/// Takes bytes, gives the data of complete events.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    /// A line without its end.
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed now belongs to it.
    after_return: bool,
    /// Whether the first line, which may begin with a byte order mark, is over.
    begun: bool,
    /// The lines of the event in the making, each with its line feed.
    data: String,
}

impl Parser {
    /// Takes the next bytes and hands each event that they complete to `event`.
    pub fn push(&mut self, bytes: &[u8], mut event: impl FnMut(&str)) -> Result<(), TooLong> {
        for &byte in bytes {
            let second_half = std::mem::take(&mut self.after_return) && byte == b'\n';
            match byte {
                b'\n' if second_half => {}
                b'\n' | b'\r' => {
                    self.after_return = byte == b'\r';
                    self.end_line(&mut event);
                }
                _ => self.line.push(byte),
            }
            if self.line.len() + self.data.len() > LONGEST_EVENT {
                return Err(TooLong);
            }
        }
        Ok(())
    }

    fn end_line(&mut self, event: &mut impl FnMut(&str)) {
        let mut line = self.line.as_slice();
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            // Every line of data left a line feed, and the last one is not part of the data.
            if let Some(data) = self.data.strip_suffix('\n') {
                event(data);
            }
            self.data.clear();
        } else if let Some(value) = line.strip_prefix(b"data") {
            // `datax: 1` is another field; `data` alone is an empty line.
            let value = match value {
                [] => Some(value),
                [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
                _ => None,
            };
            if let Some(value) = value {
                self.data.push_str(&String::from_utf8_lossy(value));
                self.data.push('\n');
            }
        }
        // Comments, and the fields that no server of this API uses, end here.
        self.line.clear();
    }
}
