//! The model under the engine's own scheduler.
