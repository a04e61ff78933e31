//! Signals for programs that run until they are terminated.

use std::time::Duration;

use anyhow::Result;
use tokio::time::timeout;

use super::Screen;
use crate::transport::Interrupted;

/// Maximum time for connections to end after SIGTERM.
const DRAIN: Duration = Duration::from_secs(60);

/// Returns a future that waits for SIGTERM, which no longer ends the program. On systems without this signal, the
/// future never completes.
pub(super) fn terminated() -> impl Future<Output = ()> {
    #[cfg(unix)]
    let signals = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
    async move {
        #[cfg(unix)]
        if let Ok(mut signals) = signals {
            signals.recv().await;
            return;
        }
        std::future::pending().await
    }
}

/// Signals to reload configuration (SIGHUP). They are not used at a terminal, which also sends SIGHUP when it closes,
/// and on systems without the signal.
pub(super) struct Hangups {
    #[cfg(unix)]
    signals: Option<tokio::signal::unix::Signal>,
}

impl Hangups {
    pub(super) fn new() -> Self {
        #[cfg(unix)]
        {
            use std::io::IsTerminal as _;

            use tokio::signal::unix::{SignalKind, signal};
            let interactive = std::io::stderr().is_terminal();
            Self { signals: if interactive { None } else { signal(SignalKind::hangup()).ok() } }
        }
        #[cfg(not(unix))]
        Self {}
    }

    pub(super) async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signals) = &mut self.signals
            && signals.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}

/// Waits for SIGHUP, which no longer ends the program, and then for `patience`.
#[cfg(unix)]
pub(super) async fn hung_up(patience: Duration) {
    use tokio::signal::unix::{SignalKind, signal};
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

/// Waits up to [`DRAIN`] for `work` to end after SIGTERM. A second signal interrupts the wait.
pub(super) async fn drain(work: impl Future<Output = ()>, screen: &Screen) -> Result<()> {
    tokio::select! {
        ended = timeout(DRAIN, work) => {
            if ended.is_err() {
                screen.warn("connections in progress are reset");
            }
            Ok(())
        }
        () = terminated() => Err(Interrupted.into()),
    }
}
