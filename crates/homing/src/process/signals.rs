//! SIGTERM and Ctrl-C.
//!
//! Listening and waiting are two things: whoever has begun to listen hears of a signal that
//! came while it was busy starting, and can still take down what it has started.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Hears every signal from [`listen`](Self::listen) on. The process no longer ends by them.
#[derive(Debug)]
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The next one, which may have come already.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The next signal from now on.
pub(crate) async fn stop_signal() -> anyhow::Result<()> {
    StopSignals::listen()?.next().await;
    Ok(())
}
