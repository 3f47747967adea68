//! A request's place in a distributed trace, as W3C Trace Context writes it.
//!
//! A client that traces sends `traceparent` (which trace, which of its spans asks, whether the trace
//! is recorded) and perhaps `tracestate` (what others keep with it). Both go on to whoever computes
//! the answer, with our span in place of the client's where we record one.
//!
//! A header that is wrong in any way is taken for none: nothing that a client writes there may fail
//! its request.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The headers' names; those of gRPC metadata too.
pub const TRACEPARENT: &str = "traceparent";
pub const TRACESTATE: &str = "tracestate";

/// Length of a `traceparent` of version 00; later versions may append to it.
const PARENT_LENGTH: usize = 55;
/// A `tracestate` that is longer, or lists more, need not be passed on.
const MOST_STATE_BYTES: usize = 512;
const MOST_STATE_MEMBERS: usize = 32;

const SAMPLED: u8 = 1;
/// The trace id was drawn at random.
const RANDOM: u8 = 2;

/// Names a trace. Never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(u128);

/// Names a span of a trace. Never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(u64);

impl TraceId {
    /// `None` for zero, which names nothing.
    pub fn new(id: u128) -> Option<Self> {
        (id != 0).then_some(Self(id))
    }

    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The part that is random wherever the id was drawn: the lowest 56 bits.
    pub fn randomness(self) -> u64 {
        self.0 as u64 & ((1 << 56) - 1)
    }
}

impl SpanId {
    /// `None` for zero, which names nothing.
    pub fn new(id: u64) -> Option<Self> {
        (id != 0).then_some(Self(id))
    }

    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceId({self})")
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpanId({self})")
    }
}

/// Whose span asks, and in which trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub trace: TraceId,
    pub span: SpanId,
    flags: u8,
    /// What other systems keep with the trace; handed on as it came.
    state: Option<Arc<str>>,
}

/// The header is no `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent")]
pub struct NoTraceParent;

impl TraceContext {
    /// A trace that begins here, with an id drawn at random.
    pub fn root(trace: TraceId, span: SpanId, sampled: bool) -> Self {
        Self {
            trace,
            span,
            flags: RANDOM | if sampled { SAMPLED } else { 0 },
            state: None,
        }
    }

    /// Whether whoever asks records the trace.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The flags as spans report them.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// The same trace with another span as the one that asks.
    #[must_use]
    pub fn with_span(&self, span: SpanId) -> Self {
        Self {
            span,
            ..self.clone()
        }
    }

    /// With what the `tracestate` headers say, in their order. One that is too long, or that no
    /// header may contain, is left out.
    #[must_use]
    pub fn with_state<'a>(mut self, headers: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut joined = String::new();
        for header in headers {
            let text = match std::str::from_utf8(header) {
                Ok(text) if text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) => text,
                _ => return self,
            };
            if text.trim().is_empty() {
                continue;
            }
            if !joined.is_empty() {
                joined.push(',');
            }
            joined.push_str(text.trim());
            if joined.len() > MOST_STATE_BYTES {
                return self;
            }
        }
        if !joined.is_empty() && joined.split(',').count() <= MOST_STATE_MEMBERS {
            self.state = Some(joined.into());
        }
        self
    }

    /// The `traceparent` header that says this.
    pub fn parent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl FromStr for TraceContext {
    type Err = NoTraceParent;

    /// Reads a `traceparent`.
    fn from_str(text: &str) -> Result<Self, NoTraceParent> {
        let bytes = text.as_bytes();
        if bytes.len() < PARENT_LENGTH || !text.is_ascii() {
            return Err(NoTraceParent);
        }
        let dashes = [2, 35, 52].iter().all(|place| bytes[*place] == b'-');
        let version = hex(&text[..2])?;
        let fits = match version {
            0xff => false,
            0 => bytes.len() == PARENT_LENGTH,
            _ => bytes.len() == PARENT_LENGTH || bytes[PARENT_LENGTH] == b'-',
        };
        if !dashes || !fits {
            return Err(NoTraceParent);
        }
        let span = u64::try_from(hex(&text[36..52])?).map_err(|_| NoTraceParent)?;
        let flags = u8::try_from(hex(&text[53..55])?).map_err(|_| NoTraceParent)?;
        Ok(Self {
            trace: TraceId::new(hex(&text[3..35])?).ok_or(NoTraceParent)?,
            span: SpanId::new(span).ok_or(NoTraceParent)?,
            // Those whose meaning we know; the others must not be handed on.
            flags: flags & (SAMPLED | RANDOM),
            state: None,
        })
    }
}

/// Lower-case digits alone, unlike the standard library's, which takes capitals and a sign.
fn hex(digits: &str) -> Result<u128, NoTraceParent> {
    let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    match digits.bytes().all(lower) {
        true => u128::from_str_radix(digits, 16).map_err(|_| NoTraceParent),
        false => Err(NoTraceParent),
    }
}

#[cfg(test)]
mod tests;
