//! SIGTERM and Ctrl-C, and SIGHUP.
//!
//! Listening and waiting are separate: a process that has begun to listen notices a signal that
//! came while it was busy starting, and can still shut down what it has started.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives every signal from [`listen`](Self::listen) on. They no longer end the process.
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

/// SIGHUP, by which an operator asks to read the configuration again. It no longer ends the process.
#[derive(Debug)]
pub(crate) struct ReloadSignal(Signal);

impl ReloadSignal {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        Ok(Self(signal(SignalKind::hangup())?))
    }

    /// The next one, which may have come already.
    pub(crate) async fn next(&mut self) {
        self.0.recv().await;
    }
}

/// The next signal from now on.
pub(crate) async fn stop_signal() -> anyhow::Result<()> {
    StopSignals::listen()?.next().await;
    Ok(())
}
