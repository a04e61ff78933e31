//! Signals for programs that run until they are terminated.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use super::Screen;
use crate::transport::Interrupted;

/// Default of the maximum time for connections to end after SIGTERM.
pub(super) const DRAIN: Duration = Duration::from_secs(60);

/// Returns a future that waits for SIGTERM, which no longer ends the program.
pub(super) fn terminated() -> impl Future<Output = ()> {
    let signals = signal(SignalKind::terminate());
    async move {
        match signals {
            Ok(mut signals) => _ = signals.recv().await,
            Err(_) => std::future::pending().await,
        }
    }
}

/// Signals to reload configuration (SIGHUP). There are none at a terminal, whose end also sends SIGHUP.
pub(super) struct Hangups(Option<Signal>);

impl Hangups {
    pub(super) fn new() -> Self {
        Self(if io::stderr().is_terminal() { None } else { signal(SignalKind::hangup()).ok() })
    }

    pub(super) async fn next(&mut self) {
        if let Some(signals) = &mut self.0
            && signals.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}

/// Waits for SIGHUP, which no longer ends the program, and then for the time `patience`.
pub(super) async fn hung_up(patience: Duration) {
    match signal(SignalKind::hangup()) {
        Ok(mut signals) => signals.recv().await,
        Err(_) => std::future::pending().await,
    };
    tokio::time::sleep(patience).await;
}

/// Waits for SIGINT or SIGTERM.
pub(super) async fn ended() {
    tokio::select! {
        () = terminated() => {}
        () = interrupted() => {}
    }
}

/// Waits for SIGINT.
pub(super) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // No signal handler could be installed.
        std::future::pending::<()>().await;
    }
}

/// Waits for `work` to end after SIGTERM, for as long as `patience`. A second signal interrupts the wait.
pub(super) async fn drain(work: impl Future<Output = ()>, patience: Duration, screen: &Screen) -> Result<()> {
    tokio::select! {
        ended = timeout(patience, work) => {
            if ended.is_err() {
                screen.warn("connections in progress are reset");
            }
            Ok(())
        }
        () = terminated() => Err(Interrupted.into()),
    }
}
