//! Recorded requests: one JSON object a line, in the format of Dynamo's request traces.
//!
//! A line says when a request came and how long it took, how long its prompt and its answer were,
//! and which blocks the prompt consists of, as hashes: enough to send the same load again, without
//! a word of what was said. Servers write lines with a [`Recorder`]; a replay reads them.

mod line;
mod recorder;

pub use line::{AgentContext, Line, Replay, Request, SCHEMA};
pub use recorder::{OpenError, RecordFile, Recorder};
